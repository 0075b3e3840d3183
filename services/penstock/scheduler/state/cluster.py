"""The state machine of the scheduler: members, desired tasks, owners. No I/O.

Its input is lists: stored records, members, connectors, reports of workers. Its output is writes
and assignments. It keeps nothing that is not in these lists: a new leader with the same lists
decides as the old one would have, and restarts nothing (invariant 7).

A turn of the leader is:

1. `decide_writes()`; each write is stored in a fenced transaction and confirmed by
   `record_write()`. Repeat until there are none.
2. `take_assignments()`, as of the revision of the last write. So whatever a worker is sent was
   decided by an instance that was the leader at that revision.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.model.backoff import RestartPolicy
from penstock.model.connector import Connector, TargetState, TaskPlan, TaskState
from penstock.scheduler.state.desired_state import (
    DesiredConnector,
    TaskSpec,
    build_task_specs,
    monitor_id,
)
from penstock.scheduler.state.rebalance import RebalanceTimes, Situation, decide_round
from penstock.scheduler.state.records import Completion, OwnedTask, TaskRecord
from penstock.scheduler.state.restarts import RESTARTS, RestartTracker
from penstock.scheduler.state.workers import Member, Report, SentTasks, Workers

MAX_RECORDS_PER_WRITE: Final = 100
"""Records in one write. etcd accepts 128 operations in a transaction; the round and the leader's
key need two."""


@dataclass(frozen=True, slots=True)
class RecordWrite:
    """Records to store in one fenced write; None removes one.

    `epochs` are the epochs that the records have now, 0 for none, so that the write fails where
    another write came first.
    """

    records: Mapping[str, TaskRecord | None]
    epochs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AssignedTask:
    """A task in an assignment, or a monitor, which has the epoch of the plans that it should know.

    `is_known`: the worker reported that it holds the task at this epoch, so that its plan need not
    be sent again.
    """

    task_id: str
    epoch: int
    connector: Connector
    plan: TaskPlan
    is_known: bool = False
    plan_epoch: int = 0


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """All tasks that a worker should hold, as of a revision. It releases all others."""

    worker: str
    revision: int
    tasks: tuple[AssignedTask, ...]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings of a cluster.

    `rebalance_delay_s` (`rebalance.delay`) is how long the tasks of a lost worker wait for it to
    come back, in seconds. 0: they move at once. Only these tasks wait.
    """

    rebalance_delay_s: float = 0.0
    restart_policy: RestartPolicy = RESTARTS


