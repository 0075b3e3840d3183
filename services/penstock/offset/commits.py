"""Claims and commits: one store write each, decided from memory, checked by the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from penstock.model import faults
from penstock.model.errors import RetriableError
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
    """What a decision stands on; the write checks all of it."""

    task: Known[TaskRecord | None]
    floor: Known[int]
    owners: Mapping[str, Known[int]]
    """Epoch that wrote each partition's offset, by key."""


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
                ground = await self._ground(generation, key, ())
                before = ground.task.value
                record = rules.claimed(before, ground.floor.value, epoch)
                if record is before:
                    return record
                if await self._write(generation, key, ground, record, {}):
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
        bodies = {
            stored.offset_key(commit.generation, id_): body for id_, body in commit.offsets.items()
        }
        async with self._turn(key):
            for _ in range(ATTEMPTS):
                ground = await self._ground(commit.generation, key, tuple(bodies))
                record = rules.committed(ground.task.value, ground.floor.value, commit)
                if record is None:
                    return ground.task.revision
                for place, owner in ground.owners.items():
                    rules.check_owner(place, owner.value, commit.epoch)
                values = {
                    place: stored.encode_offset(commit.epoch, body)
                    for place, body in bodies.items()
                }
                revision = await self._write(commit.generation, key, ground, record, values)
                if revision:
                    return revision
        raise _contended(commit.task_id)

    async def _ground(self, generation: str, task: str, places: tuple[str, ...]) -> _Ground:
        """Return what is known, and read at one revision what is not."""
        floor = stored.floor_key(generation)
        missing = [place for place in places if self._owners.get(place) is None]
        missing += [task] if self._tasks.get(task) is None else []
        missing += [floor] if self._floors.get(floor) is None else []
        read = await self._store.get(*missing) if missing else {}
        return _Ground(
            self._tasks.get(task) or _task(read.get(task)),
            self._floors.get(floor) or _floor(read.get(floor)),
            {place: self._owners.get(place) or _owner(read.get(place)) for place in places},
        )

    async def _write(
        self,
        generation: str,
        task: str,
        ground: _Ground,
        record: TaskRecord,
        values: Mapping[str, bytes],
    ) -> int:
        """Write if the ground still holds; returns the revision, 0 when it does not hold.

        Offsets, prepared state and what was applied are one write: no crash can part them.
        """
        floor = stored.floor_key(generation)
        checks = [Check(task, ground.task.revision), Check(floor, ground.floor.revision)]
        checks += [Check(place, owner.revision) for place, owner in ground.owners.items()]
        puts: list[tuple[str, bytes | None]] = list(values.items())
        if record != ground.task.value:
            puts.append((task, stored.encode_task(record)))
        await faults.reach("offset.storing")
        try:
            revision = await self._store.write(checks, puts)
        except Conflict:
            self._forget(floor, task, ground)
            return 0
        except BaseException:  # also when cancelled: whether it was stored is not known
            self._forget(floor, task, ground)
            raise
        self._remember(floor, task, ground, record, values, revision)
        await faults.reach("offset.stored")
        return revision

    def _remember(
        self,
        floor: str,
        task: str,
        ground: _Ground,
        record: TaskRecord,
        values: Mapping[str, bytes],
        revision: int,
    ) -> None:
        same = record == ground.task.value
        self._tasks.put(task, ground.task if same else Known(revision, record))
        self._floors.put(floor, ground.floor)
        for place, value in values.items():
            self._owners.put(place, Known(revision, stored.epoch_of(value)))

    def _forget(self, floor: str, task: str, ground: _Ground) -> None:
        self._tasks.forget((task,))
        self._floors.forget((floor,))
        self._owners.forget(ground.owners)

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        """One commit of a task at a time, in the order that they came."""
        lock = self._turns.setdefault(key, asyncio.Lock())
        async with lock:
            yield


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
