"""A source's monitor in a test, seen from the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock_connector._source import Source
from penstock_connector._testbed import DEADLINE, Call, Testbed
from penstock_connector._values import Partition, partition_to_proto


class MonitorTask:
    """A monitor that runs.

    Attributes:
        call: The stream, for tests that look closer.
        opened: The monitor's first message.
    """

    def __init__(self, bed: Testbed, first: pb.MonitorRequest) -> None:
        stub = ConnectorServiceStub(bed.channel)
        self.call: Call[pb.MonitorRequest, pb.MonitorResponse] = Call(stub.Monitor, bed.metadata)
        self.call.send(first)
        self.opened = self.until("opened").opened

    def until(self, kind: str, timeout: float = DEADLINE) -> pb.MonitorResponse:
        """Return the next message of a kind, for instance `diagnostic`."""
        while (said := self.call.receive(timeout)) is not None:
            if said.WhichOneof("kind") == kind:
                return said
        raise EOFError(f"the stream ended without {kind}")

    def replan(self, timeout: float = DEADLINE) -> str:
        """Wait until it asks for a new plan; return why."""
        return self.until("replan", timeout).replan.reason

    def tell(self, partitions: Sequence[Partition]) -> None:
        """Tell it the plan in force."""
        self.call.send(pb.MonitorRequest(tasks=[_task(partitions)]))


def _task(partitions: Sequence[Partition]) -> pb.TaskPlan:
    return pb.TaskPlan(task_id="test-0", partitions=[partition_to_proto(p) for p in partitions])


@contextmanager
def source_monitor(
    kind: type[Source[Any]],
    config: Mapping[str, str],
    partitions: Sequence[Partition] = (),
    *,
    max_tasks: int = 2,
    bed: Testbed | None = None,
) -> Iterator[MonitorTask]:
    """Run the monitor of a source.

    Args:
        kind: The source.
        config: Its configuration, as text.
        partitions: Those of the plan in force.
        max_tasks: Most tasks.
        bed: A server to use; one of its own when None.
    """
    if bed is None:
        with (
            Testbed(kind) as own,
            source_monitor(kind, config, partitions, max_tasks=max_tasks, bed=own) as task,
        ):
            yield task
        return
    target = pb.Target(connector=kind.name, instance="test", config=config)
    first = pb.MonitorRequest(target=target, tasks=[_task(partitions)], max_tasks=max_tasks)
    task = MonitorTask(bed, first)
    try:
        yield task
    finally:
        task.call.cancel()
