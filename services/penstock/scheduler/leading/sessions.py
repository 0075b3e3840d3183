"""The open sessions of workers: for each one the newest assignment that it has not been sent yet.

A worker that reads slowly misses assignments, never the last one: each is whole (invariant 12).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2 as worker_pb
from penstock.model.errors import FencedError
from penstock.scheduler.state.events import Assign, Assigned
from penstock.scheduler.state.wanted import is_monitor
from penstock.wire.config import connector_to_proto
from penstock.wire.connector import plan_to_proto

FRAME_BYTES: Final = 4 << 20
"""Bytes of tasks after which a frame is cut. gRPC refuses messages of more than 16 MiB, and one
plan alone may have several."""


class Outbox:
    """The way down to one worker."""

    def __init__(self) -> None:
        self._next: Assign | None = None
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def put(self, assign: Assign) -> None:
        """Send an assignment instead of any that waits."""
        self._next = assign
        self._news.set()

    def end(self, error: Exception) -> None:
        """End the session with an error. Idempotent: the first one counts."""
        self._error = self._error or error
        self._news.set()

    async def frames(self) -> AsyncIterator[pb.SessionResponse]:
        """Yield what is to be sent; ends with the error of `end`."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._error is not None:
                raise self._error
            assign, self._next = self._next, None
            if assign is not None:
                for frame in frames_of(assign):
                    yield frame


class Sessions:
    """The sessions of all workers, one for each."""

    def __init__(self) -> None:
        self._open: dict[str, Outbox] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, worker: str) -> Outbox:
        """Begin a session; an older one of the worker ends."""
        if worker in self._open:
            self._open[worker].end(replaced(worker))
        outbox = self._open[worker] = Outbox()
        return outbox

    def close(self, worker: str, outbox: Outbox) -> bool:
        """Forget a session; False when the worker has a newer one."""
        if self._open.get(worker) is not outbox:
            return False
        del self._open[worker]
        return True

    def send(self, assign: Assign) -> None:
        """Send an assignment to a worker, if it has a session."""
        outbox = self._open.get(assign.worker)
        if outbox is not None:
            outbox.put(assign)

    def end(self, worker: str, error: Exception) -> None:
        """End a worker's session, if it has one."""
        outbox = self._open.pop(worker, None)
        if outbox is not None:
            outbox.end(error)

    def end_all(self, error: Exception) -> None:
        """End all sessions."""
        for outbox in self._open.values():
            outbox.end(error)
        self._open.clear()


def replaced(worker: str) -> FencedError:
    """Return the error that ends a session because its worker has opened another one."""
    return FencedError(
        "scheduler.session_replaced",
        f"worker {worker} has opened another session",
        fix="Give every worker an id of its own.",
    )


def member_gone(worker: str) -> FencedError:
    """Return the error that ends a session because its worker's membership has ended."""
    return FencedError(
        "scheduler.member_gone",
        f"the lease of worker {worker} has ended: its tasks go to others",
        fix="It registers again by itself. See whether it reaches etcd, and whether it was paused.",
    )


def frames_of(assign: Assign) -> Iterator[pb.SessionResponse]:
    """Yield the frames of an assignment; the last one says that it is."""
    frame, size = pb.SessionResponse(revision=assign.revision), 0
    for task in assign.tasks:
        if size >= FRAME_BYTES:
            frame.more = True
            yield frame
            frame, size = pb.SessionResponse(revision=assign.revision), 0
        if is_monitor(task.task_id):
            message = _monitor(task)
            size += message.ByteSize()
            frame.monitors.append(message)
        elif task.known:
            target = int(task.connector.target_state)
            frame.kept.add(task_id=task.task_id, epoch=task.epoch, target_state=target)
            size += 100
        else:
            start = _start(task)
            size += start.ByteSize()
            frame.tasks.append(start)
    yield frame


def _start(task: Assigned) -> worker_pb.StartTaskRequest:
    return worker_pb.StartTaskRequest(
        connector=connector_to_proto(task.connector),
        plan=plan_to_proto(task.plan),
        epoch=task.epoch,
    )


def _monitor(task: Assigned) -> pb.MonitorAssignment:
    return pb.MonitorAssignment(
        task_id=task.task_id,
        connector=connector_to_proto(task.connector),
        epoch=task.epoch,
        plan_epoch=task.plan_epoch,
    )
