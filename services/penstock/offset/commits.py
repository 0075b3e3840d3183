"""Claims and commits: one store write each, decided from memory, checked by the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from penstock.model import faults
from penstock.model.errors import PenstockError, RetriableError
from penstock.offset import rules, stored
from penstock.offset.memory import Known, Memory
from penstock.offset.rules import Commit, TaskRecord
from penstock.store import Check, Conflict, Entry, Store

MOST_TASKS: Final = 4096
MOST_PARTITIONS: Final = 100_000
"""Keys that are remembered. Beyond them a commit costs one more read; a partition takes about 300
bytes, a task as much as its prepared state."""

ATTEMPTS: Final = 8
"""Times that a commit is decided anew. Only another instance, or a person's alteration, can come
between, so a second loss is rare already."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a decision stands on; the write checks all of it.

    `owners` are the epochs that wrote the partitions' offsets, by key. `fresh`: nothing of it came
    from memory.
    """

    task_key: str
    floor_key: str
    task: Known[TaskRecord | None]
    floor: Known[int]
    owners: Mapping[str, Known[int]]
    fresh: bool

    def checks(self) -> list[Check]:
        """Return what must still hold when the decision is written."""
        return [
            Check(self.task_key, self.task.revision),
            Check(self.floor_key, self.floor.revision),
            *(Check(place, owner.revision) for place, owner in self.owners.items()),
        ]


class Commits:
    """The claims and commits of a store."""

    def __init__(self, store: Store) -> None:
        """Commit to `store`, which its maker closes."""
        self._store = store
        self._tasks: Memory[TaskRecord | None] = Memory(MOST_TASKS)
        self._floors: Memory[int] = Memory(MOST_TASKS)
        self._owners: Memory[int] = Memory(MOST_PARTITIONS)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def claim(self, generation: str, task_id: str, epoch: int) -> TaskRecord:
        """Fence all older epochs of a task; returns where it stands.

        Raises:
            FencedError: `offset.stale_epoch`.
        """
        rules.check_task(generation, task_id, epoch)
        key = stored.task_key(generation, task_id)
        async with self._turn(key):
            for _ in range(ATTEMPTS):
                self._tasks.forget((key,))  # another instance may have seen a newer claim
                ground = await self._ground(generation, key, ())
                before = ground.task.value
                record = rules.claimed(before, ground.floor.value, epoch)
                if record is before:
                    self._tasks.put(key, ground.task)
                    return record
                if await self._write(ground, record, {}):
                    return record
        raise _contended(task_id)

    async def commit(self, commit: Commit) -> int:
        """Store offsets, prepared state and what was applied in one write; returns its revision.

        Raises:
            FencedError: `offset.stale_epoch`: nothing was stored.
        """
        rules.check_task(commit.generation, commit.task_id, commit.epoch)
        rules.check_sizes(commit.offsets, commit.prepared)
        key = stored.task_key(commit.generation, commit.task_id)
        values = {
            stored.offset_key(commit.generation, id_): stored.encode_offset(commit.epoch, body)
            for id_, body in commit.offsets.items()
        }
        async with self._turn(key):
            for _ in range(ATTEMPTS):
                ground = await self._ground(commit.generation, key, tuple(values))
                try:
                    record = _decide(ground, commit)
                except PenstockError:
                    if ground.fresh:
                        raise
                    self._forget(ground)  # it was decided from memory, which may be stale
                    continue
                if record is None:
                    return ground.task.revision
                revision = await self._write(ground, record, values)
                if revision:
                    return revision
        raise _contended(commit.task_id)

    async def _ground(self, generation: str, task: str, places: tuple[str, ...]) -> _Ground:
        """Return what is known, and read at one revision what is not."""
        floor = stored.floor_key(generation)
        task_known, floor_known = self._tasks.get(task), self._floors.get(floor)
        owners = {place: self._owners.get(place) for place in places}
        missing = [place for place, owner in owners.items() if owner is None]
        missing += [task] if task_known is None else []
        missing += [floor] if floor_known is None else []
        read = await self._store.get(*missing) if missing else {}
        return _Ground(
            task,
            floor,
            task_known or _task(read.get(task)),
            floor_known or _floor(read.get(floor)),
            {place: owner or _owner(read.get(place)) for place, owner in owners.items()},
            fresh=len(missing) == len(places) + 2,
        )

    async def _write(self, ground: _Ground, record: TaskRecord, values: Mapping[str, bytes]) -> int:
        """Write if the ground still holds; returns the revision, 0 when it does not hold.

        Offsets, prepared state and what was applied are one write: no crash can part them.
        """
        puts: list[tuple[str, bytes | None]] = list(values.items())
        if record != ground.task.value:
            puts.append((ground.task_key, stored.encode_task(record)))
        await faults.reach("offset.storing")
        try:
            revision = await self._store.write(ground.checks(), puts)
        except Conflict:
            self._forget(ground)
            return 0
        except BaseException:  # also when cancelled: whether it was stored is not known
            self._forget(ground)
            raise
        self._remember(ground, record, values, revision)
        await faults.reach("offset.stored")
        return revision

    def _remember(
        self, ground: _Ground, record: TaskRecord, values: Mapping[str, bytes], revision: int
    ) -> None:
        same = record == ground.task.value
        self._tasks.put(ground.task_key, ground.task if same else Known(revision, record))
        self._floors.put(ground.floor_key, ground.floor)
        for place, value in values.items():
            self._owners.put(place, Known(revision, stored.epoch_of(value)))

    def _forget(self, ground: _Ground) -> None:
        self._tasks.forget((ground.task_key,))
        self._floors.forget((ground.floor_key,))
        self._owners.forget(ground.owners)

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        """One commit of a task at a time, in the order that they came."""
        lock = self._turns.setdefault(key, asyncio.Lock())
        async with lock:
            yield


def _decide(ground: _Ground, commit: Commit) -> TaskRecord | None:
    record = rules.committed(ground.task.value, ground.floor.value, commit)
    for place, owner in ground.owners.items():
        rules.check_owner(place, owner.value, commit.epoch)
    return record


def _task(entry: Entry | None) -> Known[TaskRecord | None]:
    if entry is None:
        return Known(0, None)
    return Known(entry.revision, stored.decode_task(entry.value))


def _floor(entry: Entry | None) -> Known[int]:
    return Known(entry.revision, stored.decode_floor(entry.value)) if entry else Known(0, 0)


def _owner(entry: Entry | None) -> Known[int]:
    return Known(entry.revision, stored.epoch_of(entry.value)) if entry else Known(0, 0)


def _contended(task_id: str) -> RetriableError:
    return RetriableError(
        "offset.contended",
        f"other writes came before that of task {task_id} {ATTEMPTS} times in a row",
        fix="Repeat it; see whether two owners fight for the task.",
        retry_after=0.2,
    )
