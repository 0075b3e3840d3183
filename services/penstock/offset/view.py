"""The current offsets of a generation: the current version, merged with the journals.

A read needs no lock and waits for no writer: a manifest names the version and the journals that
count at a revision, and a journal never changes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from penstock.model.errors import RetriableError
from penstock.offset import history, journal, records, rules
from penstock.offset.history import OffsetVersion
from penstock.offset.journal import Journal
from penstock.offset.records import Manifest
from penstock.store.port import Entry, Page, Store

_V = TypeVar("_V")

MAX_READS: Final = 16
"""Reads before a call fails, because a journal was compacted during each of them. A compaction
takes as long as several reads, so a second one is rare."""

MAX_JOURNALS: Final = 16
"""Journals of a generation that may wait for compaction (invariant 12). Every read merges them; a
commit beyond the limit waits for the compaction."""

MAX_JOURNAL_BYTES: Final = 16 << 20
"""Bytes of the waiting journals of a generation. One journal alone may be larger."""

MAX_CACHED_JOURNAL_BYTES: Final = 24 << 20
"""Bytes of journals in memory, where they take about three times as much. Every read needs them
until they are compacted."""

FIRST_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 1000
PAGE_BYTES: Final = 1 << 20
"""A page of a version has as many offsets as had this many bytes on the page before."""

MAX_CACHED_VERSIONS: Final = 4096
"""Generations whose current version is cached."""


@dataclass(frozen=True, slots=True)
class Revisioned(Generic[_V]):
    """A value with the revision of its key; revision 0 when the key does not exist."""

    revision: int
    value: _V


def _unit_weight(_: Any) -> int:
    return 1


class LruCache(Generic[_V]):
    """The values that were read or written last, by key, up to a weight (invariant 12).

    They may be stale: every write checks the revisions that it was decided from, and after a failed
    write its keys are removed from the cache.
    """

    def __init__(self, max_weight: int, weigh: Callable[[_V], int] = _unit_weight) -> None:
        """Keep values of `max_weight` together; each value weighs 1 by default."""
        self._max_weight, self._weigh = max_weight, weigh
        self._entries: OrderedDict[str, Revisioned[_V]] = OrderedDict()
        self._weight = 0

    def get(self, key: str) -> Revisioned[_V] | None:
        """Return the cached value of a key."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: str, entry: Revisioned[_V]) -> None:
        """Cache a value. The least recently used ones are removed."""
        self.remove((key,))
        self._entries[key] = entry
        self._weight += self._weigh(entry.value)
        while self._weight > self._max_weight:
            _, removed = self._entries.popitem(last=False)
            self._weight -= self._weigh(removed.value)

    def remove(self, keys: Iterable[str]) -> None:
        """Remove keys, so that they are read again."""
        for key in keys:
            removed = self._entries.pop(key, None)
            if removed is not None:
                self._weight -= self._weigh(removed.value)

    def __len__(self) -> int:
        return len(self._entries)


