"""Which worker should have which task. Pure: the same input gives the same answer.

Three rules, the first that matters wins:

1. **Sticky.** A task stays with its owner while that one may have it.
2. **Even by weight.** A task without an owner goes to the worker that is lightest afterwards, by
   its capacity. Then tasks move from heavier to lighter workers as long as a move makes the heavier
   of the two lighter than it was, without making the other as heavy. So nothing moves when nothing
   is gained (invariant 11), and the heaviest and the lightest differ by less than one task that may
   move.
3. **Spread.** Among workers and tasks that are equal by the rules above, the tasks of a connector
   go to different workers.

Weights are whole numbers inside, so that the order of additions changes nothing and a move that
gains nothing is not taken for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from math import isfinite
from typing import Final, TypeAlias

from penstock.model.errors import ConfigError

Placement: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Labels and the values that each may have, ordered by label. Empty: anywhere."""

ANYWHERE: Final[Placement] = ()

MOST_WISHES: Final = 16
"""Labels in one placement (invariant 12)."""


def parse_placement(text: str) -> Placement:
    """Return what a `placement` says.

    Raises:
        ConfigError: `scheduler.placement`.
    """
    wishes: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        label, equals, values = (word.strip() for word in part.partition("="))
        allowed = tuple(sorted({v.strip() for v in values.split("|") if v.strip()}))
        if not label or not equals or not allowed or label in wishes:
            raise _refused(part)
        wishes[label] = allowed
    if len(wishes) > MOST_WISHES:
        raise _refused(text)
    return tuple(sorted(wishes.items()))


def fits(placement: Placement, labels: Mapping[str, str]) -> bool:
    """Tell whether a worker with these labels is one that a placement wants."""
    return all(labels.get(label) in values for label, values in placement)


def _refused(part: str) -> ConfigError:
    return ConfigError(
        "scheduler.placement",
        f"`placement` cannot be read at {part[:100]!r}",
        fix=f"Write up to {MOST_WISHES} labels as `zone=a|b, disk=ssd`, each once.",
        config_path="placement",
    )


UNITS: Final = 1000
"""Parts of a weight or capacity of 1 that still count."""


MOST: Final = 1e6
"""Largest weight or capacity."""

_Kind: TypeAlias = tuple[int, Placement]
"""Tasks of one weight and placement are alike in everything but their connector."""

