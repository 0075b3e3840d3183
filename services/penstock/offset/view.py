"""The offsets of a generation as they count: its line, with the journals laid over it.

Reading needs no lock and waits for nobody: a head says which line and which journals count at a
revision, and what a journal says is never changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.model.errors import RetriableError
from penstock.offset import journal, stored
from penstock.offset import manifest as heads
from penstock.offset.cache import Known, Memory
from penstock.offset.journal import Journal, merged
from penstock.offset.manifest import Head
from penstock.store import Entry, Page, Store

READS: Final = 16
"""Times that a read is begun anew because a journal was folded in between. Folds take as long as
several reads, so a second time is rare."""

MOST_JOURNALS: Final = 16
"""Journals of a generation that may wait to be folded (invariant 12). Every read lays them over
what it reads; a commit beyond waits for the fold."""

MOST_WAITING: Final = 16 << 20
"""Bytes of a generation's journals that may wait, beside one that is larger by itself."""

MOST_LOADED: Final = 24 << 20
"""Bytes of journals that are kept in memory, where they take about three times as much. They are
needed by every read until they are folded."""

FIRST_PAGE: Final = 100
MOST_PAGE: Final = 1000
PAGE_BYTES: Final = 1 << 20
"""A page of a line has as many offsets as made up so many bytes on the page before."""

MOST_LINES: Final = 4096


class View:
    """Reads what counts. Shared by all that read or write offsets in one instance."""

    def __init__(self, store: Store) -> None:
        """Read `store`."""
        self._store = store
        self._journals: Memory[Journal] = Memory(MOST_LOADED, _weight)
        self._lines: Memory[str] = Memory(MOST_LINES)

    async def head(self, generation: str) -> Known[Head]:
        """Read how the offsets of a generation stand now."""
        key = stored.head_key(generation)
        return known_head((await self._store.get(key)).get(key))

    async def get(
        self, generation: str, partition_ids: Iterable[str]
    ) -> dict[str, Known[bytes | None]]:
        """Read the values of partitions, all at one revision. Each is at the revision of its key,
        0 when it has none yet.
        """
        ids = list(dict.fromkeys(partition_ids))
        for _ in range(READS):
            hint = self._lines.get(generation)
            line = hint.value if hint else heads.FIRST_LINE
            head, bases = await self.bases(generation, line, ids)
            self._lines.put(generation, Known(0, head.value.line))
            if head.value.line != line:
                continue
            journals = await self.journals(generation, head.value)
            if journals is not None:
                return {
                    id_: Known(base.revision, merged(id_, base, journals))
                    for id_, base in bases.items()
                }
        raise restless(generation)

    async def bases(
        self, generation: str, line: str, ids: Sequence[str]
    ) -> tuple[Known[Head], dict[str, Known[bytes | None]]]:
        """Read the head, and what a line has for partitions, at one revision."""
        prefix, key = stored.line_prefix(generation, line), stored.head_key(generation)
        found = await self._store.get(key, *(prefix + id_ for id_ in ids))
        bases = {id_: known_value(found.get(prefix + id_)) for id_ in ids}
        return known_head(found.get(key)), bases

    async def pages(
        self, generation: str, prefix: str = ""
    ) -> AsyncIterator[list[tuple[str, bytes]]]:
        """Iterate over partitions and their values, ordered by id, in pages of bounded bytes.

        Raises:
            RetriableError: `offset.list_superseded`: offsets were reset or rewound meanwhile.
        """
        head = await self.head(generation)
        start = stored.line_prefix(generation, head.value.line)
        after, size, more = "", FIRST_PAGE, True
        while more:
            # Journals first: what is folded after they were read is in the line, and newer.
            journals = await self._current(generation, head)
            page = await self._store.range(start + prefix, start + after if after else "", size)
            head = await self.head(generation)
            if stored.line_prefix(generation, head.value.line) != start:
                raise _superseded(generation)
            values = _laid_over(page, start, prefix, after, journals)
            if values:
                yield values
            more = page.more
            if page.entries:
                after = page.entries[-1].key.removeprefix(start)
                size = _next_size(page)

    async def journals(
        self, generation: str, head: Head, at_hand: Mapping[str, Journal] | None = None
    ) -> list[Journal] | None:
        """Return the journals that a head names, in order; None when one is gone: it was folded."""
        found = []
        for id_ in head.journals:
            known = self._journals.get(f"{generation}/{id_}")
            one = known.value if known else (at_hand or {}).get(id_)
            one = one or await self._load(generation, id_)
            if one is None:
                return None
            found.append(one)
        return found

    def add(self, generation: str, made: Journal) -> None:
        """Remember a journal that has just been written."""
        self._journals.put(f"{generation}/{made.id}", Known(made.revision, made))

    def drop(self, generation: str, ids: Iterable[str]) -> None:
        """Forget journals that were folded."""
        self._journals.forget(f"{generation}/{id_}" for id_ in ids)

    async def _current(self, generation: str, head: Known[Head]) -> list[Journal]:
        for _ in range(READS):
            journals = await self.journals(generation, head.value)
            if journals is not None:
                return journals
            head = await self.head(generation)
        raise restless(generation)

    async def _load(self, generation: str, id_: str) -> Journal | None:
        key = stored.index_key(generation, id_)
        entry = (await self._store.get(key)).get(key)
        if entry is None:
            return None
        index = journal.decode_index(id_, entry.value, entry.revision)
        bodies: dict[str, bytes | None] = {}
        for number in range(index.chunks):
            place = stored.chunk_key(generation, id_, number)
            chunk = (await self._store.get(place)).get(place)
            if chunk is None:
                return None
            bodies |= journal.decode(chunk.value)
        made = replace(index, bodies=bodies).at(entry.revision)
        self.add(generation, made)
        return made