class OffsetView:
    """Reads the current offsets. All readers and writers of one instance share it."""

    def __init__(self, store: Store) -> None:
        """Read from `store`."""
        self._store = store
        self._journals: LruCache[Journal] = LruCache(MAX_CACHED_JOURNAL_BYTES, _journal_weight)
        self._versions: LruCache[str] = LruCache(MAX_CACHED_VERSIONS)

    async def read_manifest(self, generation: str) -> Revisioned[Manifest]:
        """Read the manifest of a generation."""
        key = records.manifest_key(generation)
        return manifest_of((await self._store.get(key)).get(key))

    async def read_values(
        self, generation: str, partition_ids: Iterable[str]
    ) -> dict[str, Revisioned[bytes | None]]:
        """Read the current values of partitions, all at one revision. Each has the revision of its
        key in the version, 0 when it has none yet.
        """
        ids = list(dict.fromkeys(partition_ids))
        for _ in range(MAX_READS):
            hint = self._versions.get(generation)
            version = hint.value if hint else records.FIRST_VERSION
            manifest, bases = await self.read_bases(generation, version, ids)
            self._versions.put(generation, Revisioned(0, manifest.value.version))
            if manifest.value.version != version:
                continue
            journals = await self.read_journals(generation, manifest.value)
            if journals is not None:
                return {
                    id_: Revisioned(base.revision, merge_journals(id_, base, journals))
                    for id_, base in bases.items()
                }
        raise changed_too_often(generation)

    async def read_bases(
        self, generation: str, version: str, ids: Sequence[str]
    ) -> tuple[Revisioned[Manifest], dict[str, Revisioned[bytes | None]]]:
        """Read the manifest, and the values of partitions in a version without the journals, at one
        revision.
        """
        prefix = records.version_prefix(generation, version)
        key = records.manifest_key(generation)
        found = await self._store.get(key, *(prefix + id_ for id_ in ids))
        bases = {id_: base_of(found.get(prefix + id_)) for id_ in ids}
        return manifest_of(found.get(key)), bases

    async def read_pages(
        self, generation: str, prefix: str = ""
    ) -> AsyncIterator[list[tuple[str, bytes]]]:
        """Yield partition ids with their values, ordered by id, in pages of bounded bytes.

        Raises:
            RetriableError: `offset.list_superseded`: offsets were reset or rewound meanwhile.
        """
        manifest = await self.read_manifest(generation)
        start = records.version_prefix(generation, manifest.value.version)
        after, size, more = "", FIRST_PAGE_SIZE, True
        while more:
            # Journals first: what is compacted after they were read is in the page, and newer.
            journals = await self._current_journals(generation, manifest)
            page = await self._store.range(start + prefix, start + after if after else "", size)
            manifest = await self.read_manifest(generation)
            if records.version_prefix(generation, manifest.value.version) != start:
                raise _list_superseded(generation)
            values = _merge_page(page, start, prefix, after, journals)
            if values:
                yield values
            more = page.more
            if page.entries:
                after = page.entries[-1].key.removeprefix(start)
                size = _next_page_size(page)

    async def read_journals(
        self, generation: str, manifest: Manifest, loaded: Mapping[str, Journal] | None = None
    ) -> list[Journal] | None:
        """Return the journals that a manifest names, in order; None when one no longer exists: it
        was compacted. `loaded` are journals that the caller has, by id.
        """
        journals = []
        for id_ in manifest.journals:
            cached = self._journals.get(f"{generation}/{id_}")
            one = cached.value if cached else (loaded or {}).get(id_)
            one = one or await self._load_journal(generation, id_)
            if one is None:
                return None
            journals.append(one)
        return journals

    def cache_journal(self, generation: str, new: Journal) -> None:
        """Cache a journal that was just written."""
        self._journals.put(f"{generation}/{new.id}", Revisioned(new.revision, new))

    def drop_journals(self, generation: str, ids: Iterable[str]) -> None:
        """Remove compacted journals from the cache."""
        self._journals.remove(f"{generation}/{id_}" for id_ in ids)

    async def _current_journals(
        self, generation: str, manifest: Revisioned[Manifest]
    ) -> list[Journal]:
        for _ in range(MAX_READS):
            journals = await self.read_journals(generation, manifest.value)
            if journals is not None:
                return journals
            manifest = await self.read_manifest(generation)
        raise changed_too_often(generation)

    async def _load_journal(self, generation: str, id_: str) -> Journal | None:
        key = records.journal_index_key(generation, id_)
        entry = (await self._store.get(key)).get(key)
        if entry is None:
            return None
        index = journal.decode_index(id_, entry.value, entry.revision)
        bodies: dict[str, bytes | None] = {}
        for number in range(index.chunks):
            chunk_key = records.journal_chunk_key(generation, id_, number)
            chunk = (await self._store.get(chunk_key)).get(chunk_key)
            if chunk is None:
                return None
            bodies |= journal.decode_chunk(chunk.value)
        loaded = replace(index, bodies=bodies).at_revision(entry.revision)
        self.cache_journal(generation, loaded)
        return loaded


def merge_journals(
    partition_id: str, base: Revisioned[bytes | None], journals: Sequence[Journal]
) -> bytes | None:
    """Return the current value of a partition: its value in the version, merged with journals."""
    value = base.value
    for one in journals:
        if base.revision > one.revision or partition_id not in one.bodies:
            continue
        if value is not None and rules.is_stale(one.epoch, history.newest_epoch(value)):
            continue  # a newer owner wrote it before this journal was compacted (invariant 4)
        version = OffsetVersion(one.epoch, one.time_ms, one.bodies[partition_id])
        value = history.add_version(value, version)
    return value


def manifest_of(entry: Entry | None) -> Revisioned[Manifest]:
    """Return the manifest of an entry; an empty one for a generation without claims."""
    if entry is None:
        return Revisioned(0, Manifest())
    return Revisioned(entry.revision, records.decode_manifest(entry.value))


def base_of(entry: Entry | None) -> Revisioned[bytes | None]:
    """Return the value of a partition in a version."""
    return Revisioned(entry.revision, entry.value) if entry else Revisioned(0, None)


def _merge_page(
    page: Page, start: str, prefix: str, after: str, journals: Sequence[Journal]
) -> list[tuple[str, bytes]]:
    """Return the values of a page, and those in its range that only journals have."""
    cut = len(start)
    if not journals:
        return [(entry.key[cut:], entry.value) for entry in page.entries]
    bases = {entry.key[cut:]: base_of(entry) for entry in page.entries}
    last = page.entries[-1].key[cut:] if page.more else None
    for one in journals:
        ids = one.sorted_ids
        low = max(bisect_right(ids, after), bisect_left(ids, prefix))
        high = len(ids) if last is None else bisect_right(ids, last)
        for id_ in ids[low:high]:
            if not id_.startswith(prefix):
                break
            bases.setdefault(id_, Revisioned(0, None))
    values = ((id_, merge_journals(id_, bases[id_], journals)) for id_ in sorted(bases))
    return [(id_, value) for id_, value in values if value is not None]


def _next_page_size(page: Page) -> int:
    size = sum(len(entry.key) + len(entry.value) for entry in page.entries)
    return max(1, min(MAX_PAGE_SIZE, len(page.entries) * PAGE_BYTES // max(size, 1)))


def _journal_weight(one: Journal) -> int:
    return 1000 + one.size


def changed_too_often(generation: str) -> RetriableError:
    """Return the error of a read that other writes interrupted too often."""
    return RetriableError(
        "offset.contended",
        f"the offsets of {generation} changed {MAX_READS} times while they were read",
        fix="Repeat the call.",
        retry_after_s=0.2,
    )


def _list_superseded(generation: str) -> RetriableError:
    return RetriableError(
        "offset.list_superseded",
        f"the offsets of {generation} were reset or rewound while they were listed",
        fix="List them again.",
    )
