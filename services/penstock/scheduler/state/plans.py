"""The plans of connectors: when to plan, for how many tasks, and which task gets which partition.
No I/O: time and randomness are arguments.

- `PlanSchedule`: a connector is planned when it has no plans, when its plans were made for another
  configuration, when its monitor or an operator requests it, and when its lag changes the number of
  tasks. A failed plan is retried like a failed task: by the class of its error.
- `next_scale`: the number of tasks by lag. It grows quickly and by half, shrinks slowly and by one,
  and stays between the two bounds of the lag: a number that goes up and down restarts tasks for
  nothing.
- `update_plans`: partitions are divided among the tasks again when some appear or vanish, or when
  the number of tasks changes. A task whose partitions stay the same keeps its plan, so it is not
  restarted (invariant 11). Sink tasks share the partitions of their topics by the same rule.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeAlias

from penstock.model.backoff import RestartPolicy
from penstock.model.connector import ApplyAction, Connector, Partition, TargetState, TaskPlan
from penstock.model.errors import Diagnostic
from penstock.scheduler.state.assignment import matches_placement
from penstock.scheduler.state.desired_state import (
    DesiredConnector,
    ScalingRules,
    TaskRules,
    digest_config,
    parse_task_rules,
    plan_content,
)
from penstock.scheduler.state.restarts import FailureAction, decide_action
from penstock.scheduler.state.workers import Member, Workers

MIN_REPLAN_INTERVAL_S: Final = 1.0
"""Seconds between two plans that a monitor requests. Without it, a monitor that requests plans all
the time would keep one of the few planning slots busy for ever."""

RATE_WINDOW_S: Final = 5.0
"""Seconds over which rows are counted. A shorter window can fall between two reports, in which no
row seems to move."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A connector to plan now, for at most `tasks` tasks, by the worker at `address`.

    `old` are the plans in force.
    """

    connector: Connector
    tasks: int
    old: tuple[TaskPlan, ...]
    worker: str
    address: str
    action: ApplyAction | None = None
    """The change that plugins apply to external systems first; None: it is only planned again."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A number of tasks, and since when the lag has been too high or too low for it."""

    tasks: int
    high_since: float | None = None
    low_since: float | None = None


def initial_scale(rules: ScalingRules) -> Scale:
    """Return the number of tasks with which a connector starts."""
    return Scale(rules.max_tasks if rules.target_lag_s <= 0 else max(1, rules.min_tasks))


def estimate_lag_s(rows_left: int, rows_per_second: float) -> float | None:
    """Return the seconds that a connector needs for its unread rows; None when unknown.

    With rows left and none moving, it is infinite.
    """
    if rows_left < 0:
        return None
    if rows_left == 0:
        return 0.0
    return rows_left / rows_per_second if rows_per_second > 0 else math.inf


def clamp_scale(rules: ScalingRules, scale: Scale) -> Scale:
    """Return the scale within the bounds of the rules; the same object when it is within."""
    tasks = min(max(scale.tasks, rules.min_tasks, 1), max(rules.max_tasks, 1))
    return scale if tasks == scale.tasks else Scale(tasks)


