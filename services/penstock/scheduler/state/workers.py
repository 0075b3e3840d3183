"""Which workers are alive, and which tasks each has released. No I/O.

A task has one owner: the worker of its record. It may move to another worker only when it is
*free*: its owner is gone, or has reported, after the newest assignment that it was sent, that it no
longer holds the task. A worker is gone when its membership has ended. It has stopped its tasks
before that (self-fencing), and the epoch of the next owner fences what is left (invariant 4).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from penstock.model import faults
from penstock.model.connector import TargetState, TaskState, TaskStatus
from penstock.scheduler.state.assignment import Worker
from penstock.scheduler.state.records import OwnedTask

UNLISTED_OWNER_TIMEOUT_S: Final = 10.0
"""Seconds for which an owner counts as alive that a new leader finds in a record, and in no newer
list of members. It may have joined a moment ago. Longer delays the tasks of a dead worker; shorter
takes tasks from a living one, whose old epoch fences it."""

DISCONNECTED_AFTER_S: Final = 10.0
"""Seconds without a session after which a worker that is alive gets no new tasks. Shorter, and the
workers that reach a new leader first get the share of the others; longer, and tasks wait for a
worker that cannot be reached."""

SentTasks: TypeAlias = Mapping[str, tuple[int, TargetState, int]]
"""An assignment as it was sent: of each task its epoch and target state; of a monitor also the
epoch of the plans that it should know."""


@dataclass(frozen=True, slots=True)
class Member:
    """A worker that is alive.

    `id` is new at every start of its process, `name` is not. Tasks that wait for a worker to come
    back (`rebalance.delay`) recognize it by its name.
    """

    id: str
    name: str = ""
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: float = 1.0
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a worker: the revision of the newest assignment that it has accepted, and *all*
    tasks that it holds, in whatever state. A worker holds a task from the moment it accepted the
    assignment until the task has stopped and has released all its resources.

    A partial report has `released`, the tasks that are no longer held; tasks that it names nowhere
    are as in the reports before.
    """

    worker: str
    seen_revision: int
    tasks: Mapping[str, TaskStatus]
    released: frozenset[str] | None = None

    @property
    def is_partial(self) -> bool:
        """Whether it names only the tasks that changed."""
        return self.released is not None


@dataclass(slots=True)
class Session:
    """What a worker was sent and has reported since its session began."""

    seen_revision: int = 0
    sent_revision: int = 0
    sent_tasks: SentTasks = field(default_factory=dict)
    tasks: dict[str, TaskStatus] = field(default_factory=dict)
    has_reported: bool = False

    def has_released(self, task_id: str, epoch: int) -> bool:
        """Return whether the worker has accepted all that it was sent, and does not hold the task.

        A worker that has not seen the epoch may be about to start the task.
        """
        has_seen = self.seen_revision >= max(self.sent_revision, epoch)
        return self.has_reported and has_seen and not self.holds(task_id)

    def holds(self, task_id: str) -> bool:
        """Return whether the worker holds a task. A STOPPED task has released everything."""
        status = self.tasks.get(task_id)
        return status is not None and status.state is not TaskState.STOPPED


