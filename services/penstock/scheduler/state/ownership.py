"""Which workers are alive, and what they have let go of. No I/O.

A task has one owner: the worker of its record. It may go to another one only when it is *free*: its
owner is gone, or has said, about the newest assignment that it was sent, that it holds the task no
more. A worker is gone when its membership has ended; it has stopped its tasks before
(self-fencing), and the epoch of the next owner fences what is left (invariant 4).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from penstock.model import faults
from penstock.model.connector import TargetState, TaskState, TaskStatus
from penstock.scheduler.state.assignment import Worker
from penstock.scheduler.state.events import Member, Report
from penstock.scheduler.state.records import Owned

UNSEEN: Final = 10.0
"""Seconds that an owner counts as alive which a new leader finds in a record, and in no list of
members that is newer. It may have joined a moment ago. Longer lets tasks of a dead one wait;
shorter takes tasks from a living one, whose old epoch fences it."""

SILENT: Final = 10.0
"""Seconds without a session after which a worker that is alive gets no new tasks. Shorter, and the
workers that reach a new leader first get the tasks of the others' share; longer, and tasks wait for
one that cannot be reached."""

Listed: TypeAlias = Mapping[str, tuple[int, TargetState, int]]
"""An assignment as it was sent: each task's epoch and wanted state, and the epoch of the plans that
a monitor should know."""


@dataclass(slots=True)
class Session:
    """What a worker was sent and has said, since its session began."""

    seen: int = 0
    sent: int = 0
    listed: Listed = field(default_factory=dict)
    tasks: Mapping[str, TaskStatus] = field(default_factory=dict)
    reported: bool = False

    def lets_go(self, task_id: str, epoch: int) -> bool:
        """Tell whether the worker has taken in all that it was sent, and does not hold the task.

        One that has not seen the epoch may be about to start it.
        """
        return self.reported and self.seen >= max(self.sent, epoch) and not self.holds(task_id)

    def holds(self, task_id: str) -> bool:
        """Tell whether the worker holds a task: one that is STOPPED has let go of everything."""
        status = self.tasks.get(task_id)
        return status is not None and status.state is not TaskState.STOPPED


class Workers:
    """The workers of the cluster."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._by_name: dict[str, str] = {}
        self._sessions: dict[str, Session] = {}
        self._drained: frozenset[str] = frozenset()
        self._heard: set[str] = set()
        self._lost: dict[str, float] = {}
        self._silent: dict[str, float] = {}
        self._revision = 0
        self._began: float | None = None
        self._now = 0.0

    @property
    def members(self) -> Mapping[str, Member]:
        """The workers that are alive."""
        return self._members

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions of workers that are alive."""
        return self._sessions

    def update(self, members: Iterable[Member], revision: int, now: float) -> frozenset[str]:
        """Take in who is alive, as of a revision; an older list than known is left alone. Returns
        who is gone since the list before.
        """
        self._began, self._now = now if self._began is None else self._began, now
        if revision < self._revision:
            return frozenset()
        self._revision = revision
        before, self._members = self._members, {member.id: member for member in members}
        self._by_name = {m.name: m.id for m in self._members.values() if m.name}
        gone = frozenset(before.keys() - self._members.keys())
        for id_ in gone:
            self._sessions.pop(id_, None)
            self._heard.discard(id_)
            self._lost[id_] = now
            self._silent.pop(id_, None)
        for id_ in self._members:
            self._lost.pop(id_, None)
            if id_ not in self._sessions:
                self._silent.setdefault(id_, now)
        return gone

    def forget(self, owners: Container[str]) -> None:
        """Forget the workers that are gone and own nothing any more (invariant 12)."""
        old = self._now - UNSEEN
        self._lost = {id_: at for id_, at in self._lost.items() if id_ in owners or at > old}

    def open(self, worker: str) -> None:
        """Begin a session: what was sent before counts no more."""
        self._sessions[worker] = Session()
        self._heard.add(worker)
        self._silent.pop(worker, None)

    def close(self, worker: str) -> None:
        """End a session. Its tasks stay: the worker is alive until its membership ends."""
        self._sessions.pop(worker, None)
        if worker in self._members:
            self._silent[worker] = self._now
        else:
            self._heard.discard(worker)

    def report(self, report: Report) -> bool:
        """Take in what a worker says; one without a session is not heard. Tells whether it is news:
        other numbers alone are not.
        """
        session = self._sessions.get(report.worker)
        if session is None:
            return False
        before = (session.reported, session.seen, _states(session.tasks))
        session.seen, session.tasks, session.reported = report.seen, report.tasks, True
        return before != (True, report.seen, _states(report.tasks))

    def sent(self, worker: str, revision: int, listed: Listed) -> None:
        """Note what a worker is being sent."""
        session = self._sessions[worker]
        session.sent, session.listed = revision, listed

    def drain(self, workers: frozenset[str]) -> None:
        """Say which workers a person wants to be empty."""
        self._drained = workers

    def draining(self, worker: str) -> bool:
        """Tell whether a worker is to be empty."""
        member = self._members.get(worker)
        return worker in self._drained or (member is not None and member.draining)

    def offers(self, owners: Container[str]) -> list[Worker]:
        """Return the workers as the assignment sees them.

        One that has no task and has never spoken to this leader is taken for draining: it is
        registered, cannot reach the leader, and would only keep tasks from running.
        """
        return [
            Worker(
                m.id,
                m.labels,
                m.capacity,
                self.draining(m.id) or not (m.id in self._heard or m.id in owners),
                self._now - self._silent.get(m.id, self._now) >= SILENT,
            )
            for m in self._members.values()
        ]

    def heard(self, worker: str) -> bool:
        """Tell whether it is known what a worker holds: it has said so in its session, or has had
        its time to.
        """
        session = self._sessions.get(worker)
        if session is not None:
            return session.reported
        silent = self._now - self._silent.get(worker, self._now)
        return self.absent(worker) or silent >= SILENT

    def status(self, task_id: str, owned: Owned) -> TaskStatus | None:
        """Return what the owner says of its task; what is said of another epoch does not count
        (invariant 4).
        """
        session = self._sessions.get(owned.record.worker)
        status = session.tasks.get(task_id) if session else None
        return status if status is not None and status.epoch == owned.epoch else None

    def gone(self, owned: Owned) -> bool:
        """Tell whether the owner of a task has ended."""
        return owned.record.worker not in self._members and not self.unknown(owned)

    def unknown(self, owned: Owned) -> bool:
        """Tell whether the owner may be alive although it is in no list: the record is newer than
        the lists, and the owner was in none of them.
        """
        worker = owned.record.worker
        if worker in self._members or owned.epoch <= self._revision:
            return False
        return not self.absent(worker)

    def absent(self, worker: str) -> bool:
        """Tell whether a worker is not alive: it was and is no more, or has not come in time."""
        if worker in self._members:
            return False
        began = self._now if self._began is None else self._began
        return worker in self._lost or self._now - began >= UNSEEN

    def free(self, task_id: str, owned: Owned) -> bool:
        """Tell whether a task may go to another worker."""
        if self.gone(owned):
            return True
        session = self._sessions.get(owned.record.worker)
        if faults.hit("scheduler.renounce_check"):
            return True
        return session is not None and session.lets_go(task_id, owned.epoch)

    def home(self, owned: Owned) -> str | None:
        """Return the worker that a task should stay with: its owner, or its namesake."""
        if owned.record.worker in self._members:
            return owned.record.worker
        return self._by_name.get(owned.record.name) if owned.record.name else None

    def called(self, word: str) -> list[str]:
        """Return the ids of those whom a person may mean: the one of that id, else all of a name,
        which workers on one host may share.
        """
        if word in self._members:
            return [word]
        return sorted(id_ for id_, member in self._members.items() if word and member.name == word)

    def awaited(self, owned: Owned, delay: float, now: float) -> float | None:
        """Return until when a task waits for its lost owner to come back, if it does."""
        if delay <= 0 or not owned.record.name or self.home(owned) is not None:
            return None
        until = self._lost.setdefault(owned.record.worker, now) + delay
        return until if now < until else None


def _states(tasks: Mapping[str, TaskStatus]) -> dict[str, tuple[int, TaskState]]:
    return {id_: (status.epoch, status.state) for id_, status in tasks.items()}