_Crowds: TypeAlias = tuple[tuple[int, int] | None, list[tuple[int, str]]]
"""A heap of connectors by how crowded they are, and what was counted when it was made."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task that wants a worker. `weight` is relative: what it costs compared with others."""

    id: str
    connector: str
    weight: float = 1.0
    placement: Placement = ANYWHERE
    kind: _Kind = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", (_units(self.weight), self.placement))


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that takes tasks: as many as its `capacity` says, compared with others.

    One that is `draining` gets none and gives up those that it has. One that is `silent` gets none
    either, and keeps what it has, because it could not be told to let go.
    """

    id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: float = 1.0
    draining: bool = False
    silent: bool = False


def assign(
    tasks: Iterable[Task], workers: Iterable[Worker], owners: Mapping[str, str]
) -> dict[str, str]:
    """Return the worker of each task that has a place; tasks that no worker fits are absent."""
    load = _Load([w for w in sorted(workers, key=lambda w: w.id) if not w.draining])
    homeless = [task for task in tasks if not load.keep(task, owners.get(task.id))]
    for task in sorted(homeless, key=lambda task: (-task.kind[0], task.connector, task.id)):
        load.place(task)
    while load.relieve():
        pass
    return load.owners()


def _units(amount: float) -> int:
    """Return an amount in whole parts: within bounds, 1 for what is no number."""
    return round(min(max(amount, 1 / UNITS), MOST) * UNITS) if isfinite(amount) else UNITS


class _Load:
    """Who has what while the answer is being found. Workers are known by their place in a list."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._index = {worker.id: n for n, worker in enumerate(workers)}
        self._capacity = [_units(worker.capacity) for worker in workers]
        self._alike = len(set(self._capacity)) == 1
        self._weight = [0] * len(workers)
        self._by_id: dict[str, Task] = {}
        # of each kind the connectors, of each connector a heap of ids: the least is the next to go
        self._tasks: list[dict[_Kind, dict[str, list[str]]]] = [{} for _ in workers]
        self._puts, self._takes = [0] * len(workers), [0] * len(workers)
        self._crowds: dict[tuple[int, int, _Kind], _Crowds] = {}
        self._per_connector: dict[str, Counter[int]] = {}
        self._fitting: dict[Placement, list[int]] = {}

    def owners(self) -> dict[str, str]:
        """Return the worker of each task."""
        return {
            id_: worker.id
            for worker, kinds in zip(self._workers, self._tasks, strict=True)
            for connectors in kinds.values()
            for ids in connectors.values()
            for id_ in ids
        }

    def keep(self, task: Task, owner: str | None) -> bool:
        """Leave a task with its owner, if that one may have it."""
        at = None if owner is None else self._index.get(owner)
        if at is None or at not in self._fit(task.placement):
            return False
        self._put(task, at)
        return True

    def place(self, task: Task) -> None:
        """Give a task to the worker that is lightest with it, of those the one with the fewest of
        its connector.
        """
        fit = [at for at in self._fit(task.placement) if not self._workers[at].silent]
        if not fit:
            return
        weight = task.kind[0]
        loads = [(self._weight[at] + weight) / self._capacity[at] for at in fit]
        lightest = min(loads)
        equal = [at for at, load in zip(fit, loads, strict=True) if load == lightest]
        seen = self._per_connector.get(task.connector, Counter())
        self._put(task, min(equal, key=seen.__getitem__))

    def relieve(self) -> bool:
        """Move one task from a heavier worker to a lighter one; False when no move gains."""
        order = sorted(
            (at for at, worker in enumerate(self._workers) if not worker.silent),
            key=lambda at: (self._weight[at] / self._capacity[at], at),
        )
        for giver in reversed(order):
            lightest = min(self._tasks[giver], default=None)
            if lightest is None:
                continue
            for taker in order:
                if not self._gains(lightest[0], giver, taker):
                    if self._alike:
                        break  # those that follow are heavier still, and no task here is lighter
                    continue
                task = self._best(giver, taker)
                if task is not None:
                    self._take(task, giver)
                    self._put(task, taker)
                    return True
        return False

    def _best(self, giver: int, taker: int) -> Task | None:
        """Return the task whose move evens two workers out the most, of those the one whose
        connector is the most crowded at the giver.
        """
        kinds = [
            kind
            for kind in self._tasks[giver]
            if self._gains(kind[0], giver, taker) and taker in self._fit(kind[1])
        ]
        if not kinds:
            return None
        best = min(kinds, key=lambda kind: (self._left(kind[0], giver, taker), kind))
        connector = self._most_crowded(best, giver, taker)
        return self._by_id[self._tasks[giver][best][connector][0]]

    def _most_crowded(self, kind: _Kind, giver: int, taker: int) -> str:
        """Return the connector of a kind that has the most tasks at the giver, compared with the
        taker.

        A heap answers, made once for many moves: ten thousand tasks that move must not cost the
        leader its lease. No entry is larger than the truth: what makes a crowd less (the giver gets
        a task, the taker loses one) makes the heap anew. One that is smaller is put right on top.
        """
        there = self._tasks[giver][kind]
        since = (self._puts[giver], self._takes[taker])
        made, heap = self._crowds.get((giver, taker, kind), (None, []))
        if made != since:
            heap = [(self._crowd(connector, taker, giver), connector) for connector in there]
            heapify(heap)
            self._crowds[giver, taker, kind] = since, heap
        while True:
            crowd, connector = heap[0]
            if connector not in there:
                heappop(heap)
                continue
            now = self._crowd(connector, taker, giver)
            if now == crowd:
                return connector
            heapreplace(heap, (now, connector))

    def _gains(self, weight: int, giver: int, taker: int) -> bool:
        after = (self._weight[taker] + weight) * self._capacity[giver]
        return after < self._weight[giver] * self._capacity[taker]

    def _left(self, weight: int, giver: int, taker: int) -> int:
        """Return how far two workers are apart after a move, scaled by both capacities."""
        giving = (self._weight[giver] - weight) * self._capacity[taker]
        taking = (self._weight[taker] + weight) * self._capacity[giver]
        return abs(giving - taking)

    def _crowd(self, connector: str, taker: int, giver: int) -> int:
        counts = self._per_connector[connector]
        return counts[taker] - counts[giver]

    def _fit(self, placement: Placement) -> list[int]:
        fit = self._fitting.get(placement)
        if fit is None:
            workers = enumerate(self._workers)
            fit = [at for at, worker in workers if fits(placement, worker.labels)]
            self._fitting[placement] = fit
        return fit

    def _put(self, task: Task, at: int) -> None:
        connectors = self._tasks[at].get(task.kind)
        if connectors is None:
            connectors = self._tasks[at][task.kind] = {}
        heappush(connectors.setdefault(task.connector, []), task.id)
        self._by_id[task.id] = task
        self._puts[at] += 1
        self._weight[at] += task.kind[0]
        counts = self._per_connector.get(task.connector)
        if counts is None:
            counts = self._per_connector[task.connector] = Counter()
        counts[at] += 1

    def _take(self, task: Task, at: int) -> None:
        """Take away the first task of its kind and connector."""
        connectors = self._tasks[at][task.kind]
        heappop(connectors[task.connector])
        if not connectors[task.connector]:
            del connectors[task.connector]
        if not connectors:
            del self._tasks[at][task.kind]
        self._takes[at] += 1
        self._weight[at] -= task.kind[0]
        self._per_connector[task.connector][at] -= 1
