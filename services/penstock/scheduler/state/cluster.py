"""The scheduler's state machine: who is there, what should run, who has it. No I/O.

It is told how things are (`events`), and says what to write and what to send. It holds nothing that
is not in the lists that it is told: a new leader that is given the stored records, the members, the
connectors and the reports of the workers decides as the old one would have, and restarts nothing
(invariant 7).

A turn is: `writes()` until there are none, each stored in a fenced write and told by `wrote()`;
then `assignments()` as of the revision of the last write. So whatever a worker is sent was decided
by one that was the leader, and was so at that revision.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.model.connector import TargetState
from penstock.scheduler.state.events import Assign, Assigned, Member, Report, Write
from penstock.scheduler.state.failures import Failures, RestartPolicy
from penstock.scheduler.state.ownership import Listed, Workers
from penstock.scheduler.state.records import Owned, Record
from penstock.scheduler.state.rounds import Moves, Situation, decide
from penstock.scheduler.state.wanted import TaskSpec, Wanted, monitor_id, specs_of

MOST_RECORDS: Final = 100
"""Records in one write. etcd takes 128 operations in a transaction; the round and the leader's key
need two."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a cluster behaves.

    `rebalance_delay` (`rebalance.delay`) is how long the tasks of a lost worker wait for it to come
    back, in seconds. 0: they move at once. Only they wait, nothing else does.
    """

    rebalance_delay: float = 0.0
    restarts: RestartPolicy = field(default_factory=RestartPolicy)


class Cluster:
    """The cluster as its leader sees it."""

    def __init__(self, settings: ClusterSettings, chance: random.Random) -> None:
        """`chance` spreads restarts."""
        self._settings = settings
        self.workers = Workers()
        self.failures = Failures(settings.restarts, chance)
        self.moves = Moves()
        self._owned: dict[str, Owned] = {}
        self._wanted: dict[str, Wanted] = {}
        self._specs: dict[str, TaskSpec] = {}
        self._leaving: dict[str, str] = {}
        self._revision = 0
        self._wanted_revision = 0

    @property
    def owned(self) -> Mapping[str, Owned]:
        """Who has which task."""
        return self._owned

    @property
    def wanted(self) -> Mapping[str, Wanted]:
        """The connectors by generation."""
        return self._wanted

    @property
    def specs(self) -> Mapping[str, TaskSpec]:
        """The tasks that should run."""
        return self._specs

    @property
    def leaving(self) -> Mapping[str, str]:
        """The tasks that are to leave their owner, with the worker they are to go to."""
        return self._leaving

    @property
    def revision(self) -> int:
        """The revision of the last write."""
        return self._revision

    def load(self, owned: Mapping[str, Owned], revision: int) -> None:
        """Take in all records: at the start, and when the outcome of a write is not known."""
        for id_, before in self._owned.items():
            one = owned.get(id_)
            if one is not None and one.epoch == before.epoch:
                continue
            self._leaving.pop(id_, None)  # the write was stored: it has left
            if one is not None:
                self.failures.assigned(id_, one.record.restarts)
        self._owned = dict(owned)
        self._revision = max(self._revision, revision)

    def members(self, members: Iterable[Member], revision: int, now: float) -> frozenset[str]:
        """Take in who is alive, as of a revision; returns who is gone since the list before."""
        return self.workers.update(members, revision, now)

    def connectors(self, wanted: Iterable[Wanted], revision: int) -> None:
        """Take in all connectors with their plans; a list older than known is left alone."""
        if revision < self._wanted_revision:
            return
        self._wanted_revision = revision
        before, specs = self._wanted, self._specs
        self._wanted = {one.generation: one for one in wanted}
        self._specs = {}
        for generation, one in self._wanted.items():
            if before.get(generation) is one:
                ids = [*(plan.task_id for plan in one.plans), monitor_id(generation)]
                self._specs.update((id_, specs[id_]) for id_ in ids if id_ in specs)
            else:
                self._specs.update((spec.id, spec) for spec in specs_of(one))

    def report(self, report: Report, now: float) -> bool:
        """Take in what a worker says of itself; tells whether it is news."""
        news = self.workers.report(report)
        session = self.workers.sessions.get(report.worker)
        if session is None:
            return False
        for id_ in session.listed.keys() | report.tasks.keys():
            spec, owned = self._specs.get(id_), self._owned.get(id_)
            if spec is None or owned is None or id_ in self._leaving:
                continue
            if owned.record.worker == report.worker:
                status = self.workers.status(id_, owned)
                self.failures.report(spec, owned, session, status, now)
        return news

    def restart(self, task_ids: Iterable[str], now: float) -> None:
        """Restart tasks because a person wants it."""
        for id_ in task_ids:
            self.failures.ask(id_, self._owned.get(id_), now)

    def writes(self, now: float) -> list[Write]:
        """Return what is to be stored, in order. An empty write stores no record: it gives what is
        to be sent a revision. An empty list: nothing is to be done.
        """
        self.failures.keep(self._owned)
        self.workers.forget({owned.record.worker for owned in self._owned.values()})
        fenced = self.failures.fenced() - self._leaving.keys()
        self._leaving.update(dict.fromkeys(fenced, ""))
        situation = Situation(
            self._specs, self._owned, self.workers, self._leaving, self._waiting(now),
            self.failures.due(now), self.failures.counts(),
        )  # fmt: skip
        following = decide(situation)
        self._leaving = dict(following.leaving)
        records = sorted(following.records.items())
        cuts = range(0, len(records), MOST_RECORDS)
        writes = [self._write(dict(records[at : at + MOST_RECORDS])) for at in cuts]
        if not writes and any(True for _ in self._outdated()):
            writes.append(self._write({}))
        return writes

    def wrote(self, write: Write, revision: int) -> None:
        """Note that a write was stored at a revision, which is the epoch of what it assigned."""
        self._revision = revision
        for id_, record in write.records.items():
            self._leaving.pop(id_, None)
            if record is None:
                self._owned.pop(id_, None)
            else:
                self._owned[id_] = Owned(record, revision)
                self.failures.assigned(id_, record.restarts)

    def assignments(self) -> list[Assign]:
        """Return what is to be sent, and note it as sent."""
        found = []
        for worker, listed in list(self._outdated()):
            self.workers.sent(worker, self._revision, listed)
            tasks = tuple(self._assigned(worker, id_) for id_ in sorted(listed))
            found.append(Assign(worker, self._revision, tasks))
        return found

    def next_due(self, now: float) -> float | None:
        """Return when something is to be decided without news."""
        times: list[float | None] = [*self._awaited(now).values()]
        times.append(self.failures.next_due(now))
        return min((time for time in times if time is not None), default=None)

    def _waiting(self, now: float) -> frozenset[str]:
        failed = {id_ for id_ in self.failures.waiting(now) if self._waits(id_)}
        return frozenset(self._awaited(now).keys() | failed)

    def _awaited(self, now: float) -> dict[str, float]:
        """Return until when tasks wait for their lost owner; what nobody wants waits for none."""
        delay = self._settings.rebalance_delay
        return {
            id_: until
            for id_, owned in self._owned.items()
            if id_ in self._specs and (until := self.workers.awaited(owned, delay, now)) is not None
        }

    def _waits(self, id_: str) -> bool:
        """Tell whether a failed task is left alone: one that moves, or has a new form,
        starts anew.
        """
        owned, spec = self._owned.get(id_), self._specs.get(id_)
        if owned is None or spec is None or self.workers.gone(owned):
            return False
        if spec.digest not in {None, owned.record.digest}:
            return False
        return id_ not in self._leaving or id_ in self.failures.fenced()

    def _write(self, records: Mapping[str, Record | None]) -> Write:
        epochs = {id_: self._owned[id_].epoch if id_ in self._owned else 0 for id_ in records}
        return Write(records, epochs)

    def _outdated(self) -> Iterable[tuple[str, Listed]]:
        """Yield the workers whose assignment is not what they were sent last."""
        lists: dict[str, dict[str, tuple[int, TargetState, int]]] = {
            id_: {} for id_ in self.workers.sessions
        }
        newest: dict[str, int] = {}
        for id_, owned in self._owned.items():
            # what was deleted since it was stored is in no list, and yet its owner has to see a
            # later one: only then is it believed that it does not hold the task
            newest[owned.record.worker] = max(newest.get(owned.record.worker, 1), owned.epoch)
            spec = self._specs.get(id_)
            listed = lists.get(owned.record.worker)
            if listed is None or spec is None or id_ in self._leaving:
                continue
            # connectors may have changed since the round was decided: a new form is for the next
            if spec.digest in {None, owned.record.digest}:
                listed[id_] = (owned.epoch, spec.connector.target_state, spec.plan_epoch)
        for worker, listed in lists.items():
            session = self.workers.sessions[worker]
            old = session.sent < newest.get(worker, 1)
            if session.reported and (old or session.listed != listed):
                yield worker, listed

    def _assigned(self, worker: str, id_: str) -> Assigned:
        spec, epoch = self._specs[id_], self._owned[id_].epoch
        held = self.workers.sessions[worker].tasks.get(id_)
        known = held is not None and held.epoch == epoch
        return Assigned(id_, epoch, spec.connector, spec.plan, known, spec.plan_epoch)
