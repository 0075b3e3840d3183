"""Claims and commits: one fenced store write each, decided from memory, checked by the store.

A commit of few partitions writes them where they belong. A larger one is a journal (see there).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from penstock.model import faults
from penstock.model.errors import PenstockError, RetriableError
from penstock.offset import history, journal, rules, stored
from penstock.offset import manifest as heads
from penstock.offset.cache import Known
from penstock.offset.compaction import Folder
from penstock.offset.rules import Commit, TaskRecord
from penstock.offset.snapshot import Ground, Grounds
from penstock.offset.staged_writes import staged
from penstock.offset.view import MOST_JOURNALS, MOST_WAITING, View
from penstock.store import Check, Conflict, Put, Store

MOST_DIRECT: Final = 100
"""Partitions of a commit that are written where they belong: each is a condition, and etcd takes
128."""

MOST_DIRECT_BYTES: Final = 1 << 20
"""Bytes of such a write: etcd takes 1.5 MB."""

LOOK: Final = 500
"""Partitions whose owners are looked at in one read."""

ATTEMPTS: Final = 8
"""Times that a commit is decided anew. Only another instance, another large commit of the same
connector, or a person's alteration can come between, so a second loss is rare already."""


class Commits:
    """The claims and commits of a store."""

    def __init__(
        self,
        store: Store,
        view: View | None = None,
        folder: Folder | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Commit to `store`, which its maker closes; `clock` tells seconds since the epoch."""
        self._store, self._clock = store, clock
        self._view = view or View(store)
        self._folder = folder or Folder(store, self._view, clock)
        self._grounds = Grounds(store, self._view)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def claim(self, generation: str, task_id: str, epoch: int) -> TaskRecord:
        """Fence all older epochs of a task, and what its own has on its way; returns where it
        stands. It is a write each time: whatever was decided before it fails its check.

        Raises:
            FencedError: `offset.stale_epoch`.
        """
        rules.check_task(generation, task_id, epoch)
        key = stored.task_key(generation, task_id)
        async with self._turn(key):
            for _ in range(ATTEMPTS):
                self._grounds.forget_task(key)  # another instance may have seen a newer claim
                ground = await self._grounds.read(generation, key)
                head = ground.head.value
                record = rules.claimed(ground.task.value, head.floor, epoch)
                if epoch > head.top:
                    await self._raise_top(generation, epoch)
                elif await self._write(ground, record, head):
                    return record
        raise _contended(task_id)

    async def floor(self, generation: str) -> int:
        """Return the newest epoch that a person's alteration has ended; 0 for none."""
        return (await self._grounds.head(generation)).value.floor

    async def commit(self, commit: Commit) -> int:
        """Store offsets, prepared state and what was applied in one write; returns its revision.

        Raises:
            FencedError: `offset.stale_epoch`: nothing was stored.
        """
        rules.check_task(commit.generation, commit.task_id, commit.epoch)
        rules.check_sizes(commit.offsets, commit.prepared)
        async with self._turn(stored.task_key(commit.generation, commit.task_id)):
            if len(commit.offsets) <= MOST_DIRECT:
                revision = await self._direct(commit)
                if revision is not None:
                    return revision
            return await self._journaled(commit)

    async def _direct(self, commit: Commit) -> int | None:
        """Write every partition where it belongs; None when that is too much for one write."""
        key = stored.task_key(commit.generation, commit.task_id)
        for _ in range(ATTEMPTS):
            ground = await self._grounds.read(commit.generation, key, tuple(commit.offsets))
            try:
                record = _decide(ground, commit)
            except PenstockError:
                if ground.fresh:
                    raise
                self._grounds.forget(ground)  # it was decided from memory, which may be stale
                continue
            if record is None:
                return ground.task.revision
            values = self._values(ground, commit)
            if sum(map(len, values.values())) > MOST_DIRECT_BYTES:
                return None
            puts: list[Put] = list(values.items())
            revision = await self._write(ground, record, ground.head.value, puts)
            if revision:
                self._grounds.remember_values(values, revision)
                return revision
        raise _contended(commit.task_id)

    async def _journaled(self, commit: Commit) -> int:
        """Write one piece, of any size, that counts as a whole."""
        key = stored.task_key(commit.generation, commit.task_id)
        draft = journal.drafted(commit.epoch, int(self._clock() * 1000), commit.offsets)
        async with self._turn(stored.head_key(commit.generation)):
            for _ in range(ATTEMPTS):
                ground = await self._room(commit.generation, key, draft.journal.size)
                try:
                    record = _decide(ground, commit)
                    await self._check_owners(ground, commit)
                except PenstockError:
                    if ground.fresh:
                        raise
                    self._grounds.forget(ground)
                    continue
                if record is None:
                    return ground.task.revision
                head = heads.journaled(ground.head.value, draft.journal.id)
                puts = await staged(self._store, commit.generation, draft)
                revision = await self._write(ground, record, head, puts)
                if revision:
                    self._view.add(commit.generation, draft.journal.at(revision))
                    self._folder.notice(commit.generation, head)
                    return revision
        raise _contended(commit.task_id)

    async def _raise_top(self, generation: str, epoch: int) -> None:
        """Let all see that an epoch is about to own something, before it does."""
        key = stored.head_key(generation)
        async with self._turn(key):
            known = await self._grounds.head(generation)
            head = heads.raised(known.value, epoch)
            if head is known.value:
                return
            self._grounds.forget_head(generation)
            try:
                revision = await self._store.write(
                    [Check(key, known.revision)], [(key, heads.encode(head))]
                )
            except Conflict:
                return  # the claim looks again
            self._grounds.remember_head(generation, Known(revision, head))
        self._folder.notice(generation, head)

    async def _room(self, generation: str, task_key: str, size: int) -> Ground:
        """Return the ground of a journal, once there is a place for it. The caller's deadline ends
        the wait.
        """
        ground = await self._grounds.read(generation, task_key)
        while ground.journals and (
            len(ground.journals) >= MOST_JOURNALS
            or size + sum(one.size for one in ground.journals) > MOST_WAITING
        ):
            self._grounds.forget(ground)
            await self._folder.settle(generation)
            ground = await self._grounds.read(generation, task_key)
        return ground

    async def _check_owners(self, ground: Ground, commit: Commit) -> None:
        """Refuse to overwrite an offset of a newer epoch. While no newer epoch has claimed any task
        there is none, and nothing is read. What is written after this look is seen when the journal
        is laid over it: the newer epoch stays.
        """
        if commit.epoch >= ground.head.value.top:
            return
        ids = tuple(commit.offsets)
        for at in range(0, len(ids), LOOK):
            values = await self._view.get(commit.generation, ids[at : at + LOOK])
            for id_, known in values.items():
                owner = history.epoch_of(known.value) if known.value else 0
                rules.check_owner(id_, owner, commit.epoch)

    async def _write(
        self,
        ground: Ground,
        record: TaskRecord,
        head: heads.Head,
        puts: Sequence[Put] = (),
    ) -> int:
        """Write if the ground still holds; returns the revision, 0 when it does not hold.

        Offsets, prepared state and what was applied are one write: no crash can part them.
        """
        more: list[Put] = []
        if record != ground.task.value:
            more.append((ground.task_key, stored.encode_task(record)))
        if head is not ground.head.value:
            more.append((ground.head_key, heads.encode(head)))
        await faults.reach("offset.storing")
        try:
            revision = await self._store.write(ground.checks(), [*puts, *more])
        except Conflict:
            self._grounds.forget(ground)
            return 0
        except BaseException:  # also when cancelled: whether it was stored is not known
            self._grounds.forget(ground)
            raise
        self._grounds.remember(ground, record, head, revision)
        await faults.reach("offset.stored")
        return revision

    def _values(self, ground: Ground, commit: Commit) -> dict[str, bytes]:
        now = int(self._clock() * 1000)
        return {
            ground.prefix + id_: history.pushed(
                ground.value(id_), history.Version(commit.epoch, now, body)
            )
            for id_, body in commit.offsets.items()
        }

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        """One commit of a task at a time, in the order that they came; so for a head."""
        lock = self._turns.setdefault(key, asyncio.Lock())
        async with lock:
            yield


def _decide(ground: Ground, commit: Commit) -> TaskRecord | None:
    record = rules.committed(ground.task.value, ground.head.value.floor, commit)
    for id_ in ground.bases:
        rules.check_owner(id_, ground.owner(id_), commit.epoch)
    return record


def _contended(task_id: str) -> RetriableError:
    return RetriableError(
        "offset.contended",
        f"other writes came before that of task {task_id} {ATTEMPTS} times in a row",
        fix="Repeat it; see whether two owners fight for the task.",
        retry_after=0.2,
    )
