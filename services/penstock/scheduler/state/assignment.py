"""Which worker should run which task. Pure: the same input gives the same result.

Three rules, in the order of their weight:

1. **Sticky.** A task stays with its owner as long as that worker may run it.
2. **Even by weight.** A task without an owner goes to the worker that has the lowest load with it,
   relative to its capacity. Then tasks move from heavier to lighter workers, as long as a move
   makes the heavier one of the two lighter without making the other one as heavy. So nothing moves
   without a gain (invariant 11), and the loads of the heaviest and the lightest worker differ by
   less than one task that may move.
3. **Spread.** Among workers and tasks that are equal by the rules above, the tasks of a connector
   go to different workers.

Weights are integers internally. So the order of additions changes nothing, and rounding never
makes a move without gain look like one.
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
"""Labels with the values that each may have, ordered by label. Empty: any worker."""

ANY_WORKER: Final[Placement] = ()

MAX_PLACEMENT_LABELS: Final = 16
"""Labels in one placement (invariant 12)."""


def parse_placement(text: str) -> Placement:
    """Parse the value of the key `placement`.

    Raises:
        ConfigError: `scheduler.placement`.
    """
    labels: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        label, equals, values = (word.strip() for word in part.partition("="))
        allowed = tuple(sorted({v.strip() for v in values.split("|") if v.strip()}))
        if not label or not equals or not allowed or label in labels:
            raise _invalid_placement(part)
        labels[label] = allowed
    if len(labels) > MAX_PLACEMENT_LABELS:
        raise _invalid_placement(text)
    return tuple(sorted(labels.items()))


def matches_placement(placement: Placement, labels: Mapping[str, str]) -> bool:
    """Return whether a worker with these labels satisfies a placement."""
    return all(labels.get(label) in values for label, values in placement)


def _invalid_placement(part: str) -> ConfigError:
    return ConfigError(
        "scheduler.placement",
        f"`placement` cannot be parsed at {part[:100]!r}",
        fix=f"Write up to {MAX_PLACEMENT_LABELS} labels as `zone=a|b, disk=ssd`, each label once.",
        config_path="placement",
    )


UNITS_PER_WEIGHT: Final = 1000
"""Integer units of a weight or capacity of 1. Smaller differences are lost."""


MAX_WEIGHT: Final = 1e6
"""Largest weight or capacity."""

_Kind: TypeAlias = tuple[int, Placement]
"""Weight and placement of a task. Tasks of one kind differ in nothing but their connector."""

_Crowds: TypeAlias = tuple[tuple[int, int] | None, list[tuple[int, str]]]
"""A heap of connectors by how crowded they are, and the counters at which it was built."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task that needs a worker. `weight` is its cost, relative to other tasks."""

    id: str
    connector: str
    weight: float = 1.0
    placement: Placement = ANY_WORKER
    kind: _Kind = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", (_to_units(self.weight), self.placement))


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that can run tasks, in proportion to its `capacity`.

    A `draining` worker gets no tasks and loses those that it has. A `disconnected` worker gets no
    tasks either, but keeps those that it has: it cannot be notified to release them.
    """

    id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: float = 1.0
    draining: bool = False
    disconnected: bool = False


def assign_tasks(
    tasks: Iterable[Task], workers: Iterable[Worker], owners: Mapping[str, str]
) -> dict[str, str]:
    """Return the worker of each task. A task that matches no worker is absent."""
    load = _Load([w for w in sorted(workers, key=lambda w: w.id) if not w.draining])
    unassigned = [task for task in tasks if not load.keep(task, owners.get(task.id))]
    for task in sorted(unassigned, key=lambda task: (-task.kind[0], task.connector, task.id)):
        load.place(task)
    while load.move_one():
        pass
    return load.owners()


def _to_units(amount: float) -> int:
    """Convert a weight or capacity to units: within bounds, 1 for what is not a finite number."""
    if not isfinite(amount):
        return UNITS_PER_WEIGHT
    return round(min(max(amount, 1 / UNITS_PER_WEIGHT), MAX_WEIGHT) * UNITS_PER_WEIGHT)


class _Load:
    """The assignment while it is computed. Workers are known by their index in a list."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._index = {worker.id: n for n, worker in enumerate(workers)}
        self._capacity = [_to_units(worker.capacity) for worker in workers]
        self._equal_capacities = len(set(self._capacity)) == 1
        self._weight = [0] * len(workers)
        self._by_id: dict[str, Task] = {}
        # of each kind the connectors, of each connector a heap of ids: the smallest moves next
        self._tasks: list[dict[_Kind, dict[str, list[str]]]] = [{} for _ in workers]
        self._puts, self._takes = [0] * len(workers), [0] * len(workers)
        self._crowds: dict[tuple[int, int, _Kind], _Crowds] = {}
        self._per_connector: dict[str, Counter[int]] = {}
        self._matching: dict[Placement, list[int]] = {}

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
        """Leave a task with its owner, if that worker may run it; else return False."""
        index = None if owner is None else self._index.get(owner)
        if index is None or index not in self._matches(task.placement):
            return False
        self._put(task, index)
        return True

    def place(self, task: Task) -> None:
        """Give a task to the worker with the lowest load after it; of those, to the one with the
        fewest tasks of its connector.
        """
        matches = [n for n in self._matches(task.placement) if not self._workers[n].disconnected]
        if not matches:
            return
        weight = task.kind[0]
        loads = [(self._weight[n] + weight) / self._capacity[n] for n in matches]
        lightest = min(loads)
        equal = [n for n, load in zip(matches, loads, strict=True) if load == lightest]
        counts = self._per_connector.get(task.connector, Counter())
        self._put(task, min(equal, key=counts.__getitem__))

    def move_one(self) -> bool:
        """Move one task from a heavier worker to a lighter one; False when no move gains."""
        order = sorted(
            (n for n, worker in enumerate(self._workers) if not worker.disconnected),
            key=lambda n: (self._weight[n] / self._capacity[n], n),
        )
        for giver in reversed(order):
            lightest = min(self._tasks[giver], default=None)
            if lightest is None:
                continue
            for taker in order:
                if not self._gains(lightest[0], giver, taker):
                    if self._equal_capacities:
                        break  # the next takers are heavier still, and no task here is lighter
                    continue
                task = self._best_task(giver, taker)
                if task is not None:
                    self._take(task, giver)
                    self._put(task, taker)
                    return True
        return False

    def _best_task(self, giver: int, taker: int) -> Task | None:
        """Return the task whose move makes two workers most equal; of those, one of the connector
        that is most crowded at the giver.
        """
        kinds = [
            kind
            for kind in self._tasks[giver]
            if self._gains(kind[0], giver, taker) and taker in self._matches(kind[1])
        ]
        if not kinds:
            return None
        best = min(kinds, key=lambda kind: (self._difference_after(kind[0], giver, taker), kind))
        connector = self._most_crowded(best, giver, taker)
        return self._by_id[self._tasks[giver][best][connector][0]]

    def _most_crowded(self, kind: _Kind, giver: int, taker: int) -> str:
        """Return the connector of a kind that has the most tasks at the giver, compared with the
        taker.

        A heap answers, built once for many moves: ten thousand moves must not cost the leader its
        lease. No entry is larger than its true value: whatever makes a crowd smaller (the giver
        gets a task, the taker loses one) rebuilds the heap. An entry that is smaller is corrected
        when it reaches the top.
        """
        present = self._tasks[giver][kind]
        counters = (self._puts[giver], self._takes[taker])
        built_at, heap = self._crowds.get((giver, taker, kind), (None, []))
        if built_at != counters:
            heap = [(self._crowd(connector, taker, giver), connector) for connector in present]
            heapify(heap)
            self._crowds[giver, taker, kind] = counters, heap
        while True:
            crowd, connector = heap[0]
            if connector not in present:
                heappop(heap)
                continue
            current = self._crowd(connector, taker, giver)
            if current == crowd:
                return connector
            heapreplace(heap, (current, connector))

    def _gains(self, weight: int, giver: int, taker: int) -> bool:
        after = (self._weight[taker] + weight) * self._capacity[giver]
        return after < self._weight[giver] * self._capacity[taker]

    def _difference_after(self, weight: int, giver: int, taker: int) -> int:
        """Return the difference of two loads after a move, scaled by both capacities."""
        giver_load = (self._weight[giver] - weight) * self._capacity[taker]
        taker_load = (self._weight[taker] + weight) * self._capacity[giver]
        return abs(giver_load - taker_load)

    def _crowd(self, connector: str, taker: int, giver: int) -> int:
        counts = self._per_connector[connector]
        return counts[taker] - counts[giver]

    def _matches(self, placement: Placement) -> list[int]:
        matches = self._matching.get(placement)
        if matches is None:
            workers = enumerate(self._workers)
            matches = [n for n, worker in workers if matches_placement(placement, worker.labels)]
            self._matching[placement] = matches
        return matches

    def _put(self, task: Task, index: int) -> None:
        connectors = self._tasks[index].get(task.kind)
        if connectors is None:
            connectors = self._tasks[index][task.kind] = {}
        heappush(connectors.setdefault(task.connector, []), task.id)
        self._by_id[task.id] = task
        self._puts[index] += 1
        self._weight[index] += task.kind[0]
        counts = self._per_connector.get(task.connector)
        if counts is None:
            counts = self._per_connector[task.connector] = Counter()
        counts[index] += 1

    def _take(self, task: Task, index: int) -> None:
        """Remove the first task of its kind and connector."""
        connectors = self._tasks[index][task.kind]
        heappop(connectors[task.connector])
        if not connectors[task.connector]:
            del connectors[task.connector]
        if not connectors:
            del self._tasks[index][task.kind]
        self._takes[index] += 1
        self._weight[index] -= task.kind[0]
        self._per_connector[task.connector][index] -= 1