class Workers:
    """The workers of the cluster."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._by_name: dict[str, str] = {}
        self._sessions: dict[str, Session] = {}
        self._drained: frozenset[str] = frozenset()
        self._ever_connected: set[str] = set()
        self._lost_at: dict[str, float] = {}
        self._disconnected_at: dict[str, float] = {}
        self._revision = 0
        self._started_at: float | None = None
        self._now = 0.0

    @property
    def members(self) -> Mapping[str, Member]:
        """The workers that are alive, by id."""
        return self._members

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions of workers that are alive, by worker id."""
        return self._sessions

    def update_members(
        self, members: Iterable[Member], revision: int, now: float
    ) -> frozenset[str]:
        """Set the living workers, as of a revision. A list older than the known one is ignored.
        Returns the workers that are gone since the previous list.
        """
        self._started_at = now if self._started_at is None else self._started_at
        self._now = now
        if revision < self._revision:
            return frozenset()
        self._revision = revision
        before, self._members = self._members, {member.id: member for member in members}
        self._by_name = {m.name: m.id for m in self._members.values() if m.name}
        gone = frozenset(before.keys() - self._members.keys())
        for id_ in gone:
            self._sessions.pop(id_, None)
            self._ever_connected.discard(id_)
            self._lost_at[id_] = now
            self._disconnected_at.pop(id_, None)
        for id_ in self._members:
            self._lost_at.pop(id_, None)
            if id_ not in self._sessions:
                self._disconnected_at.setdefault(id_, now)
        return gone

    def forget_lost(self, owners: Container[str]) -> None:
        """Forget the workers that are gone and own nothing (invariant 12)."""
        expired = self._now - UNLISTED_OWNER_TIMEOUT_S
        self._lost_at = {
            id_: at for id_, at in self._lost_at.items() if id_ in owners or at > expired
        }

    def open_session(self, worker: str) -> None:
        """Begin a session. What was sent in an earlier one no longer counts."""
        self._sessions[worker] = Session()
        self._ever_connected.add(worker)
        self._disconnected_at.pop(worker, None)

    def close_session(self, worker: str) -> None:
        """End a session. The worker keeps its tasks: it is alive until its membership ends."""
        self._sessions.pop(worker, None)
        if worker in self._members:
            self._disconnected_at[worker] = self._now
        else:
            self._ever_connected.discard(worker)

    def record_report(self, report: Report) -> bool:
        """Record the report of a worker; ignored without a session. Returns whether states,
        epochs or the seen revision changed. Other task metrics do not count as a change.
        """
        session = self._sessions.get(report.worker)
        if session is None:
            return False
        released: AbstractSet[str] = session.tasks.keys() - report.tasks.keys()
        if report.released is not None:
            released &= report.released
        tasks = session.tasks
        changed = (
            not session.has_reported
            or session.seen_revision != report.seen_revision
            or bool(released)
            or any(_state(one) != _state(tasks.get(id_)) for id_, one in report.tasks.items())
        )
        for id_ in released:
            del tasks[id_]
        tasks.update(report.tasks)
        session.seen_revision, session.has_reported = report.seen_revision, True
        return changed

    def record_sent(self, worker: str, revision: int, tasks: SentTasks) -> None:
        """Record the assignment that is being sent to a worker."""
        session = self._sessions[worker]
        session.sent_revision, session.sent_tasks = revision, tasks

    def set_drained(self, workers: frozenset[str]) -> None:
        """Set the workers that an operator drains."""
        self._drained = workers

    def is_draining(self, worker: str) -> bool:
        """Return whether a worker is to lose its tasks."""
        member = self._members.get(worker)
        return worker in self._drained or (member is not None and member.draining)

    def candidates(self, owners: Container[str]) -> list[Worker]:
        """Return the workers as the assignment sees them.

        A worker that owns no task and never connected to this leader counts as draining: it is
        registered but cannot reach the leader, and would only keep tasks from running.
        """
        return [
            Worker(
                m.id,
                m.labels,
                m.capacity,
                self.is_draining(m.id) or not (m.id in self._ever_connected or m.id in owners),
                self._is_disconnected(m.id),
            )
            for m in self._members.values()
        ]

    def has_reported(self, worker: str) -> bool:
        """Return whether it is known which tasks a worker holds: it has reported in its session,
        or the time to do so has passed.
        """
        session = self._sessions.get(worker)
        if session is not None:
            return session.has_reported
        return self.is_absent(worker) or self._is_disconnected(worker)

    def task_status(self, task_id: str, owned: OwnedTask) -> TaskStatus | None:
        """Return the status that the owner reports of its task. Reports of another epoch do not
        count (invariant 4).
        """
        session = self._sessions.get(owned.record.worker)
        status = session.tasks.get(task_id) if session else None
        return status if status is not None and status.epoch == owned.epoch else None

    def is_owner_gone(self, owned: OwnedTask) -> bool:
        """Return whether the owner of a task is dead."""
        return owned.record.worker not in self._members and not self.is_owner_unknown(owned)

    def is_owner_unknown(self, owned: OwnedTask) -> bool:
        """Return whether the owner may be alive although no list names it: the record is newer than
        the lists, and none of them named the owner.
        """
        worker = owned.record.worker
        if worker in self._members or owned.epoch <= self._revision:
            return False
        return not self.is_absent(worker)

    def is_absent(self, worker: str) -> bool:
        """Return whether a worker is dead: it was a member before, or did not join in time."""
        if worker in self._members:
            return False
        started_at = self._now if self._started_at is None else self._started_at
        return worker in self._lost_at or self._now - started_at >= UNLISTED_OWNER_TIMEOUT_S

    def is_free(self, task_id: str, owned: OwnedTask) -> bool:
        """Return whether a task may move to another worker."""
        if self.is_owner_gone(owned):
            return True
        session = self._sessions.get(owned.record.worker)
        if faults.hit("scheduler.renounce_check"):
            return True
        return session is not None and session.has_released(task_id, owned.epoch)

    def preferred_worker(self, owned: OwnedTask) -> str | None:
        """Return the worker that a task should stay with: its owner, or a living worker of the same
        name.
        """
        if owned.record.worker in self._members:
            return owned.record.worker
        return self._by_name.get(owned.record.name) if owned.record.name else None

    def find_ids(self, id_or_name: str) -> list[str]:
        """Return the id of the worker with that id; else the ids of all workers with that name.
        Workers on one host may share a name.
        """
        if id_or_name in self._members:
            return [id_or_name]
        members = self._members.items()
        return sorted(id_ for id_, m in members if id_or_name and m.name == id_or_name)

    def reserved_until(self, owned: OwnedTask, delay_s: float, now: float) -> float | None:
        """Return until when a task waits for its lost owner to come back; None if it does not."""
        if delay_s <= 0 or not owned.record.name or self.preferred_worker(owned) is not None:
            return None
        until = self._lost_at.setdefault(owned.record.worker, now) + delay_s
        return until if now < until else None

    def _is_disconnected(self, worker: str) -> bool:
        since = self._disconnected_at.get(worker, self._now)
        return self._now - since >= DISCONNECTED_AFTER_S


def _state(status: TaskStatus | None) -> tuple[int, TaskState] | None:
    return None if status is None else (status.epoch, status.state)
