"""A trace goes on in whoever is called, and ends with codes, never with texts."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as api
from penstock.client import SchedulerClient
from penstock.model.errors import ConfigError, PenstockError
from penstock.rpc import traces
from penstock.rpc.server import Server
from penstock.rpc.traces import (
    TRACEPARENT,
    server_span,
    span,
    start_trace,
    trace_arguments,
    trace_headers,
    use_span,
)


@pytest.fixture
def spans(monkeypatch) -> Iterator[InMemorySpanExporter]:
    """What is sent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_TRACER", provider.get_tracer("tests"))
    yield exporter
    provider.shutdown()


class Scheduler(api.SchedulerServiceServicer):
    """Answers, or refuses."""

    refuse: PenstockError | None = None

    async def GetCluster(self, request, context):  # noqa: N802 - gRPC's name
        if self.refuse:
            raise self.refuse
        with span("inside"):
            return pb.GetClusterResponse()


def call(folder, scheduler):
    async def main():
        server = Server(f"unix:{folder}/s", grace_s=0.1)
        server.add(api.add_SchedulerServiceServicer_to_server, scheduler)
        async with asyncio.timeout(60), server, SchedulerClient(server.address) as client:
            with span("whole"):
                await client.get_cluster()

    asyncio.run(main())


def test_a_call_is_one_trace_on_both_sides(spans, tmp_path):
    call(tmp_path, Scheduler())
    found = {one.name: one for one in spans.get_finished_spans()}
    server = found["penstock.api.scheduler.v1.SchedulerService/GetCluster"]
    client = found["scheduler.cluster"]
    assert len({one.context.trace_id for one in found.values()}) == 1
    assert server.parent.span_id == client.context.span_id
    assert client.parent.span_id == found["whole"].context.span_id
    assert found["inside"].parent.span_id == server.context.span_id


def test_an_error_is_told_by_its_code_alone(spans, tmp_path):
    scheduler = Scheduler()
    scheduler.refuse = ConfigError("a.b", "the password is hunter2")
    with pytest.raises(ConfigError):
        call(tmp_path, scheduler)
    found = spans.get_finished_spans()
    assert {one.status.description for one in found} == {"a.b"}
    assert "hunter2" not in "".join(one.to_json() for one in found)


def test_work_that_goes_through_several_hands_is_one_trace(spans):
    with span("somebody else's"):
        whole = start_trace("batch", rows=3)
        with use_span(whole):
            assert (
                trace_headers()[TRACEPARENT].split("-")[2]
                == f"{whole.get_span_context().span_id:016x}"
            )
            with span("part"):
                pass
        whole.end()
    part, batch, other = spans.get_finished_spans()
    assert part.parent.span_id == batch.context.span_id
    assert batch.parent is None
    assert other.context.trace_id != batch.context.trace_id


def test_a_caller_without_a_trace_begins_one(spans):
    with server_span("a", (("x", b"binary"), ("user-agent", "grpc"))):
        pass
    ((one),) = spans.get_finished_spans()
    assert one.parent is None


def test_without_a_trace_nothing_is_carried():
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert (trace_headers(), trace_arguments(), trace_arguments((("a", "b"),))) == (
        {},
        {},
        {"metadata": (("a", "b"),)},
    )
    with span("off"):
        assert trace_headers() == {}
