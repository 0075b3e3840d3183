"""Folds journals into the line they belong to, and sweeps what nobody reads any more.

Both are done in the background by whichever instance notices, may be done by several at once, and
may be cut off anywhere: what is left is noticed again, by the next write of the generation or the
next start of the service. Nobody waits for it, except a commit when too many journals wait, and a
person's reset or rewind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from penstock.model import faults
from penstock.model.errors import PenstockError
from penstock.offset import journal, stored
from penstock.offset import manifest as heads
from penstock.offset.cache import Known
from penstock.offset.journal import Journal, merged
from penstock.offset.manifest import Head
from penstock.offset.staged_writes import AT_ONCE, abreast
from penstock.offset.view import View
from penstock.store import Check, Conflict, Put, Store

log = logging.getLogger(__name__)


BATCH: Final = 100
"""Partitions in one write of a fold; each is a condition, and the head is one more. etcd takes
128."""

BATCH_BYTES: Final = 768 << 10
"""Bytes in one write."""

FEW: Final = 8
"""Chunks of journals that are read at once when orphans are looked for."""

PAUSE: Final = 1.0
"""Seconds before work that failed is tried again."""


class Folder:
    """The background work of one instance. Owned by the service: `close` ends it."""

    def __init__(self, store: Store, view: View, clock: Callable[[], float] = time.time) -> None:
        """Work on `store`; `clock` tells seconds since the epoch."""
        self._store, self._view, self._clock = store, view, clock
        self._working: dict[str, asyncio.Task[None]] = {}
        self._noticed: set[str] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closed = False

    def notice(self, generation: str, head: Head) -> None:
        """Do what a head says is to be done, in the background."""
        if not head.busy or self._closed:
            return
        self._noticed.add(generation)
        if generation not in self._working:
            work = self._work(generation)
            self._working[generation] = asyncio.create_task(work, name=f"fold-{generation}")

    async def resume(self) -> None:
        """Go on with what an earlier life of the service left."""
        oldest = int(self._clock() * 1000) - journal.ORPHANED_AFTER
        after, more = "", True
        while more:
            page = await self._store.range(stored.HEADS, after)
            for entry in page.entries:
                after = entry.key
                head = heads.decode(entry.value)
                if head.building and journal.made_at(head.building) < oldest:
                    head = heads.abandoned(head)  # whoever built that line died over it
                    put = (after, heads.encode(head))
                    await self._written([Check(after, entry.revision)], [put])
                self.notice(after.removeprefix(stored.HEADS), head)
            more = page.more
        await self._sweep_orphans(oldest)

    async def settle(self, generation: str) -> Known[Head]:
        """Fold every journal of a generation now; returns a head without any.

        The caller bounds the wait.
        """
        while True:
            head = await self._view.head(generation)
            if not head.value.journals:
                return head
            async with self._turn(generation):
                await self._fold(generation, head.value)

    async def close(self) -> None:
        """Stop; what is not done is noticed at the next start. Idempotent."""
        self._closed = True
        working = list(self._working.values())
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)

    def _turn(self, generation: str) -> asyncio.Lock:
        """One fold of a generation at a time, in this instance: two would only redo each other's
        work.
        """
        return self._turns.setdefault(generation, asyncio.Lock())

    async def _work(self, generation: str) -> None:
        """Work until there is nothing left to do, and nobody has noticed more meanwhile."""
        while generation in self._noticed:
            self._noticed.discard(generation)
            try:
                while await self._step(generation):
                    pass
            except PenstockError as error:
                if error.code == "store.closed":
                    break
                log.warning("offsets of %s are not folded yet: %s", generation, error)
                self._noticed.add(generation)
                await asyncio.sleep(PAUSE)
        del self._working[generation]

    async def _step(self, generation: str) -> bool:
        """Do one thing; tells whether there was one."""
        head = (await self._view.head(generation)).value
        if not head.busy:
            return False
        await faults.reach("offset.folding")
        if head.journals:
            async with self._turn(generation):
                await self._fold(generation, head)
        elif head.dead:
            await self._sweep(generation, head.dead[0])
        else:
            await self._sweep_generation(generation)
        return True

    async def _fold(self, generation: str, head: Head) -> None:
        """Write what journals say into the line, then take them off the head."""
        journals = await self._view.journals(generation, head)
        if journals is None:  # somebody else has folded one
            return
        ids = sorted(set().union(*(one.bodies for one in journals)))
        at_hand = {one.id: one for one in journals}
        batches = (ids[at : at + BATCH] for at in range(0, len(ids), BATCH))
        await abreast(batches, lambda batch: self._fold_batch(generation, head, batch, at_hand))
        await self._take_off(generation, journals)

    async def _fold_batch(
        self, generation: str, folded: Head, ids: Sequence[str], at_hand: Mapping[str, Journal]
    ) -> None:
        """Write the values of some partitions, with every journal that there is in them.

        A value in the line is newer than all journals of its time, so the write holds only while
        no other journal came between: it would be taken for one that is in the value.
        """
        prefix = stored.line_prefix(generation, folded.line)
        while ids:
            head, bases = await self._view.bases(generation, folded.line, ids)
            if head.value.line != folded.line:
                return  # a flip, before which somebody else has folded them
            journals = await self._view.journals(generation, head.value, at_hand)
            if journals is None:
                continue
            values = {id_: merged(id_, base, journals) for id_, base in bases.items()}
            changed = [id_ for id_ in ids if values[id_] is not bases[id_].value]
            fitting = _fitting(prefix, changed, values)
            checks = [Check(prefix + id_, bases[id_].revision) for id_ in fitting]
            checks.append(Check(stored.head_key(generation), head.revision))
            puts = [(prefix + id_, values[id_]) for id_ in fitting]
            if not puts or await self._written(checks, puts):
                ids = changed[len(fitting) :]

    async def _take_off(self, generation: str, journals: Sequence[Journal]) -> None:
        folded = [one.id for one in journals]
        while True:
            head = await self._view.head(generation)
            left = tuple(id_ for id_ in head.value.journals if id_ not in folded)
            if left == head.value.journals:
                break
            new = heads.encode(replace(head.value, journals=left))
            key = stored.head_key(generation)
            if await self._written([Check(key, head.revision)], [(key, new)]):
                break
        for one in journals:
            await self._remove(_keys(generation, one))
        self._view.drop(generation, folded)

    async def _sweep(self, generation: str, line: str) -> None:
        """Remove a line that nobody reads, then its name."""
        await self._remove_all(stored.line_prefix(generation, line))
        head = await self._view.head(generation)
        left = tuple(name for name in head.value.dead if name != line)
        key = stored.head_key(generation)
        new = heads.encode(replace(head.value, dead=left))
        await self._written([Check(key, head.revision)], [(key, new)])

    async def _sweep_generation(self, generation: str) -> None:
        """Remove what is left of a deleted connector, its head last."""
        await self._remove_all(stored.tasks_prefix(generation))
        await self._remove([stored.head_key(generation)])

    async def _sweep_orphans(self, oldest: int) -> None:
        """Remove chunks of commits that a crash cut off before they counted.

        The clock only says which ones to look at. One that is on its way after all, because clocks
        differ, finds a newer head with each chunk that goes, and is written anew.
        """
        after, more = "", True
        while more:
            page = await self._store.range(stored.JOURNALS, after, FEW)
            more = page.more
            for entry in page.entries:
                after = entry.key
                generation, id_, _ = after.removeprefix(stored.JOURNALS).split("/")
                if journal.made_at(id_) > oldest:
                    continue
                head = await self._view.head(generation)
                if id_ not in head.value.journals:
                    key = stored.head_key(generation)
                    same = [(key, heads.encode(head.value))] if head.revision else []
                    await self._written([Check(key, head.revision)], [*same, (after, None)])

    async def _remove_all(self, prefix: str) -> None:
        after, more = "", True
        while more:
            page = await self._store.range(prefix, after, BATCH * AT_ONCE)
            more = page.more
            if page.entries:
                after = page.entries[-1].key
                await self._remove([entry.key for entry in page.entries])

    async def _remove(self, keys: Sequence[str]) -> None:
        batches = (keys[at : at + BATCH] for at in range(0, len(keys), BATCH))
        await abreast(batches, lambda keys: self._written([], [(key, None) for key in keys]))

    async def _written(self, checks: Sequence[Check], puts: Sequence[Put]) -> bool:
        try:
            await self._store.write(checks, puts)
        except Conflict:
            return False
        return True


def _fitting(prefix: str, ids: Sequence[str], values: Mapping[str, bytes | None]) -> Sequence[str]:
    """Return as many as fit into one write, one at least."""
    size = 0
    for done, id_ in enumerate(ids):
        size += len(prefix) + len(id_) + len(values[id_] or b"")
        if done and size > BATCH_BYTES:
            return ids[:done]
    return ids


def _keys(generation: str, made: Journal) -> list[str]:
    chunks = (stored.chunk_key(generation, made.id, n) for n in range(made.chunks))
    return [stored.index_key(generation, made.id), *chunks]
