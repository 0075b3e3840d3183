"""Compacts journals into the version that they belong to, and deletes keys that are no longer read.

Any instance does both in the background, when it notices that there is something to do. Several may
do it at once, and it may stop at any point: the next write of the generation, or the next start of
the service, notices what is left. Only two callers wait for it: a commit when too many journals
wait, and a reset or rewind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from penstock.aio import cancel_and_wait
from penstock.model import faults
from penstock.model.errors import PenstockError
from penstock.offset import journal, records
from penstock.offset.journal import Journal
from penstock.offset.records import Manifest
from penstock.offset.staged_writes import MAX_BATCH_BYTES, MAX_CONCURRENT, bounded_gather
from penstock.offset.view import OffsetView, Revisioned, merge_journals
from penstock.store.port import Check, Conflict, Put, Store

log = logging.getLogger(__name__)


BATCH_SIZE: Final = 100
"""Partitions in one write of a compaction. Each is a condition, and the manifest is one more; etcd
takes 128."""

ORPHAN_PAGE_SIZE: Final = 8
"""Chunks of journals that are read at once in the search for orphans."""

RETRY_DELAY_S: Final = 1.0
"""Seconds before failed work is retried."""


class Compactor:
    """The background work of one instance. The service owns it: `close` ends it."""

    def __init__(
        self, store: Store, view: OffsetView, clock: Callable[[], float] = time.time
    ) -> None:
        """Work on `store`; `clock` returns seconds since the epoch."""
        self._store, self._view, self._clock = store, view, clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._scheduled: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._is_closed = False

    def schedule(self, generation: str, manifest: Manifest) -> None:
        """Do the work that a manifest needs, in the background."""
        if not manifest.needs_compaction or self._is_closed:
            return
        self._scheduled.add(generation)
        if generation not in self._tasks:
            work = self._work(generation)
            self._tasks[generation] = asyncio.create_task(work, name=f"compact-{generation}")

    async def resume(self) -> None:
        """Schedule the work that earlier processes left, and delete their orphans."""
        oldest_ms = int(self._clock() * 1000) - journal.ORPHANED_AFTER_MS
        after, more = "", True
        while more:
            page = await self._store.range(records.MANIFEST_PREFIX, after)
            for entry in page.entries:
                after = entry.key
                manifest = records.decode_manifest(entry.value)
                pending = manifest.pending_version
                if pending and journal.id_time_ms(pending) < oldest_ms:
                    manifest = manifest.without_pending()  # the process that built it is dead
                    put = (after, records.encode_manifest(manifest))
                    await self._try_write([Check(after, entry.revision)], [put])
                self.schedule(after.removeprefix(records.MANIFEST_PREFIX), manifest)
            more = page.more
        await self._delete_orphans(oldest_ms)

    async def compact_all(self, generation: str) -> Revisioned[Manifest]:
        """Compact every journal of a generation now; returns a manifest without journals.

        The caller bounds the wait.
        """
        while True:
            manifest = await self._view.read_manifest(generation)
            if not manifest.value.journals:
                return manifest
            async with self._lock(generation):
                await self._compact(generation, manifest.value)

    async def close(self) -> None:
        """Stop. The next start continues what is left. Idempotent."""
        self._is_closed = True
        await cancel_and_wait(*self._tasks.values())

    def _lock(self, generation: str) -> asyncio.Lock:
        """Return the lock of a generation. Two compactions in one instance would only repeat each
        other's work.
        """
        return self._locks.setdefault(generation, asyncio.Lock())

    async def _work(self, generation: str) -> None:
        """Work until nothing is left to do, also of what was scheduled meanwhile."""
        while generation in self._scheduled:
            self._scheduled.discard(generation)
            try:
                while await self._work_step(generation):
                    pass
            except PenstockError as error:
                if error.code == "store.closed":
                    break
                log.warning("the offsets of %s cannot be compacted yet: %s", generation, error)
                self._scheduled.add(generation)
                await asyncio.sleep(RETRY_DELAY_S)
        del self._tasks[generation]

    async def _work_step(self, generation: str) -> bool:
        """Do one piece of work; False when there is none."""
        manifest = (await self._view.read_manifest(generation)).value
        if not manifest.needs_compaction:
            return False
        await faults.reach("offset.folding")
        if manifest.journals:
            async with self._lock(generation):
                await self._compact(generation, manifest)
        elif manifest.dead_versions:
            await self._delete_version(generation, manifest.dead_versions[0])
        else:
            await self._delete_generation(generation)
        return True

    async def _compact(self, generation: str, manifest: Manifest) -> None:
        """Write the offsets of journals into the version, then remove the journals."""
        journals = await self._view.read_journals(generation, manifest)
        if journals is None:  # another instance has compacted one
            return
        ids = sorted(set().union(*(one.bodies for one in journals)))
        loaded = {one.id: one for one in journals}
        batches = (ids[start : start + BATCH_SIZE] for start in range(0, len(ids), BATCH_SIZE))
        await bounded_gather(
            batches, lambda batch: self._compact_batch(generation, manifest, batch, loaded)
        )
        await self._remove_journals(generation, journals)

    async def _compact_batch(
        self,
        generation: str,
        compacted: Manifest,
        ids: Sequence[str],
        loaded: Mapping[str, Journal],
    ) -> None:
        """Write the values of some partitions, merged with every journal that has them.

        A value in the version counts as newer than all journals before it. So the write succeeds
        only while no other journal was added: that journal would seem to be part of the value.
        """
        prefix = records.version_prefix(generation, compacted.version)
        while ids:
            manifest, bases = await self._view.read_bases(generation, compacted.version, ids)
            if manifest.value.version != compacted.version:
                return  # a switch; another instance has compacted the journals before it
            journals = await self._view.read_journals(generation, manifest.value, loaded)
            if journals is None:
                continue
            values = {id_: merge_journals(id_, base, journals) for id_, base in bases.items()}
            changed = [id_ for id_ in ids if values[id_] is not bases[id_].value]
            fitting = _fit_into_write(prefix, changed, values)
            checks = [Check(prefix + id_, bases[id_].revision) for id_ in fitting]
            checks.append(Check(records.manifest_key(generation), manifest.revision))
            puts = [(prefix + id_, values[id_]) for id_ in fitting]
            if not puts or await self._try_write(checks, puts):
                ids = changed[len(fitting) :]

    async def _remove_journals(self, generation: str, journals: Sequence[Journal]) -> None:
        """Remove compacted journals from the manifest, then delete their keys."""
        compacted = [one.id for one in journals]
        while True:
            manifest = await self._view.read_manifest(generation)
            left = tuple(id_ for id_ in manifest.value.journals if id_ not in compacted)
            if left == manifest.value.journals:
                break
            new = records.encode_manifest(replace(manifest.value, journals=left))
            key = records.manifest_key(generation)
            if await self._try_write([Check(key, manifest.revision)], [(key, new)]):
                break
        for one in journals:
            await self._delete(_journal_keys(generation, one))
        self._view.drop_journals(generation, compacted)

    async def _delete_version(self, generation: str, version: str) -> None:
        """Delete a dead version, then remove it from the manifest."""
        await self._delete_prefix(records.version_prefix(generation, version))
        manifest = await self._view.read_manifest(generation)
        left = tuple(name for name in manifest.value.dead_versions if name != version)
        key = records.manifest_key(generation)
        new = records.encode_manifest(replace(manifest.value, dead_versions=left))
        await self._try_write([Check(key, manifest.revision)], [(key, new)])

    async def _delete_generation(self, generation: str) -> None:
        """Delete what is left of a deleted connector, its manifest last."""
        await self._delete_prefix(records.task_prefix(generation))
        await self._delete([records.manifest_key(generation)])

    async def _delete_orphans(self, oldest_ms: int) -> None:
        """Delete chunks of commits that a crash interrupted before they became visible.

        The clock only selects the chunks to check. A commit may still be under way, because clocks
        differ; so the deletion of each chunk also rewrites the manifest, which makes that commit
        fail its check and write its chunks again.
        """
        after, more = "", True
        while more:
            page = await self._store.range(records.JOURNAL_PREFIX, after, ORPHAN_PAGE_SIZE)
            more = page.more
            for entry in page.entries:
                after = entry.key
                generation, id_, _ = after.removeprefix(records.JOURNAL_PREFIX).split("/")
                if journal.id_time_ms(id_) > oldest_ms:
                    continue
                manifest = await self._view.read_manifest(generation)
                if id_ not in manifest.value.journals:
                    key = records.manifest_key(generation)
                    rewritten: Put = (key, records.encode_manifest(manifest.value))
                    rewrite = [rewritten] if manifest.revision else []
                    await self._try_write(
                        [Check(key, manifest.revision)], [*rewrite, (after, None)]
                    )

    async def _delete_prefix(self, prefix: str) -> None:
        after, more = "", True
        while more:
            page = await self._store.range(prefix, after, BATCH_SIZE * MAX_CONCURRENT)
            more = page.more
            if page.entries:
                after = page.entries[-1].key
                await self._delete([entry.key for entry in page.entries])

    async def _delete(self, keys: Sequence[str]) -> None:
        batches = (keys[start : start + BATCH_SIZE] for start in range(0, len(keys), BATCH_SIZE))
        await bounded_gather(
            batches, lambda batch: self._try_write([], [(key, None) for key in batch])
        )

    async def _try_write(self, checks: Sequence[Check], puts: Sequence[Put]) -> bool:
        try:
            await self._store.write(checks, puts)
        except Conflict:
            return False
        return True


def _fit_into_write(
    prefix: str, ids: Sequence[str], values: Mapping[str, bytes | None]
) -> Sequence[str]:
    """Return the ids, from the first, whose values fit into one write; at least one."""
    size = 0
    for count, id_ in enumerate(ids):
        size += len(prefix) + len(id_) + len(values[id_] or b"")
        if count and size > MAX_BATCH_BYTES:
            return ids[:count]
    return ids


def _journal_keys(generation: str, one: Journal) -> list[str]:
    chunks = (records.journal_chunk_key(generation, one.id, n) for n in range(one.chunks))
    return [records.journal_index_key(generation, one.id), *chunks]