class Cluster:
    """The cluster as its leader sees it."""

    def __init__(self, settings: ClusterSettings, rng: random.Random) -> None:
        """`rng` spreads restarts in time."""
        self._settings = settings
        self.workers = Workers()
        self.restarts = RestartTracker(settings.restart_policy, rng)
        self.rebalances = RebalanceTimes()
        self._owned: dict[str, OwnedTask] = {}
        self._completed: dict[str, Completion] = {}
        self._connectors: dict[str, DesiredConnector] = {}
        self._specs: dict[str, TaskSpec] = {}
        self._leaving: dict[str, str] = {}
        self._revision = 0
        self._connectors_revision = 0

    @property
    def owned(self) -> Mapping[str, OwnedTask]:
        """The tasks with an owner, by task id."""
        return self._owned

    @property
    def connectors(self) -> Mapping[str, DesiredConnector]:
        """The connectors, by generation."""
        return self._connectors

    @property
    def specs(self) -> Mapping[str, TaskSpec]:
        """The tasks that should run, by task id."""
        return self._specs

    @property
    def leaving(self) -> Mapping[str, str]:
        """The tasks that leave their owner, with the worker that they go to."""
        return self._leaving

    @property
    def revision(self) -> int:
        """The revision of the last write."""
        return self._revision

    def load_records(self, owned: Mapping[str, OwnedTask], revision: int) -> None:
        """Set all records: at the start, and when the outcome of a write is not known."""
        for id_, before in self._owned.items():
            after = owned.get(id_)
            if after is not None and after.epoch == before.epoch:
                continue
            self._leaving.pop(id_, None)  # the write was stored: it has left
            if after is not None:
                self.restarts.record_assignment(id_, after.record.restarts)
        self._owned = dict(owned)
        self._revision = max(self._revision, revision)

    @property
    def completed(self) -> Mapping[str, Completion]:
        """The tasks that have read all that they had to, as far as that is stored."""
        return self._completed

    def load_completed(self, completed: Mapping[str, Completion]) -> None:
        """Set the tasks that have completed."""
        self._completed = dict(completed)

    def has_completed(self, spec: TaskSpec) -> bool:
        """Return whether a task has read all that it had to, with this configuration and plan. It
        does not start anew where its worker is lost or drained: a copy would be made twice.
        """
        completion = self._completed.get(spec.id)
        return completion is not None and completion.digest == spec.digest

    def find_completed(self) -> dict[str, Completion]:
        """Return the tasks to store as completed."""
        found = {}
        for session in self.workers.sessions.values():
            for id_, status in session.tasks.items():
                if status.state is not TaskState.COMPLETED:
                    continue
                spec, owned = self._specs.get(id_), self._owned.get(id_)
                if spec is None or owned is None or self.workers.task_status(id_, owned) != status:
                    continue
                history = self.restarts.history(id_)
                is_restarting = history is not None and history.action is not None
                if spec.digest == owned.record.digest and not is_restarting:
                    found[id_] = Completion(owned.record.digest, owned.epoch)
        return {id_: one for id_, one in found.items() if self._completed.get(id_) != one}

    def find_outdated_completions(self) -> list[str]:
        """Return the stored completions of tasks that are gone, have another digest, or started
        again: an earlier version, which knows no completions, may have led meanwhile.
        """
        return [
            id_
            for id_, one in self._completed.items()
            if id_ not in self._specs
            or self._specs[id_].digest not in {None, one.digest}
            or (id_ in self._owned and self._owned[id_].epoch > one.epoch)
        ]

    def record_completed(self, completed: Mapping[str, Completion]) -> None:
        """Record that completions were stored."""
        self._completed |= completed

    def forget_completed(self, task_ids: Iterable[str]) -> list[str]:
        """Forget the completion of tasks; returns those that had one."""
        known = [id_ for id_ in task_ids if id_ in self._completed]
        for id_ in known:
            del self._completed[id_]
        return known

    def update_members(
        self, members: Iterable[Member], revision: int, now: float
    ) -> frozenset[str]:
        """Set the living workers, as of a revision; returns those gone since the previous list."""
        return self.workers.update_members(members, revision, now)

    def update_connectors(self, connectors: Iterable[DesiredConnector], revision: int) -> None:
        """Set all connectors with their plans. A list older than the known one is ignored."""
        if revision < self._connectors_revision:
            return
        self._connectors_revision = revision
        before, specs = self._connectors, self._specs
        self._connectors = {one.generation: one for one in connectors}
        self._specs = {}
        for generation, one in self._connectors.items():
            if before.get(generation) is one:
                ids = [*(plan.task_id for plan in one.plans), monitor_id(generation)]
                self._specs.update((id_, specs[id_]) for id_ in ids if id_ in specs)
            else:
                self._specs.update((spec.id, spec) for spec in build_task_specs(one))

    def record_report(self, report: Report, now: float) -> bool:
        """Record the report of a worker; returns whether it may change a decision."""
        session = self.workers.sessions.get(report.worker)
        if session is None:
            return False
        is_new = not report.is_partial or session.seen_revision != report.seen_revision
        changed = self.workers.record_report(report)
        # a task that is not in a new assignment failed, and one with a history recovers in time
        concerned = session.tasks.keys() | session.sent_tasks.keys()
        if not is_new:
            concerned &= report.tasks.keys() | (report.released or set()) | self.restarts.known()
        for id_ in concerned:
            spec, owned = self._specs.get(id_), self._owned.get(id_)
            if spec is None or owned is None or id_ in self._leaving:
                continue
            if owned.record.worker == report.worker:
                status = self.workers.task_status(id_, owned)
                self.restarts.record_report(spec, owned, session, status, now)
        return changed

    def has_reports_of(self, desired: DesiredConnector) -> bool:
        """Return whether the states of all tasks of a connector are known."""
        ids = [monitor_id(desired.generation), *(plan.task_id for plan in desired.plans)]
        owners = {self._owned[id_].record.worker for id_ in ids if id_ in self._owned}
        return all(self.workers.has_reported(worker) for worker in owners)

    def request_restarts(self, task_ids: Iterable[str], now: float) -> None:
        """Restart tasks, because an operator requested it."""
        for id_ in task_ids:
            self.restarts.request_restart(id_, self._owned.get(id_), now)

    def decide_writes(self, now: float) -> list[RecordWrite]:
        """Return the writes to store, in order; an empty list when there is nothing to do.

        A write without records only gives the assignments that follow a revision.
        """
        self.restarts.retain(self._owned)
        self.workers.forget_lost({owned.record.worker for owned in self._owned.values()})
        fenced = self.restarts.fenced_tasks() - self._leaving.keys()
        self._leaving.update(dict.fromkeys(fenced, ""))
        situation = Situation(
            self._specs,
            self._owned,
            self.workers,
            self._leaving,
            self._waiting_tasks(now),
            self.restarts.due_restarts(now),
            self.restarts.restart_counts(),
            frozenset(spec.id for spec in self._specs.values() if self.has_completed(spec)),
        )
        next_round = decide_round(situation)
        self._leaving = dict(next_round.leaving)
        records = sorted(next_round.records.items())
        starts = range(0, len(records), MAX_RECORDS_PER_WRITE)
        writes = [self._write_of(dict(records[n : n + MAX_RECORDS_PER_WRITE])) for n in starts]
        if not writes and any(True for _ in self._outdated_workers()):
            writes.append(self._write_of({}))
        return writes

    def record_write(self, write: RecordWrite, revision: int) -> None:
        """Record that a write was stored. Its revision is the epoch of the tasks that it wrote."""
        self._revision = revision
        for id_, record in write.records.items():
            self._leaving.pop(id_, None)
            if record is None:
                self._owned.pop(id_, None)
            else:
                self._owned[id_] = OwnedTask(record, revision)
                self.restarts.record_assignment(id_, record.restarts)

    def take_assignments(self) -> list[WorkerAssignment]:
        """Return the assignments to send, and record them as sent."""
        assignments = []
        for worker, sent in list(self._outdated_workers()):
            self.workers.record_sent(worker, self._revision, sent)
            tasks = tuple(self._assigned_task(worker, id_) for id_ in sorted(sent))
            assignments.append(WorkerAssignment(worker, self._revision, tasks))
        return assignments

    def next_due_at(self, now: float) -> float | None:
        """Return when a decision is due without any new input."""
        times: list[float | None] = [*self._reserved_tasks(now).values()]
        times.append(self.restarts.next_due_at(now))
        return min((time for time in times if time is not None), default=None)

    def _waiting_tasks(self, now: float) -> frozenset[str]:
        failed = {id_ for id_ in self.restarts.delayed_tasks(now) if self._stays_failed(id_)}
        return frozenset(self._reserved_tasks(now).keys() | failed)

    def _reserved_tasks(self, now: float) -> dict[str, float]:
        """Return until when tasks wait for their lost owner. A task that is no longer desired does
        not wait.
        """
        delay_s = self._settings.rebalance_delay_s
        return {
            id_: until
            for id_, owned in self._owned.items()
            if id_ in self._specs
            and (until := self.workers.reserved_until(owned, delay_s, now)) is not None
        }

    def _stays_failed(self, id_: str) -> bool:
        """Return whether a failed task is left alone. A task that moves, or whose digest changed,
        starts anew.
        """
        owned, spec = self._owned.get(id_), self._specs.get(id_)
        if owned is None or spec is None or self.workers.is_owner_gone(owned):
            return False
        if spec.digest not in {None, owned.record.digest}:
            return False
        return id_ not in self._leaving or id_ in self.restarts.fenced_tasks()

    def _write_of(self, records: Mapping[str, TaskRecord | None]) -> RecordWrite:
        epochs = {id_: self._owned[id_].epoch if id_ in self._owned else 0 for id_ in records}
        return RecordWrite(records, epochs)

    def _outdated_workers(self) -> Iterable[tuple[str, SentTasks]]:
        """Yield the workers whose assignment differs from the one that they were sent last."""
        assignments: dict[str, dict[str, tuple[int, TargetState, int]]] = {
            id_: {} for id_ in self.workers.sessions
        }
        newest: dict[str, int] = {}
        for id_, owned in self._owned.items():
            # A task that was deleted after its record was stored is in no assignment. Its owner
            # must still see a later one: only then does its report count that it does not hold it.
            newest[owned.record.worker] = max(newest.get(owned.record.worker, 1), owned.epoch)
            spec = self._specs.get(id_)
            assignment = assignments.get(owned.record.worker)
            if assignment is None or spec is None or id_ in self._leaving:
                continue
            # connectors may have changed since the round was decided: the next round handles that
            if spec.digest in {None, owned.record.digest}:
                assignment[id_] = (owned.epoch, spec.connector.target_state, spec.plan_epoch)
        for worker, assignment in assignments.items():
            session = self.workers.sessions[worker]
            is_old = session.sent_revision < newest.get(worker, 1)
            if session.has_reported and (is_old or session.sent_tasks != assignment):
                yield worker, assignment

    def _assigned_task(self, worker: str, id_: str) -> AssignedTask:
        spec, epoch = self._specs[id_], self._owned[id_].epoch
        held = self.workers.sessions[worker].tasks.get(id_)
        is_known = held is not None and held.epoch == epoch
        return AssignedTask(id_, epoch, spec.connector, spec.plan, is_known, spec.plan_epoch)
