"""One round: what changes between who has which task and who should have it. Pure.

A task that must go is first *leaving*: it is in no assignment any more, and its owner stops it.
Only when it is free is it given to the next owner, under a new epoch; nothing else moves meanwhile
(invariant 11). Tasks that have a new form wait for each other: all old forms of a connector are let
go before a new one starts, because a partition may have gone from one to the other.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from penstock.model.status import Rebalances
from penstock.scheduler.state.assignment import assign
from penstock.scheduler.state.ownership import Workers
from penstock.scheduler.state.records import Owned, Record
from penstock.scheduler.state.wanted import TaskSpec, is_monitor


class Moves:
    """The times so far."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._completed = 0
        self._total = self._most = 0.0

    def note(self, now: float, *, leaving: bool) -> None:
        """Take note whether a task is on its way."""
        if leaving and self._began is None:
            self._began = now
        elif not leaving and self._began is not None:
            seconds, self._began = now - self._began, None
            self._completed += 1
            self._total += seconds
            self._most = max(self._most, seconds)

    def so_far(self) -> Rebalances:
        """Return how many there were."""
        mean = self._total / self._completed if self._completed else 0.0
        return Rebalances(self._completed, mean, self._most)


@dataclass(frozen=True, slots=True)
class Situation:
    """How things stand.

    `leaving` are tasks that were told to leave, with the worker that they are to go to, "" for
    none. `waiting` are tasks that are left alone for a time, `due` those that are to be restarted
    now, with the number of restarts in a row that this makes; `counts` are the numbers until now,
    where they may differ from those in the records.
    """

    specs: Mapping[str, TaskSpec]
    owned: Mapping[str, Owned]
    workers: Workers
    leaving: Mapping[str, str]
    waiting: frozenset[str]
    due: Mapping[str, int]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Round:
    """What follows: tasks that leave now, and records to be written; None removes one."""

    leaving: Mapping[str, str]
    records: Mapping[str, Record | None]
    target: Mapping[str, str]


def decide(now: Situation) -> Round:
    """Return the next round. Deciding again without news changes nothing."""
    target = _target(now)
    leaving = {
        id_: target.get(id_, "")
        for id_, owned in now.owned.items()
        if _leaves(now, target, id_, owned)
    }
    records: dict[str, Record | None] = {}
    blocked = _blocked(now)
    for id_, owned in now.owned.items():
        spec = now.specs.get(id_)
        if now.workers.free(id_, owned):
            if id_ in now.waiting:
                continue
            if spec is None or id_ not in target:
                records[id_] = None
            elif _may_start(blocked, spec):
                records[id_] = _record(now, spec, target[id_])
        elif (
            spec is not None and id_ in now.due and id_ not in leaving and _may_start(blocked, spec)
        ):
            records[id_] = _record(now, spec, owned.record.worker)
    for id_, spec in now.specs.items():
        if id_ not in now.owned and id_ in target and _may_start(blocked, spec):
            records[id_] = _record(now, spec, target[id_])
    return Round(leaving, records, target)


def _target(now: Situation) -> dict[str, str]:
    """Return who should have which task. One that leaves counts where it is to go to, so that
    rounds which follow move nothing more.
    """
    owners = {
        id_: home
        for id_, owned in now.owned.items()
        if (home := now.leaving.get(id_, now.workers.home(owned)))
    }
    absent = {
        id_
        for id_, owned in now.owned.items()
        if now.workers.unknown(owned) or (id_ in now.waiting and id_ not in owners)
    }
    busy = {owned.record.worker for owned in now.owned.values()}
    workers = now.workers.offers(busy)
    present = [spec for id_, spec in now.specs.items() if id_ not in absent]
    # apart, because a monitor weighs next to nothing: no task moves for it
    tasks = assign([spec.task for spec in present if not spec.monitor], workers, owners)
    monitors = assign([spec.task for spec in present if spec.monitor], workers, owners)
    return tasks | monitors


def _leaves(now: Situation, target: Mapping[str, str], id_: str, owned: Owned) -> bool:
    if id_ in now.leaving:
        return True
    if owned.record.worker not in now.workers.members:
        return False
    spec = now.specs.get(id_)
    if spec is None or spec.digest not in {None, owned.record.digest}:
        return True
    if target.get(id_) == owned.record.worker:
        return False
    # what has no known form could not start elsewhere, so it stays as long as it can
    return spec.digest is not None or now.workers.draining(owned.record.worker)


def _may_start(blocked: Container[str], spec: TaskSpec) -> bool:
    """Tell whether a task may get a new epoch. A task that is restarted waits too: it would start
    with the new configuration and the old plan. A monitor has no partitions to wait for.
    """
    return spec.digest is not None if spec.monitor else spec.generation not in blocked


def _blocked(now: Situation) -> set[str]:
    """Return the generations of which nothing may start now."""
    blocked = {spec.generation for spec in now.specs.values() if spec.digest is None}
    for id_, owned in now.owned.items():
        spec = now.specs.get(id_)
        changed = spec is None or spec.digest != owned.record.digest
        if changed and not is_monitor(id_) and not now.workers.free(id_, owned):
            blocked.add(owned.record.generation)
    return blocked


def _record(now: Situation, spec: TaskSpec, worker: str) -> Record:
    owned = now.owned.get(spec.id)
    digest, restarts = spec.digest or "", 0
    if owned is not None and owned.record.digest == digest:  # another form has not failed yet
        known = now.counts.get(spec.id, owned.record.restarts)
        restarts = now.due.get(spec.id, known)
    name = now.workers.members[worker].name
    return Record(worker, name, spec.generation, digest, restarts)
