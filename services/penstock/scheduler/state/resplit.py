"""How the partitions of a connector are divided among its tasks again, when some appear or vanish,
or when the number of tasks changes. Pure.

A task whose part did not change keeps its plan as it was, so nobody restarts it (invariant 11).
Sink tasks share the partitions of their topics by the same rule.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeAlias

from penstock.model.connector import Partition, TaskPlan


def resplit(
    generation: str, old: Sequence[TaskPlan], fresh: Sequence[TaskPlan], most: int
) -> tuple[TaskPlan, ...]:
    """Return the plans that follow `old`, ordered by number.

    Args:
        generation: The connector's; task ids are `<generation>-<number>`.
        old: The plans in force.
        fresh: What planning says now. Its grouping counts only where the connector grouped by
            itself, which shows in tasks with a configuration of their own.
        most: Most tasks, for partitions that the host divides.
    """
    if any(plan.config for plan in fresh):
        return matched(generation, old, fresh)
    partitions = {p.id: p for plan in fresh for p in plan.partitions}
    kept = [replace(plan, partitions=tuple(_of(plan, partitions))) for plan in old]
    return divided(generation, kept, list(partitions.values()), most)


def matched(
    generation: str, old: Sequence[TaskPlan], fresh: Sequence[TaskPlan]
) -> tuple[TaskPlan, ...]:
    """Return plans that the connector grouped, under the ids of the old ones that they equal.

    Those that equal none take the ids of old tasks that are gone, in order, then new ones: a
    changed task stays one task with one history.
    """
    unclaimed: dict[tuple[object, ...], list[TaskPlan]] = {}
    for plan in sorted(old, key=_number, reverse=True):
        unclaimed.setdefault(content(plan), []).append(plan)
    named: list[TaskPlan] = []
    changed: list[TaskPlan] = []
    for plan in fresh:
        same = unclaimed.get(content(plan))
        if same:
            named.append(replace(plan, task_id=same.pop().task_id))
        else:
            changed.append(plan)
    taken = {plan.task_id for plan in named}
    ids = _free_ids(generation, taken)
    named += [replace(plan, task_id=next(ids)) for plan in changed]
    return tuple(sorted(named, key=_number))


def divided(
    generation: str, kept: Sequence[TaskPlan], partitions: Sequence[Partition], most: int
) -> tuple[TaskPlan, ...]:
    """Return plans for all partitions: each stays with its task, as far as that is even.

    Even means that no partition could go to a lighter task and leave that one lighter than the one
    it came from. At least one task, even without partitions: it waits for some.
    """
    number = max(1, min(most, len(partitions)))
    plans = sorted(kept, key=_number)[:number]
    ids = _free_ids(generation, {plan.task_id for plan in plans})
    plans += [TaskPlan(next(ids)) for _ in range(number - len(plans))]
    by_id = {p.id: p for p in partitions}
    before = [{p.id for p in plan.partitions} for plan in plans]
    parts = [[(by_id[id_].weight, id_) for id_ in ids_] for ids_ in before]
    rest = [(by_id[id_].weight, id_) for id_ in by_id.keys() - set().union(*before)]
    _even_out(parts, rest)
    done = [
        plan
        if held == {id_ for _, id_ in part}
        else replace(plan, partitions=tuple(by_id[id_] for _, id_ in part))
        for plan, held, part in zip(plans, before, parts, strict=True)
    ]
    return tuple(sorted(done, key=_number))


def content(plan: TaskPlan) -> tuple[object, ...]:
    """Return what of a plan makes a running task another one when it changes.

    Offsets are not of it: where a partition stands is the offset service's to say. Neither is the
    order of partitions, nor their weight.
    """
    parts = sorted(
        (p.id, p.payload, p.datasets, p.bounded, p.finds_others) for p in plan.partitions
    )
    return (tuple(sorted(plan.config.items())), tuple(parts))


_Weighed: TypeAlias = tuple[float, str]
"""A partition's weight and id: what dividing needs, without making the id again and again."""


def _even_out(parts: list[list[_Weighed]], rest: Iterable[_Weighed]) -> None:
    """Give `rest` to the lightest, then move from the heaviest to the lightest while that helps."""
    loads = [sum(weight for weight, _ in part) for part in parts]
    for weighed in sorted(rest, key=lambda one: (-one[0], one[1])):
        lightest = loads.index(min(loads))
        parts[lightest].append(weighed)
        loads[lightest] += weighed[0]
    for part in parts:
        part.sort()
    for _ in range(sum(len(part) for part in parts)):  # each moves at most once
        giver, taker = loads.index(max(loads)), loads.index(min(loads))
        at = _best(parts[giver], loads[giver] - loads[taker])
        if at is None:
            return
        moved = parts[giver].pop(at)
        insort(parts[taker], moved)
        loads[giver] -= moved[0]
        loads[taker] += moved[0]


def _best(part: Sequence[_Weighed], gap: float) -> int | None:
    """Return the place of the partition that halves a gap best, of those that make it smaller."""
    middle = bisect_left(part, (gap / 2, ""))
    near = [n for n in (middle - 1, middle) if 0 <= n < len(part) and 0 < part[n][0] < gap]
    return min(near, key=lambda n: abs(gap - 2 * part[n][0]), default=None)


def _of(plan: TaskPlan, partitions: dict[str, Partition]) -> Iterator[Partition]:
    return (partitions[p.id] for p in plan.partitions if p.id in partitions)


def _free_ids(generation: str, taken: set[str]) -> Iterator[str]:
    return (id_ for n in count() if (id_ := f"{generation}-{n}") not in taken)


def _number(plan: TaskPlan) -> int:
    return int(plan.task_id.rpartition("-")[2])
