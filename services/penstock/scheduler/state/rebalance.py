"""One round of rebalancing: the changes from the current owners to the desired ones. Pure.

A task that must move is first *leaving*: it is in no assignment any more, and its owner stops it.
Only when it is free does the next owner get it, under a new epoch; nothing else moves meanwhile
(invariant 11). Tasks whose configuration or plan changed wait for each other: all old versions of a
connector's tasks must be released before a new one starts, because a partition may have moved from
one to the other.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from penstock.model.status import Rebalances
from penstock.scheduler.state.assignment import assign_tasks
from penstock.scheduler.state.desired_state import TaskSpec, is_monitor_id
from penstock.scheduler.state.records import OwnedTask, TaskRecord
from penstock.scheduler.state.workers import Workers


class RebalanceTimes:
    """Counts rebalances and their durations. One is from the first task that leaves to the last."""

    def __init__(self) -> None:
        self._started_at: float | None = None
        self._completed = 0
        self._total_s = self._max_s = 0.0

    def observe(self, now: float, *, leaving: bool) -> None:
        """Record whether tasks are leaving their owners at this time."""
        if leaving and self._started_at is None:
            self._started_at = now
        elif not leaving and self._started_at is not None:
            seconds, self._started_at = now - self._started_at, None
            self._completed += 1
            self._total_s += seconds
            self._max_s = max(self._max_s, seconds)

    def summary(self) -> Rebalances:
        """Return the count of completed rebalances with their mean and maximum duration."""
        mean_s = self._total_s / self._completed if self._completed else 0.0
        return Rebalances(self._completed, mean_s, self._max_s)


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of a round.

    `leaving` are the tasks that were sent to leave, with the worker that they go to, "" for none.
    `waiting` are tasks that may not start for now. `due_restarts` are tasks to restart now, with
    the count of restarts in a row after it; `restart_counts` are the counts now, where they may
    differ from those in the records. `completed` are tasks that have nothing left to do: they stay
    where they are, and do not start elsewhere.
    """

    specs: Mapping[str, TaskSpec]
    owned: Mapping[str, OwnedTask]
    workers: Workers
    leaving: Mapping[str, str]
    waiting: frozenset[str]
    due_restarts: Mapping[str, int]
    restart_counts: Mapping[str, int]
    completed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a round: the tasks that leave now, and the records to write; None removes."""

    leaving: Mapping[str, str]
    records: Mapping[str, TaskRecord | None]
    target: Mapping[str, str]


def decide_round(now: Situation) -> Round:
    """Return the next round. Deciding again on the same situation changes nothing."""
    target = _target_owners(now)
    leaving = {
        id_: target.get(id_, "")
        for id_, owned in now.owned.items()
        if _must_leave(now, target, id_, owned)
    }
    records: dict[str, TaskRecord | None] = {}
    blocked = _blocked_generations(now)
    for id_, owned in now.owned.items():
        spec = now.specs.get(id_)
        if id_ in now.completed and _has_let_go(now, id_, owned):
            records[id_] = None
        elif now.workers.is_free(id_, owned):
            if id_ in now.waiting:
                continue
            if spec is None or id_ not in target:
                records[id_] = None
            elif _may_start(blocked, spec):
                records[id_] = _new_record(now, spec, target[id_])
        elif (
            spec is not None
            and id_ in now.due_restarts
            and id_ not in leaving
            and _may_start(blocked, spec)
        ):
            records[id_] = _new_record(now, spec, owned.record.worker)
    for id_, spec in now.specs.items():
        if id_ not in now.owned and id_ in target and _may_start(blocked, spec):
            records[id_] = _new_record(now, spec, target[id_])
    return Round(leaving, records, target)


def _target_owners(now: Situation) -> dict[str, str]:
    """Return which worker should own which task. A leaving task counts at the worker that it goes
    to, so that the next rounds move nothing more.
    """
    owners = {
        id_: worker
        for id_, owned in now.owned.items()
        if (worker := now.leaving.get(id_, now.workers.preferred_worker(owned)))
    }
    excluded = {
        id_
        for id_, owned in now.owned.items()
        if now.workers.is_owner_unknown(owned) or (id_ in now.waiting and id_ not in owners)
    }
    busy = {owned.record.worker for owned in now.owned.values()}
    workers = now.workers.candidates(busy)
    excluded |= now.completed
    specs = [spec for id_, spec in now.specs.items() if id_ not in excluded]
    # separately, because a monitor costs next to nothing: no task moves for it
    tasks = assign_tasks([spec.task for spec in specs if not spec.is_monitor], workers, owners)
    monitors = assign_tasks([spec.task for spec in specs if spec.is_monitor], workers, owners)
    return tasks | monitors | _completed_owners(now)


def _completed_owners(now: Situation) -> dict[str, str]:
    """Return the owners of completed tasks. A task whose owner is lost or drained, or has let go of
    it, has none.
    """
    workers = now.workers
    return {
        id_: owned.record.worker
        for id_ in now.completed
        if (owned := now.owned.get(id_)) is not None
        and owned.record.worker in workers.members
        and not workers.is_draining(owned.record.worker)
        and not _has_let_go(now, id_, owned)
    }


def _has_let_go(now: Situation, id_: str, owned: OwnedTask) -> bool:
    """Return whether the owner of a completed task no longer holds it. Its first report says so,
    too: a worker that lost its lease comes back under the same id, and without its tasks.
    """
    session = now.workers.sessions.get(owned.record.worker)
    has_lost = session is not None and session.has_reported and not session.holds(id_)
    return has_lost or now.workers.is_free(id_, owned)


def _must_leave(now: Situation, target: Mapping[str, str], id_: str, owned: OwnedTask) -> bool:
    if id_ in now.leaving:
        return True
    if owned.record.worker not in now.workers.members:
        return False
    spec = now.specs.get(id_)
    if spec is None or spec.digest not in {None, owned.record.digest}:
        return True
    if target.get(id_) == owned.record.worker:
        return False
    # a task without a known digest could not start elsewhere, so it stays as long as it can
    return spec.digest is not None or now.workers.is_draining(owned.record.worker)


def _may_start(blocked: Container[str], spec: TaskSpec) -> bool:
    """Return whether a task may get a new epoch.

    A task that restarts waits, too: it would start with the new configuration and the old plan. A
    monitor has no partitions to wait for.
    """
    return spec.digest is not None if spec.is_monitor else spec.generation not in blocked


def _blocked_generations(now: Situation) -> set[str]:
    """Return the generations of which no task may start now."""
    blocked = {spec.generation for spec in now.specs.values() if spec.digest is None}
    for id_, owned in now.owned.items():
        spec = now.specs.get(id_)
        changed = spec is None or spec.digest != owned.record.digest
        if changed and not is_monitor_id(id_) and not now.workers.is_free(id_, owned):
            blocked.add(owned.record.generation)
    return blocked


def _new_record(now: Situation, spec: TaskSpec, worker: str) -> TaskRecord:
    owned = now.owned.get(spec.id)
    digest, restarts = spec.digest or "", 0
    if owned is not None and owned.record.digest == digest:  # else nothing has failed yet
        count = now.restart_counts.get(spec.id, owned.record.restarts)
        restarts = now.due_restarts.get(spec.id, count)
    name = now.workers.members[worker].name
    return TaskRecord(worker, name, spec.generation, digest, restarts)