def known_head(entry: Entry | None) -> Known[Head]:
    """Return the head of an entry; of a generation that nobody claimed, an empty one."""
    return Known(entry.revision, heads.decode(entry.value)) if entry else Known(0, Head())


def known_value(entry: Entry | None) -> Known[bytes | None]:
    """Return what a line has for a partition."""
    return Known(entry.revision, entry.value) if entry else Known(0, None)


def _laid_over(
    page: Page, start: str, prefix: str, after: str, journals: Sequence[Journal]
) -> list[tuple[str, bytes]]:
    """Return the values of a page, and of partitions in its span that only journals know."""
    cut = len(start)
    if not journals:
        return [(entry.key[cut:], entry.value) for entry in page.entries]
    bases = {entry.key[cut:]: known_value(entry) for entry in page.entries}
    last = page.entries[-1].key[cut:] if page.more else None
    for one in journals:
        low = max(bisect_right(one.ordered, after), bisect_left(one.ordered, prefix))
        high = len(one.ordered) if last is None else bisect_right(one.ordered, last)
        for id_ in one.ordered[low:high]:
            if not id_.startswith(prefix):
                break
            bases.setdefault(id_, Known(0, None))
    values = ((id_, merged(id_, bases[id_], journals)) for id_ in sorted(bases))
    return [(id_, value) for id_, value in values if value is not None]


def _next_size(page: Page) -> int:
    size = sum(len(entry.key) + len(entry.value) for entry in page.entries)
    return max(1, min(MOST_PAGE, len(page.entries) * PAGE_BYTES // max(size, 1)))


def _weight(made: Journal) -> int:
    return 1000 + made.size


def restless(generation: str) -> RetriableError:
    """Return the error of a read that was begun anew too often."""
    return RetriableError(
        "offset.contended",
        f"the offsets of {generation} changed {READS} times while they were read",
        fix="Repeat it.",
        retry_after=0.2,
    )


def _superseded(generation: str) -> RetriableError:
    return RetriableError(
        "offset.list_superseded",
        f"the offsets of {generation} were reset or rewound while they were listed",
        fix="List them again.",
    )
