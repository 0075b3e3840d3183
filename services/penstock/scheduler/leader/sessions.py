"""The sessions of workers with the leader, and the membership of workers.

`Sessions` holds for each worker the newest assignment that it has not been sent yet. A worker that
reads slowly misses assignments, but never the last one: each is whole (invariant 12).

`Roster` knows which workers are alive: by lease, or, without leases (one machine, a test), by
session. By session, a worker is alive while it has one, and for a time after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import Final

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.worker.v1 import worker_service_pb2 as worker_pb
from penstock.model.errors import FencedError
from penstock.scheduler.state.cluster import AssignedTask, WorkerAssignment
from penstock.scheduler.state.desired_state import is_monitor_id
from penstock.scheduler.state.workers import Member
from penstock.wire.config import CONNECTOR
from penstock.wire.connector import PLAN

FRAME_BYTES: Final = 4 << 20
"""Bytes of tasks after which a new frame begins. gRPC refuses messages of more than 16 MiB, and the
plan of one task may have several."""


class Outbox:
    """The messages to one worker."""

    def __init__(self) -> None:
        self._next: WorkerAssignment | None = None
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    def put(self, assignment: WorkerAssignment) -> None:
        """Send an assignment. It replaces one that was not sent yet."""
        self._next = assignment
        self._changed.set()

    def end(self, error: Exception) -> None:
        """End the session with an error. Idempotent: the first error counts."""
        self._error = self._error or error
        self._changed.set()

    async def frames(self) -> AsyncIterator[pb.SessionResponse]:
        """Yield the frames to send; raises the error of `end`."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._error is not None:
                raise self._error
            assignment, self._next = self._next, None
            if assignment is not None:
                for frame in assignment_frames(assignment):
                    yield frame


class Sessions:
    """The open sessions, one for each worker."""

    def __init__(self) -> None:
        self._open: dict[str, Outbox] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, worker: str) -> Outbox:
        """Begin a session. An older session of the worker ends."""
        if worker in self._open:
            self._open[worker].end(session_replaced(worker))
        outbox = self._open[worker] = Outbox()
        return outbox

    def close(self, worker: str, outbox: Outbox) -> bool:
        """Remove a session; False when the worker has a newer one."""
        if self._open.get(worker) is not outbox:
            return False
        del self._open[worker]
        return True

    def send(self, assignment: WorkerAssignment) -> None:
        """Send an assignment to its worker, if it has a session."""
        outbox = self._open.get(assignment.worker)
        if outbox is not None:
            outbox.put(assignment)

    def end(self, worker: str, error: Exception) -> None:
        """End the session of a worker, if it has one."""
        outbox = self._open.pop(worker, None)
        if outbox is not None:
            outbox.end(error)

    def end_all(self, error: Exception) -> None:
        """End all sessions."""
        for outbox in self._open.values():
            outbox.end(error)
        self._open.clear()


def session_replaced(worker: str) -> FencedError:
    """Return the error that ends a session whose worker opened another one."""
    return FencedError(
        "scheduler.session_replaced",
        f"worker {worker} has opened another session",
        fix="Give each worker an id of its own.",
    )


def member_gone(worker: str) -> FencedError:
    """Return the error that ends a session whose worker is no longer a member."""
    return FencedError(
        "scheduler.member_gone",
        f"the lease of worker {worker} has ended: other workers get its tasks",
        fix="The worker registers again by itself. Check whether it reaches etcd, and whether its "
        "process was paused.",
    )


def assignment_frames(assignment: WorkerAssignment) -> Iterator[pb.SessionResponse]:
    """Yield the frames of an assignment. All but the last one have `more` set."""
    frame, size = _frame(assignment), 0
    for task in assignment.tasks:
        if size >= FRAME_BYTES:
            frame.more = True
            yield frame
            frame, size = _frame(assignment), 0
        if is_monitor_id(task.task_id):
            message = _monitor_to_proto(task)
            size += message.ByteSize()
            frame.monitors.append(message)
        elif task.is_known:
            target = int(task.connector.target_state)
            frame.kept.add(task_id=task.task_id, epoch=task.epoch, target_state=target)
            size += 100
        else:
            start = _start_to_proto(task)
            size += start.ByteSize()
            frame.tasks.append(start)
    yield frame


def _frame(assignment: WorkerAssignment) -> pb.SessionResponse:
    return pb.SessionResponse(revision=assignment.revision, takes_partial_requests=True)


