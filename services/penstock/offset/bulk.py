"""Sets every offset of a connector at once: reset, and rewind to a time. Only when it is stopped.

However many there are, others see all of it or nothing: a new line is written beside the one that
counts, and the generation's head is flipped to it in one write. Before that the epochs that were
given out are fenced (invariant 4). Whoever claims a task in between has started the connector, and
takes the ground away: the flip fails, and what was written is swept.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.model import faults
from penstock.model.errors import RetriableError
from penstock.offset import history, journal, rules, stored
from penstock.offset import manifest as heads
from penstock.offset.cache import Known
from penstock.offset.compaction import Folder
from penstock.offset.edits import ATTEMPTS, contended
from penstock.offset.owner import Owner
from penstock.offset.staged_writes import abreast
from penstock.offset.view import View
from penstock.store import Check, Conflict, Put, Store

BATCH: Final = 500
"""Partitions in one write of a new line, which has one condition: as many as a few pages."""

BATCH_BYTES: Final = 768 << 10

BEFORE_ALL: Final = -1
"""A time when no partition had an offset."""


@dataclass(frozen=True, slots=True)
class Change:
    """A partition whose offset becomes another; None for no offset. `since`: when the one after was
    committed, in milliseconds since the epoch.
    """

    partition_id: str
    before: bytes | None
    after: bytes | None
    since: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rewind is. `revision`: it is done, by this write."""

    seen: int = 0
    changed: int = 0
    removed: int = 0
    changes: tuple[Change, ...] = ()
    revision: int = 0

    def plus(self, seen: int, changes: Sequence[Change]) -> Progress:
        """Return it with some partitions more."""
        removed = sum(change.after is None for change in changes)
        return Progress(
            self.seen + seen, self.changed + len(changes), self.removed + removed, tuple(changes)
        )


class Bulk:
    """Changes of all offsets of a generation."""

    def __init__(
        self,
        store: Store,
        owner: Owner,
        view: View,
        folder: Folder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`owner` tells whether a person may change them."""
        self._store, self._owner, self._clock = store, owner, clock
        self._view, self._folder = view, folder

    async def reset(self, connector: str, generation: str, *, forget: bool = False) -> int:
        """Remove all offsets; returns the revision of the write.

        With `forget` their history goes, too; and of a connector that is deleted, all that is kept.

        Raises:
            PenstockError: what `Owner.stopped` refuses.
        """
        rules.check_generation(generation)
        stopped = await self._owner.stopped(connector, generation, must_exist=False)
        line = await self._fenced(generation, stopped.epoch)
        if not forget:
            async for _ in self._copied(generation, line, BEFORE_ALL, ""):
                pass
        return await self._flipped(generation, line, gone=forget and not stopped.alive)

    async def rewind(
        self, connector: str, generation: str, to: int, prefix: str = "", *, dry_run: bool = False
    ) -> AsyncIterator[Progress]:
        """Give partitions the offsets that they had at a time; iterates over progress.

        A dry run yields the changes, and changes nothing. Else the last progress has a revision:
        whoever stops iterating before it has changed nothing.

        Raises:
            PenstockError: what `Owner.stopped` refuses.
        """
        rules.check_generation(generation)
        progress = Progress()
        if dry_run:
            async for page in self._view.pages(generation, prefix):
                found = (rewound(id_, value, to) for id_, value in page)
                progress = progress.plus(len(page), [change for change in found if change])
                yield progress
            return
        stopped = await self._owner.stopped(connector, generation, must_exist=True)
        line = await self._fenced(generation, stopped.epoch)
        async for progress in self._copied(generation, line, to, prefix):
            yield replace(progress, changes=())
        revision = await self._flipped(generation, line)
        yield replace(progress, changes=(), revision=revision)

    async def _fenced(self, generation: str, newest: int) -> str:
        """Fence what was given out, fold what waits, and begin a new line; returns its name."""
        key = stored.head_key(generation)
        for _ in range(ATTEMPTS):
            head = await self._folder.settle(generation)
            line = journal.new_id(int(self._clock() * 1000))
            new = heads.building(heads.fenced(head.value, newest), line)
            try:
                await self._store.write([Check(key, head.revision)], [(key, heads.encode(new))])
            except Conflict:
                continue
            return line
        raise contended(generation)

    async def _copied(
        self, generation: str, line: str, to: int, prefix: str
    ) -> AsyncIterator[Progress]:
        """Write the new line, page by page. Nobody sees it."""
        place = stored.line_prefix(generation, line)
        now = int(self._clock() * 1000)
        epoch = (await self._built(generation, line)).value.floor
        progress = Progress()
        async for page in self._view.pages(generation):
            found = (rewound(id_, value, to) for id_, value in page if id_.startswith(prefix))
            changes = {change.partition_id: change for change in found if change}
            puts: list[Put] = [
                (
                    place + id_,
                    history.pushed(value, history.Version(epoch, now, changes[id_].after))
                    if id_ in changes
                    else value,
                )
                for id_, value in page
            ]
            await faults.reach("offset.copying")
            await abreast(batches(puts), lambda batch: self._write(generation, line, batch))
            progress = progress.plus(len(page), list(changes.values()))
            yield progress

    async def _flipped(self, generation: str, line: str, *, gone: bool = False) -> int:
        """Make the new line the one that counts."""
        while True:
            head = await self._built(generation, line)
            new = heads.flipped(head.value)
            new = heads.forgotten(new) if gone else new
            put = (stored.head_key(generation), heads.encode(new))
            revision = await self._written(generation, head, [put])
            if revision:
                self._folder.notice(generation, new)
                return revision

    async def _write(self, generation: str, line: str, puts: Sequence[Put]) -> None:
        """Write a part of the new line, only while it is built: a part that came after it was given
        up would never be swept.
        """
        while not await self._written(generation, await self._built(generation, line), puts):
            pass  # a sweep has changed the head

    async def _built(self, generation: str, line: str) -> Known[heads.Head]:
        """Return the head, unless anything came between that makes the new line worthless."""
        head = await self._view.head(generation)
        if head.value.building != line:
            self._folder.notice(generation, head.value)
            raise _overtaken(generation)
        return head

    async def _written(self, generation: str, head: Known[heads.Head], puts: Sequence[Put]) -> int:
        try:
            return await self._store.write(
                [Check(stored.head_key(generation), head.revision)], puts
            )
        except Conflict:
            return 0


def rewound(partition_id: str, value: bytes, to: int) -> Change | None:
    """Return what changes when a partition gets the offset of a time; None when nothing does."""
    now, then = history.newest(value), history.as_of(value, to)
    after = None if then is None else then.body
    if now.body == after:
        return None
    return Change(partition_id, now.body, after, 0 if then is None else then.time)


def batches(puts: Sequence[Put]) -> Iterator[list[Put]]:
    """Cut what is to be written into writes of bounded keys and bytes."""
    batch: list[Put] = []
    size = 0
    for key, value in puts:
        bytes_ = len(key) + len(value or b"")
        if batch and (len(batch) == BATCH or size + bytes_ > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += bytes_
    if batch:
        yield batch


def _overtaken(generation: str) -> RetriableError:
    return RetriableError(
        "offset.overtaken",
        f"the connector of {generation} was started, or its offsets changed, before all were "
        "rewritten: none is changed",
        fix="Stop the connector, wait until its tasks have ended, and repeat it.",
    )
