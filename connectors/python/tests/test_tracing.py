"""A connector is offered the trace that the host's call is a part of."""

from typing import ClassVar

import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock_connector import Sink, TransactionalSink, trace_parent
from penstock_connector.testing import Testbed, sink_task

CALL = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FRAME = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-01"


class Simple(Sink):
    """Notes the trace of each method."""

    name = "simple"
    seen: ClassVar[list[tuple[str, str]]] = []

    @classmethod
    def check(cls, config):
        cls.seen.append(("check", trace_parent()))

    def check_batch(self, dataset, rows):
        self.seen.append(("check_batch", trace_parent()))

    def write_batch(self, dataset, rows):
        self.seen.append(("write_batch", trace_parent()))


class Nothing:
    """A staging that keeps nothing."""

    def put(self, rows):
        Exact.seen.append(("put", trace_parent()))

    def close(self):
        pass

    discard = close


class Exact(TransactionalSink):
    """The same, of a sink that commits."""

    name = "exact"
    seen: ClassVar[list[tuple[str, str]]] = []

    def stage(self, txn_id, slot, attempt, dataset, schema):
        return Nothing()

    def prepare(self, txn_id, epoch, staged, token):
        self.seen.append(("prepare", trace_parent()))
        return b""

    def commit(self, txn_id, epoch, state):
        self.seen.append(("commit", trace_parent()))


class Traced(Testbed):
    """A server whose calls all carry a trace."""

    @property
    def metadata(self):
        return (*super().metadata, ("traceparent", CALL))


def run(kind, bed, parent):
    """Check, then write a row."""
    kind.seen = []
    target = pb.Target(connector=kind.name)
    steps = ConnectorServiceStub(bed.channel).CheckConnection(
        pb.CheckConnectionRequest(target=target), metadata=bed.metadata, timeout=60
    )
    assert all(step.ok for step in steps)
    with sink_task(kind, {}, bed=bed) as task:
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn)
        slots = [sink_pb.PutSlot(slot=0, attempt=0, rows=1)]
        order = sink_pb.WritePrepare(txn_id=txn, slots=slots, traceparent=parent)
        task.send(prepare=order)
        task.until("prepared")
        task.commit(txn)
    return kind.seen


def test_each_method_sees_the_trace_of_its_call():
    """A call tells it in its metadata, the frame that ends a transaction in itself."""
    with Traced(Simple, Exact) as bed:
        seen = run(Simple, bed, FRAME)
        assert seen == [("check", CALL), ("check_batch", CALL), ("write_batch", FRAME)]
        assert run(Exact, bed, FRAME) == [("put", CALL), ("prepare", FRAME), ("commit", FRAME)]


@pytest.mark.parametrize("kind", [Simple, Exact])
def test_without_a_trace_there_is_none(kind):
    with Testbed(kind) as bed:
        assert {trace for _, trace in run(kind, bed, "")} == {""}