def next_scale(rules: ScalingRules, scale: Scale, lag_s: float | None, now: float) -> Scale:
    """Return the scale that follows from a lag. An unknown lag changes nothing."""
    if rules.target_lag_s <= 0:
        return Scale(max(1, rules.max_tasks))
    within = clamp_scale(rules, scale)
    if within != scale:
        return within
    if lag_s is None:
        return replace(scale, high_since=None, low_since=None)
    if lag_s > rules.target_lag_s and scale.tasks < rules.max_tasks:
        since = now if scale.high_since is None else scale.high_since
        if now - since < rules.scale_up_after_s:
            return Scale(scale.tasks, high_since=since)
        return Scale(min(rules.max_tasks, scale.tasks + max(1, scale.tasks // 2)))
    low_lag_s = rules.target_lag_s * rules.low_fraction
    if lag_s < low_lag_s and scale.tasks > max(rules.min_tasks, 1):
        since = now if scale.low_since is None else scale.low_since
        if now - since < rules.scale_down_after_s:
            return Scale(scale.tasks, low_since=since)
        return Scale(scale.tasks - 1)
    return Scale(scale.tasks)


@dataclass(slots=True)
class _Planning:
    """The planning of one connector."""

    is_requested: bool = False
    is_running: bool = False
    failures: int = 0
    diagnostic: Diagnostic | None = None
    failed_digest: str = ""
    due_at: float | None = None
    planned_by: str = ""
    earliest_at: float = 0.0
    scale: Scale | None = None
    progress: tuple[float, int] | None = None
    """When rows were counted last, and how many had moved until then."""
    rules: tuple[int, TaskRules] = field(default_factory=lambda: (-1, TaskRules()))
    """The rules of a configuration, with its revision."""


class PlanSchedule:
    """Which connectors must be planned, when, and by which worker."""

    def __init__(self, policy: RestartPolicy, rng: random.Random) -> None:
        self._policy, self._rng = policy, rng
        self._connectors: dict[str, _Planning] = {}

    def retain(self, connectors: Mapping[str, DesiredConnector]) -> None:
        """Forget the connectors that no longer exist (invariant 12)."""
        self._connectors = {id_: one for id_, one in self._connectors.items() if id_ in connectors}

    def request_now(self, generation: str) -> None:
        """Plan a connector again at once, also after failures: an operator requested it."""
        planning = self._planning(generation)
        planning.is_requested, planning.failures = True, 0
        planning.diagnostic = planning.due_at = None
        planning.earliest_at = -math.inf

    def request_replan(self, generation: str) -> None:
        """Plan a connector again, because its monitor requested it: at most once in
        `MIN_REPLAN_INTERVAL_S`, and not before a failed plan is due again.
        """
        self._planning(generation).is_requested = True

    def failure_of(self, desired: DesiredConnector) -> Diagnostic | None:
        """Return why a connector could not be planned as it is configured now."""
        planning = self._connectors.get(desired.generation)
        if planning is None or planning.failed_digest != desired.digest:
            return None
        return planning.diagnostic

    def planner_of(self, generation: str) -> str:
        """Return the worker that made the plans; "" when unknown."""
        planning = self._connectors.get(generation)
        return planning.planned_by if planning else ""

    def scales_by_lag(self, desired: DesiredConnector) -> bool:
        """Return whether the lag of a connector decides its number of tasks."""
        return desired.has_current_plans and self._rules(desired).scaling.target_lag_s > 0

    def observe_progress(
        self, desired: DesiredConnector, rows_left: int, rows_moved: int, now: float
    ) -> None:
        """Record how many rows a connector has left (-1: unknown), and how many it has moved."""
        planning, rules = self._planning(desired.generation), self._rules(desired).scaling
        before = planning.progress
        if before is not None and before[0] <= now < before[0] + RATE_WINDOW_S:
            return
        planning.progress = (now, rows_moved)
        if before is None or now <= before[0] or rows_moved < before[1]:
            return  # a restarted task begins to count anew
        rate = (rows_moved - before[1]) / (now - before[0])
        scale = planning.scale or Scale(len(desired.plans))
        planning.scale = next_scale(rules, scale, estimate_lag_s(rows_left, rate), now)
        planning.is_requested = planning.is_requested or planning.scale.tasks != scale.tasks

    def due_requests(
        self, connectors: Iterable[DesiredConnector], workers: Workers, now: float
    ) -> list[PlanRequest]:
        """Return what to plan now. Each is returned once, until its success or failure."""
        requests = []
        for desired in connectors:
            planning = self._planning(desired.generation)
            if planning.is_running or not self._is_due(desired, planning, now):
                continue
            member = self._choose_worker(desired, planning, workers)
            if member is not None:
                planning.is_running, planning.is_requested = True, False
                planning.scale = self._scale(desired, planning)
                requests.append(
                    PlanRequest(
                        desired.connector,
                        planning.scale.tasks,
                        desired.plans,
                        member.id,
                        member.address,
                        _apply_action(desired),
                    )
                )
        return requests

    def record_success(self, generation: str, worker: str, now: float) -> None:
        """Record that a connector was planned. The caller passes its new plans to the next
        `due_requests`: with the old ones as input, it would restart what they do not contain.
        """
        planning = self._planning(generation)
        planning.is_running, planning.failures = False, 0
        planning.diagnostic = planning.due_at = None
        planning.planned_by, planning.earliest_at = worker, now + MIN_REPLAN_INTERVAL_S

    def record_failure(self, request: PlanRequest, why: Diagnostic, now: float) -> None:
        """Record that a connector could not be planned."""
        connector = request.connector
        planning = self._planning(connector.generation)
        planning.is_running, planning.diagnostic = False, why
        planning.failed_digest = digest_config(connector)
        limit = self._rules_of(planning, connector.revision, connector.config).max_restarts
        failures, fraction = planning.failures, self._rng.random()
        decision = decide_action(self._policy, why.error_class, failures, limit, fraction)
        is_final = decision.action is FailureAction.WAIT
        planning.due_at = None if is_final else now + decision.delay_s
        planning.failures += 1

    def next_due_at(self, now: float) -> float | None:
        """Return when the next plan is due without any new input."""
        plannings = self._connectors.values()
        times = [one.due_at for one in plannings if one.due_at is not None]
        times += [one.earliest_at for one in plannings if one.is_requested]
        return min((time for time in times if time > now), default=None)

    def _is_due(self, desired: DesiredConnector, planning: _Planning, now: float) -> bool:
        if desired.connector.target_state is TargetState.STOPPED:
            return False
        if planning.diagnostic is not None and planning.failed_digest == desired.digest:
            return planning.due_at is not None and planning.due_at <= now
        if planning.diagnostic is not None:  # another configuration failed
            planning.diagnostic, planning.failures = None, 0
        may_replan = planning.is_requested and planning.earliest_at <= now
        return may_replan or not desired.has_current_plans

    def _scale(self, desired: DesiredConnector, planning: _Planning) -> Scale:
        """Return the number of tasks to plan. A new leader continues with the current number."""
        rules = self._rules(desired).scaling
        if rules.target_lag_s <= 0 or not (planning.scale or desired.plans):
            return initial_scale(rules)
        return clamp_scale(rules, planning.scale or Scale(len(desired.plans)))

    def _choose_worker(
        self, desired: DesiredConnector, planning: _Planning, workers: Workers
    ) -> Member | None:
        """Return the worker that plans a connector: another one after each failure."""
        placement = self._rules(desired).placement
        able = [
            member
            for id_, member in sorted(workers.members.items())
            if member.address
            and matches_placement(placement, member.labels)
            and not workers.is_draining(id_)
        ]
        return able[planning.failures % len(able)] if able else None

    def _rules(self, desired: DesiredConnector) -> TaskRules:
        planning, connector = self._planning(desired.generation), desired.connector
        return self._rules_of(planning, connector.revision, connector.config)

    def _rules_of(self, planning: _Planning, revision: int, config: Mapping[str, str]) -> TaskRules:
        if planning.rules[0] != revision:
            planning.rules = (revision, parse_task_rules(config))
        return planning.rules[1]

    def _planning(self, generation: str) -> _Planning:
        return self._connectors.setdefault(generation, _Planning())


def _apply_action(desired: DesiredConnector) -> ApplyAction | None:
    """Return the change that plugins apply before a connector is planned."""
    if desired.has_current_plans:
        return None
    return ApplyAction.UPDATE if desired.plan_epoch else ApplyAction.CREATE


def update_plans(
    generation: str, old: Sequence[TaskPlan], fresh: Sequence[TaskPlan], max_tasks: int
) -> tuple[TaskPlan, ...]:
    """Return the plans that follow `old`, ordered by number.

    Args:
        generation: The generation of the connector; task ids are `<generation>-<number>`.
        old: The plans in force.
        fresh: The plans that a worker made now. Their grouping counts only where the connector
            grouped partitions itself, which shows in tasks with a configuration of their own.
        max_tasks: The maximum number of tasks, for partitions that the scheduler divides.
    """
    if any(plan.config for plan in fresh):
        return _match_plans(generation, old, fresh)
    partitions = {p.id: p for plan in fresh for p in plan.partitions}
    kept = [replace(plan, partitions=tuple(_still_present(plan, partitions))) for plan in old]
    return _divide_partitions(generation, kept, list(partitions.values()), max_tasks)


def _match_plans(
    generation: str, old: Sequence[TaskPlan], fresh: Sequence[TaskPlan]
) -> tuple[TaskPlan, ...]:
    """Return plans that the connector grouped, under the ids of the old plans that they equal.

    A plan that equals none takes the id of an old task that is gone, in order, then a new one: a
    changed task stays one task with one history.
    """
    unclaimed: dict[tuple[object, ...], list[TaskPlan]] = {}
    for plan in sorted(old, key=_number, reverse=True):
        unclaimed.setdefault(plan_content(plan), []).append(plan)
    named: list[TaskPlan] = []
    changed: list[TaskPlan] = []
    for plan in fresh:
        equal = unclaimed.get(plan_content(plan))
        if equal:
            named.append(replace(plan, task_id=equal.pop().task_id))
        else:
            changed.append(plan)
    used = {plan.task_id for plan in named}
    ids = _free_ids(generation, used)
    named += [replace(plan, task_id=next(ids)) for plan in changed]
    return tuple(sorted(named, key=_number))


def _divide_partitions(
    generation: str, kept: Sequence[TaskPlan], partitions: Sequence[Partition], max_tasks: int
) -> tuple[TaskPlan, ...]:
    """Return plans for all partitions. Each partition stays with its task, as far as that is even.

    Even means that no partition could move to a lighter task and leave that task lighter than the
    one that it came from. There is at least one task: without partitions, it waits for some.
    """
    number = max(1, min(max_tasks, len(partitions)))
    plans = sorted(kept, key=_number)[:number]
    ids = _free_ids(generation, {plan.task_id for plan in plans})
    plans += [TaskPlan(next(ids)) for _ in range(number - len(plans))]
    by_id = {p.id: p for p in partitions}
    before = [{p.id for p in plan.partitions} for plan in plans]
    parts = [[(by_id[id_].weight, id_) for id_ in ids_] for ids_ in before]
    unassigned = [(by_id[id_].weight, id_) for id_ in by_id.keys() - set().union(*before)]
    _balance(parts, unassigned)
    divided = [
        plan
        if held == {id_ for _, id_ in part}
        else replace(plan, partitions=tuple(by_id[id_] for _, id_ in part))
        for plan, held, part in zip(plans, before, parts, strict=True)
    ]
    return tuple(sorted(divided, key=_number))


_Weighted: TypeAlias = tuple[float, str]
"""The weight and the id of a partition. An id is expensive to compute, so it is computed once."""


def _balance(parts: list[list[_Weighted]], unassigned: Iterable[_Weighted]) -> None:
    """Give unassigned partitions to the lightest task, then move partitions from the heaviest task
    to the lightest one as long as that helps.
    """
    loads = [sum(weight for weight, _ in part) for part in parts]
    for partition in sorted(unassigned, key=lambda one: (-one[0], one[1])):
        lightest = loads.index(min(loads))
        parts[lightest].append(partition)
        loads[lightest] += partition[0]
    for part in parts:
        part.sort()
    for _ in range(sum(len(part) for part in parts)):  # each moves at most once
        giver, taker = loads.index(max(loads)), loads.index(min(loads))
        index = _best_index(parts[giver], loads[giver] - loads[taker])
        if index is None:
            return
        moved = parts[giver].pop(index)
        insort(parts[taker], moved)
        loads[giver] -= moved[0]
        loads[taker] += moved[0]


def _best_index(part: Sequence[_Weighted], gap: float) -> int | None:
    """Return the index of the partition whose move reduces a gap most; None when none does."""
    middle = bisect_left(part, (gap / 2, ""))
    near = [n for n in (middle - 1, middle) if 0 <= n < len(part) and 0 < part[n][0] < gap]
    return min(near, key=lambda n: abs(gap - 2 * part[n][0]), default=None)


def _still_present(plan: TaskPlan, partitions: Mapping[str, Partition]) -> Iterator[Partition]:
    return (partitions[p.id] for p in plan.partitions if p.id in partitions)


def _free_ids(generation: str, used: set[str]) -> Iterator[str]:
    return (id_ for n in count() if (id_ := f"{generation}-{n}") not in used)


def _number(plan: TaskPlan) -> int:
    return int(plan.task_id.rpartition("-")[2])