def _start_to_proto(task: AssignedTask) -> worker_pb.StartTaskRequest:
    return worker_pb.StartTaskRequest(
        connector=CONNECTOR.to_proto(task.connector),
        plan=PLAN.to_proto(task.plan),
        epoch=task.epoch,
    )


def _monitor_to_proto(task: AssignedTask) -> pb.MonitorAssignment:
    return pb.MonitorAssignment(
        task_id=task.task_id,
        connector=CONNECTOR.to_proto(task.connector),
        epoch=task.epoch,
        plan_epoch=task.plan_epoch,
    )


class _SessionMembers:
    """Membership by session: a worker is alive while it has a session, and `lease_s` longer."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._members: dict[str, Member] = {}
        self._closed_at: dict[str, float] = {}

    def expect(self, members: Iterable[Member], now: float) -> None:
        """Count workers as alive that may still connect: the owners of tasks at the start of a
        leader.
        """
        for member in members:
            if member.id not in self._members:
                self._members[member.id] = member
                self._closed_at[member.id] = now

    def record_open(self, member: Member) -> None:
        """Record that a worker has a session."""
        self._members[member.id] = member
        self._closed_at.pop(member.id, None)

    def record_closed(self, worker: str, now: float) -> None:
        """Record the end of a session."""
        if worker in self._members:
            self._closed_at[worker] = now

    def alive(self, now: float) -> list[Member]:
        """Return the living workers, and forget the others."""
        for id_ in [id_ for id_, at in self._closed_at.items() if now - at >= self._lease_s]:
            del self._members[id_], self._closed_at[id_]
        return list(self._members.values())

    def next_due_at(self) -> float | None:
        """Return when the next worker will count as gone."""
        return min((at + self._lease_s for at in self._closed_at.values()), default=None)


class Roster:
    """The living workers, by lease or by session, with what each declares of itself."""

    def __init__(self, session_lease_s: float | None) -> None:
        """`session_lease_s` None: membership is by lease, set by `set_leased`."""
        self._by_session = None if session_lease_s is None else _SessionMembers(session_lease_s)
        self._leased: tuple[tuple[Member, ...], int] | None = None
        self._declared: dict[str, Member] = {}

    def set_leased(self, members: Iterable[Member], revision: int) -> None:
        """Set the workers with a lease, as of the revision of the list."""
        self._leased = (tuple(members), revision)
        alive = {member.id for member in self._leased[0]}
        self._declared = {id_: m for id_, m in self._declared.items() if id_ in alive}

    def expect(self, owners: Iterable[Member], now: float) -> None:
        """Count the owners of tasks as alive for now, where membership is by session."""
        if self._by_session is not None:
            self._by_session.expect(owners, now)

    def declare(self, member: Member) -> bool:
        """Record what a worker declares of itself in its session; returns whether it changed."""
        if self._by_session is not None:
            self._by_session.record_open(member)
        if self._declared.get(member.id) == member:
            return False
        self._declared[member.id] = member
        return True

    def record_closed(self, worker: str, now: float) -> None:
        """Record the end of a session."""
        if self._by_session is not None:
            self._by_session.record_closed(worker, now)

    def alive(self, now: float, revision: int) -> tuple[list[Member], int] | None:
        """Return the living workers with the revision of the list; None when not known yet. By
        session, the revision is the given one.
        """
        if self._by_session is not None:
            members = self._by_session.alive(now)
            self._declared = {m.id: self._declared.get(m.id, m) for m in members}
            return members, revision
        if self._leased is None:
            return None
        leased, leased_revision = self._leased
        merged = [_with_declared(member, self._declared.get(member.id)) for member in leased]
        return merged, leased_revision

    def next_due_at(self) -> float | None:
        """Return when a worker will count as gone without any new input."""
        return None if self._by_session is None else self._by_session.next_due_at()


class SharedNames:
    """Finds names that several workers share, each name once.

    `rebalance.delay` waits for none of these workers, because any of them seems to be the one that
    came back.
    """

    def __init__(self) -> None:
        self._found: set[str] = set()

    def find_new(self, members: Iterable[Member]) -> dict[str, list[str]]:
        """Return the shared names that were not returned before, with the ids of the workers."""
        by_name: dict[str, list[str]] = {}
        for member in members:
            if member.name and member.name not in self._found:
                by_name.setdefault(member.name, []).append(member.id)
        shared = {name: sorted(ids) for name, ids in by_name.items() if len(ids) > 1}
        self._found.update(shared)
        return shared


def _with_declared(member: Member, declared: Member | None) -> Member:
    """Return a member by lease with what it declares of itself in its session."""
    if declared is None:
        return member
    return replace(declared, address=member.address or declared.address)
