"""What a decision about a commit stands on: read once, remembered, checked by the write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.offset import stored
from penstock.offset.cache import Known, Memory
from penstock.offset.history import epoch_of
from penstock.offset.journal import Journal, merged
from penstock.offset.manifest import Head
from penstock.offset.rules import TaskRecord
from penstock.offset.view import READS, View, known_head, known_value, restless
from penstock.store import Check, Entry, Store

MOST_TASKS: Final = 4096
"""Tasks, and generations, that are remembered. A task takes as much as its prepared state."""

MOST_VALUES: Final = 48 << 20
"""Bytes of offsets that are remembered: what is beyond costs a commit one more read."""

_KEY_BYTES: Final = 400
"""What a remembered key takes beside its value."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A task's record, its generation's head, and what the line has for some partitions.

    `fresh`: an error that follows from it is final. The head may come from memory even so: its
    floor only grows, so what it refuses is refused for ever.
    """

    generation: str
    task_key: str
    task: Known[TaskRecord | None]
    head: Known[Head]
    bases: Mapping[str, Known[bytes | None]]
    journals: Sequence[Journal]
    fresh: bool

    @property
    def head_key(self) -> str:
        """The key of the head."""
        return stored.head_key(self.generation)

    @property
    def prefix(self) -> str:
        """What the keys of the line start with."""
        return stored.line_prefix(self.generation, self.head.value.line)

    def value(self, partition_id: str) -> bytes | None:
        """Return a partition's value as it counts."""
        return merged(partition_id, self.bases[partition_id], self.journals)

    def owner(self, partition_id: str) -> int:
        """Return the epoch that wrote a partition's offset; 0 for none."""
        value = self.value(partition_id)
        return epoch_of(value) if value else 0

    def checks(self) -> list[Check]:
        """Return what must still hold when the decision is written."""
        return [
            Check(self.task_key, self.task.revision),
            Check(self.head_key, self.head.revision),
            *(Check(self.prefix + id_, base.revision) for id_, base in self.bases.items()),
        ]


class Grounds:
    """Reads grounds, and remembers them. What is remembered may be stale: writes check it."""

    def __init__(self, store: Store, view: View) -> None:
        """Read from `store`; `view` knows the journals."""
        self._store, self._view = store, view
        self._tasks: Memory[TaskRecord | None] = Memory(MOST_TASKS)
        self._heads: Memory[Head] = Memory(MOST_TASKS)
        self._values: Memory[bytes | None] = Memory(MOST_VALUES, _weight)

    async def read(self, generation: str, task_key: str, ids: Sequence[str] = ()) -> Ground:
        """Return what is known, and read what is not."""
        task = self._tasks.get(task_key)
        fresh = task is None
        if task is None:
            found = await self._store.get(task_key, stored.head_key(generation))
            task = _task(found.get(task_key))
            head = known_head(found.get(stored.head_key(generation)))
            self.remember_head(generation, head)
        head, journals = await self._current(generation)
        bases, remembered = await self._bases(generation, head.value, ids)
        fresh = fresh and not remembered
        return Ground(generation, task_key, task, head, bases, journals, fresh)

    async def head(self, generation: str) -> Known[Head]:
        """Return how a generation stands, as far as it is known."""
        known = self._heads.get(generation)
        if known is None:
            known = await self._view.head(generation)
            self.remember_head(generation, known)
        return known

    async def _current(self, generation: str) -> tuple[Known[Head], list[Journal]]:
        """Return a head with the journals that it names."""
        for _ in range(READS):
            head = await self.head(generation)
            journals = await self._view.journals(generation, head.value)
            if journals is not None:
                return head, journals
            self.forget_head(generation)  # they were folded: it is an old one
        raise restless(generation)

    def remember(self, ground: Ground, record: TaskRecord, head: Head, revision: int) -> None:
        """Remember a task and its head after a write."""
        same = record == ground.task.value
        self._tasks.put(ground.task_key, ground.task if same else Known(revision, record))
        if head is not ground.head.value:
            self.remember_head(ground.generation, Known(revision, head))

    def remember_head(self, generation: str, head: Known[Head]) -> None:
        """Remember a head that was read or written, unless a newer one is known."""
        known = self._heads.get(generation)
        if known is None or known.revision < head.revision:
            self._heads.put(generation, head)

    def remember_values(self, values: Mapping[str, bytes], revision: int) -> None:
        """Remember values that were written, by key."""
        for key, value in values.items():
            self._values.put(key, Known(revision, value))

    def forget(self, ground: Ground) -> None:
        """Read all of it anew the next time."""
        self._tasks.forget((ground.task_key,))
        self._heads.forget((ground.generation,))
        self._values.forget(ground.prefix + id_ for id_ in ground.bases)

    def forget_head(self, generation: str) -> None:
        """Read a head anew the next time."""
        self._heads.forget((generation,))

    def forget_task(self, task_key: str) -> None:
        """Read a task anew the next time: another instance may have seen a newer claim."""
        self._tasks.forget((task_key,))

    async def _bases(
        self, generation: str, head: Head, ids: Sequence[str]
    ) -> tuple[dict[str, Known[bytes | None]], bool]:
        prefix = stored.line_prefix(generation, head.line)
        known = {id_: self._values.get(prefix + id_) for id_ in ids}
        missing = [prefix + id_ for id_, base in known.items() if base is None]
        found = await self._store.get(*missing) if missing else {}
        bases = {id_: base or known_value(found.get(prefix + id_)) for id_, base in known.items()}
        return bases, len(missing) < len(ids)


def _task(entry: Entry | None) -> Known[TaskRecord | None]:
    if entry is None:
        return Known(0, None)
    return Known(entry.revision, stored.decode_task(entry.value))


def _weight(value: bytes | None) -> int:
    return _KEY_BYTES + len(value or b"")
