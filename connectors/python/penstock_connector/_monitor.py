"""What a source's monitor is given: the plan in force, a way to ask for another, a bounded wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.error.v1 import diagnostic_pb2 as error_pb
from penstock_connector._errors import ConnectorError
from penstock_connector._values import Partition

Say: TypeAlias = Callable[[pb.MonitorResponse], None]


class Monitor:
    """Watches for a connector's life, in a thread of its own.

    Attributes:
        max_tasks: Most tasks, as `plan` is told.
        stopping: Set when it is to end. Long waits must end when it is.
    """

    def __init__(self, max_tasks: int, say: Say) -> None:
        self.max_tasks = max_tasks
        self.stopping = threading.Event()
        self._say = say
        self._partitions: tuple[Partition, ...] = ()
        self._news = threading.Condition()
        self._woken = False

    @property
    def partitions(self) -> Sequence[Partition]:
        """The partitions of the plan in force, of all tasks."""
        with self._news:
            return self._partitions

    def replan(self, reason: str) -> None:
        """Ask for `plan` to be called again. Tasks whose partitions stay the same go on.

        Ask again while it is not followed: a wish can be lost with the host it was made to.
        """
        self._say(pb.MonitorResponse(replan=pb.Replan(reason=reason)))

    def compare(self, planned: Iterable[Partition]) -> bool:
        """Ask for another plan when the one in force has other partitions than these; tell whether
        it was asked for.
        """
        wanted, now = {p.id for p in planned}, {p.id for p in self.partitions}
        if wanted == now:
            return False
        self.replan(f"{len(wanted - now)} partitions appeared, {len(now - wanted)} are gone")
        return True

    def warn(self, error: ConnectorError) -> None:
        """Tell people something. What the monitor raises fails the connector instead."""
        diagnostic = error.diagnostic()
        diagnostic.severity = error_pb.SEVERITY_WARNING
        self._say(pb.MonitorResponse(diagnostic=diagnostic))

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until there is another plan in force, or `wake`; False: it is to end."""
        with self._news:
            self._news.wait_for(lambda: self._woken or self.stopping.is_set(), seconds)
            self._woken = False
        return not self.stopping.is_set()

    def wake(self) -> None:
        """End a wait. May be called from any thread."""
        with self._news:
            self._woken = True
            self._news.notify_all()

    def take(self, partitions: Iterable[Partition]) -> None:
        """Take in the partitions of the plan in force. The SDK calls it."""
        with self._news:
            self._partitions = tuple(partitions)
        self.wake()

    def stop(self) -> None:
        """Ask for the end. The SDK calls it."""
        self.stopping.set()
        self.wake()
