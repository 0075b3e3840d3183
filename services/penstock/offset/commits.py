"""Claims and commits: one fenced store write each, decided from memory, checked by the store.

Each is decided on a `Snapshot`: the record of the task, the manifest, and the values of some
partitions, from the cache or read. The write checks the revisions of all of them, so a stale cache
does no harm: the write fails, and everything is read again.

A commit of few partitions writes them into the current version. A larger one is a journal (see
`journal`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from penstock.model import faults
from penstock.model.errors import PenstockError, RetriableError
from penstock.offset import history, journal, records, rules
from penstock.offset.compaction import Compactor
from penstock.offset.history import OffsetVersion
from penstock.offset.journal import Journal
from penstock.offset.records import Manifest
from penstock.offset.rules import Commit, TaskRecord
from penstock.offset.staged_writes import stage_journal
from penstock.offset.view import (
    MAX_JOURNAL_BYTES,
    MAX_JOURNALS,
    MAX_READS,
    LruCache,
    OffsetView,
    Revisioned,
    base_of,
    changed_too_often,
    manifest_of,
    merge_journals,
)
from penstock.store.port import Check, Conflict, Entry, Put, Store

MAX_DIRECT_PARTITIONS: Final = 100
"""Partitions of a commit that writes into the current version: each is a condition, and etcd takes
128."""

MAX_DIRECT_BYTES: Final = 1 << 20
"""Bytes of such a write: etcd takes 1.5 MB."""

OWNER_CHECK_BATCH: Final = 500
"""Partitions whose owners are checked in one read."""

MAX_ATTEMPTS: Final = 8
"""Attempts of a claim or commit. Only another instance, another large commit of the same connector,
or an alteration by an operator can conflict, so a second conflict is rare."""

MAX_CACHED_TASKS: Final = 4096
"""Tasks, and generations, that are cached. A task takes as much memory as its prepared state."""

MAX_CACHED_OFFSET_BYTES: Final = 48 << 20
"""Bytes of offsets that are cached. An offset that is not cached costs a commit one more read."""

_KEY_BYTES: Final = 400
"""Memory of a cached key, without its value."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The input of a decision: the record of a task, the manifest of its generation, and the values
    of some partitions in the current version.

    `is_fresh`: an error that follows from it is final. The manifest may come from the cache even
    then: its floor only grows, so what it refuses stays refused.
    """

    generation: str
    task_key: str
    task: Revisioned[TaskRecord | None]
    manifest: Revisioned[Manifest]
    bases: Mapping[str, Revisioned[bytes | None]]
    journals: Sequence[Journal]
    is_fresh: bool

    @property
    def manifest_key(self) -> str:
        """The key of the manifest."""
        return records.manifest_key(self.generation)

    @property
    def prefix(self) -> str:
        """The prefix of the keys of the current version."""
        return records.version_prefix(self.generation, self.manifest.value.version)

    def value(self, partition_id: str) -> bytes | None:
        """Return the current value of a partition."""
        return merge_journals(partition_id, self.bases[partition_id], self.journals)

    def owner_epoch(self, partition_id: str) -> int:
        """Return the epoch that wrote the offset of a partition; 0 for none."""
        value = self.value(partition_id)
        return history.newest_epoch(value) if value else 0

    def checks(self) -> list[Check]:
        """Return the conditions of a write that is based on this snapshot."""
        return [
            Check(self.task_key, self.task.revision),
            Check(self.manifest_key, self.manifest.revision),
            *(Check(self.prefix + id_, base.revision) for id_, base in self.bases.items()),
        ]


class SnapshotReader:
    """Reads snapshots and caches their parts."""

    def __init__(self, store: Store, view: OffsetView) -> None:
        """Read from `store`; `view` has the journals."""
        self._store, self._view = store, view
        self._tasks: LruCache[TaskRecord | None] = LruCache(MAX_CACHED_TASKS)
        self._manifests: LruCache[Manifest] = LruCache(MAX_CACHED_TASKS)
        self._values: LruCache[bytes | None] = LruCache(MAX_CACHED_OFFSET_BYTES, _value_weight)

    async def read(self, generation: str, task_key: str, ids: Sequence[str] = ()) -> Snapshot:
        """Return a snapshot with the values of the partitions `ids`. Only parts that are not cached
        are read.
        """
        task = self._tasks.get(task_key)
        is_fresh = task is None
        if task is None:
            manifest_key = records.manifest_key(generation)
            found = await self._store.get(task_key, manifest_key)
            task = _task_of(found.get(task_key))
            self.cache_manifest(generation, manifest_of(found.get(manifest_key)))
        manifest, journals = await self._manifest_with_journals(generation)
        bases, has_cached = await self._read_bases(generation, manifest.value, ids)
        is_fresh = is_fresh and not has_cached
        return Snapshot(generation, task_key, task, manifest, bases, journals, is_fresh)

    async def read_manifest(self, generation: str) -> Revisioned[Manifest]:
        """Return the manifest of a generation, from the cache or read."""
        cached = self._manifests.get(generation)
        if cached is None:
            cached = await self._view.read_manifest(generation)
            self.cache_manifest(generation, cached)
        return cached

    def cache_write(
        self, snapshot: Snapshot, record: TaskRecord, manifest: Manifest, revision: int
    ) -> None:
        """Cache a task and a manifest after a write that was based on a snapshot."""
        task = snapshot.task
        if record != task.value:
            task = Revisioned(revision, record)
        self._tasks.put(snapshot.task_key, task)
        if manifest is not snapshot.manifest.value:
            self.cache_manifest(snapshot.generation, Revisioned(revision, manifest))

    def cache_manifest(self, generation: str, manifest: Revisioned[Manifest]) -> None:
        """Cache a manifest that was read or written, unless a newer one is cached."""
        cached = self._manifests.get(generation)
        if cached is None or cached.revision < manifest.revision:
            self._manifests.put(generation, manifest)

    def cache_values(self, values: Mapping[str, bytes], revision: int) -> None:
        """Cache values that were written, by key."""
        for key, value in values.items():
            self._values.put(key, Revisioned(revision, value))

    def invalidate(self, snapshot: Snapshot) -> None:
        """Read all parts of a snapshot again the next time."""
        self._tasks.remove((snapshot.task_key,))
        self._manifests.remove((snapshot.generation,))
        self._values.remove(snapshot.prefix + id_ for id_ in snapshot.bases)

    def invalidate_manifest(self, generation: str) -> None:
        """Read a manifest again the next time."""
        self._manifests.remove((generation,))

    def invalidate_task(self, task_key: str) -> None:
        """Read a task again the next time."""
        self._tasks.remove((task_key,))

    async def _manifest_with_journals(
        self, generation: str
    ) -> tuple[Revisioned[Manifest], list[Journal]]:
        for _ in range(MAX_READS):
            manifest = await self.read_manifest(generation)
            journals = await self._view.read_journals(generation, manifest.value)
            if journals is not None:
                return manifest, journals
            self.invalidate_manifest(generation)  # a journal was compacted: the manifest is old
        raise changed_too_often(generation)

    async def _read_bases(
        self, generation: str, manifest: Manifest, ids: Sequence[str]
    ) -> tuple[dict[str, Revisioned[bytes | None]], bool]:
        """Return values in the current version, and whether any of them was cached."""
        prefix = records.version_prefix(generation, manifest.version)
        cached = {id_: self._values.get(prefix + id_) for id_ in ids}
        missing = [prefix + id_ for id_, base in cached.items() if base is None]
        found = await self._store.get(*missing) if missing else {}
        bases = {id_: base or base_of(found.get(prefix + id_)) for id_, base in cached.items()}
        return bases, len(missing) < len(ids)


class Commits:
    """The claims and commits of a store."""

    def __init__(
        self,
        store: Store,
        view: OffsetView | None = None,
        compactor: Compactor | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Commit to `store`, which the caller closes; `clock` returns seconds since the epoch."""
        self._store, self._clock = store, clock
        self._view = view or OffsetView(store)
        self._compactor = compactor or Compactor(store, self._view, clock)
        self._snapshots = SnapshotReader(store, self._view)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def claim(self, generation: str, task_id: str, epoch: int) -> TaskRecord:
        """Fence all older epochs of a task, and earlier claims of the same epoch; returns its
        record. Every claim is a write, so what was decided before it fails its check.

        Raises:
            FencedError: `offset.stale_epoch`.
        """
        rules.check_task(generation, task_id, epoch)
        key = records.task_key(generation, task_id)
        async with self._lock(key):
            for _ in range(MAX_ATTEMPTS):
                self._snapshots.invalidate_task(key)  # another instance may have a newer claim
                snapshot = await self._snapshots.read(generation, key)
                manifest = snapshot.manifest.value
                record = rules.apply_claim(snapshot.task.value, manifest.floor, epoch)
                if epoch > manifest.newest_epoch:
                    await self._raise_newest_epoch(generation, epoch)
                elif await self._write(snapshot, record, manifest):
                    return record
        raise _contended(task_id)

    async def read_floor(self, generation: str) -> int:
        """Return the newest epoch that an alteration has fenced; 0 for none."""
        return (await self._snapshots.read_manifest(generation)).value.floor

    async def commit(self, commit: Commit) -> int:
        """Store offsets, prepared state and the applied transaction in one write; returns its
        revision.

        Raises:
            FencedError: `offset.stale_epoch`: nothing was stored.
        """
        rules.check_task(commit.generation, commit.task_id, commit.epoch)
        rules.check_sizes(commit.offsets, commit.prepared)
        async with self._lock(records.task_key(commit.generation, commit.task_id)):
            if len(commit.offsets) <= MAX_DIRECT_PARTITIONS:
                revision = await self._commit_direct(commit)
                if revision is not None:
                    return revision
            return await self._commit_journal(commit)

    async def _commit_direct(self, commit: Commit) -> int | None:
        """Write every partition into the current version; None when that is too large."""
        key = records.task_key(commit.generation, commit.task_id)
        for _ in range(MAX_ATTEMPTS):
            snapshot = await self._snapshots.read(commit.generation, key, tuple(commit.offsets))
            try:
                record = _decide(snapshot, commit)
            except PenstockError:
                if snapshot.is_fresh:
                    raise
                self._snapshots.invalidate(snapshot)  # it came from the cache, which may be stale
                continue
            if record is None:
                return snapshot.task.revision
            values = self._new_values(snapshot, commit)
            if sum(map(len, values.values())) > MAX_DIRECT_BYTES:
                return None
            puts: list[Put] = list(values.items())
            revision = await self._write(snapshot, record, snapshot.manifest.value, puts)
            if revision:
                self._snapshots.cache_values(values, revision)
                return revision
        raise _contended(commit.task_id)

    async def _commit_journal(self, commit: Commit) -> int:
        """Write a journal of any size, which becomes visible as a whole."""
        key = records.task_key(commit.generation, commit.task_id)
        draft = journal.draft_journal(commit.epoch, int(self._clock() * 1000), commit.offsets)
        async with self._lock(records.manifest_key(commit.generation)):
            for _ in range(MAX_ATTEMPTS):
                snapshot = await self._snapshot_with_space(
                    commit.generation, key, draft.journal.size
                )
                try:
                    record = _decide(snapshot, commit)
                    await self._check_owners(snapshot, commit)
                except PenstockError:
                    if snapshot.is_fresh:
                        raise
                    self._snapshots.invalidate(snapshot)
                    continue
                if record is None:
                    return snapshot.task.revision
                manifest = snapshot.manifest.value.with_journal(draft.journal.id)
                puts = await stage_journal(self._store, commit.generation, draft)
                revision = await self._write(snapshot, record, manifest, puts)
                if revision:
                    visible = draft.journal.at_revision(revision)
                    self._view.cache_journal(commit.generation, visible)
                    self._compactor.schedule(commit.generation, manifest)
                    return revision
        raise _contended(commit.task_id)

    async def _raise_newest_epoch(self, generation: str, epoch: int) -> None:
        """Write to the manifest that an epoch is about to own a task, before it does."""
        key = records.manifest_key(generation)
        async with self._lock(key):
            before = await self._snapshots.read_manifest(generation)
            manifest = before.value.with_claim(epoch)
            if manifest is before.value:
                return
            self._snapshots.invalidate_manifest(generation)
            try:
                revision = await self._store.write(
                    [Check(key, before.revision)], [(key, records.encode_manifest(manifest))]
                )
            except Conflict:
                return  # the claim reads the manifest again
            self._snapshots.cache_manifest(generation, Revisioned(revision, manifest))
        self._compactor.schedule(generation, manifest)

    async def _snapshot_with_space(self, generation: str, task_key: str, size: int) -> Snapshot:
        """Return a snapshot once a journal of `size` bytes fits beside the waiting ones. The
        deadline of the caller ends the wait.
        """
        snapshot = await self._snapshots.read(generation, task_key)
        while snapshot.journals and (
            len(snapshot.journals) >= MAX_JOURNALS
            or size + sum(one.size for one in snapshot.journals) > MAX_JOURNAL_BYTES
        ):
            self._snapshots.invalidate(snapshot)
            await self._compactor.compact_all(generation)
            snapshot = await self._snapshots.read(generation, task_key)
        return snapshot

    async def _check_owners(self, snapshot: Snapshot, commit: Commit) -> None:
        """Refuse to overwrite an offset of a newer epoch.

        When no newer epoch has claimed any task there is none, and nothing is read. An offset that
        a newer epoch writes after this check stays: merging the journal compares the epochs.
        """
        if commit.epoch >= snapshot.manifest.value.newest_epoch:
            return
        ids = tuple(commit.offsets)
        for start in range(0, len(ids), OWNER_CHECK_BATCH):
            batch = ids[start : start + OWNER_CHECK_BATCH]
            values = await self._view.read_values(commit.generation, batch)
            for id_, known in values.items():
                owner = history.newest_epoch(known.value) if known.value else 0
                rules.check_partition_epoch(id_, owner, commit.epoch)

    async def _write(
        self,
        snapshot: Snapshot,
        record: TaskRecord,
        manifest: Manifest,
        puts: Sequence[Put] = (),
    ) -> int:
        """Write, if the snapshot is still current; returns the revision, 0 when it is not.

        Offsets, prepared state and the applied transaction are one write: no crash can separate
        them.
        """
        more: list[Put] = []
        if record != snapshot.task.value:
            more.append((snapshot.task_key, records.encode_task(record)))
        if manifest is not snapshot.manifest.value:
            more.append((snapshot.manifest_key, records.encode_manifest(manifest)))
        await faults.reach("offset.storing")
        try:
            revision = await self._store.write(snapshot.checks(), [*puts, *more])
        except Conflict:
            self._snapshots.invalidate(snapshot)
            return 0
        except BaseException:  # also when cancelled: whether it was stored is not known
            self._snapshots.invalidate(snapshot)
            raise
        self._snapshots.cache_write(snapshot, record, manifest, revision)
        await faults.reach("offset.stored")
        return revision

    def _new_values(self, snapshot: Snapshot, commit: Commit) -> dict[str, bytes]:
        now_ms = int(self._clock() * 1000)
        return {
            snapshot.prefix + id_: history.add_version(
                snapshot.value(id_), OffsetVersion(commit.epoch, now_ms, body)
            )
            for id_, body in commit.offsets.items()
        }

    def _lock(self, key: str) -> asyncio.Lock:
        """Return the lock of a key: one commit of a task at a time, in the order of the calls, and
        one change of a manifest.
        """
        return self._locks.setdefault(key, asyncio.Lock())


def _decide(snapshot: Snapshot, commit: Commit) -> TaskRecord | None:
    record = rules.apply_commit(snapshot.task.value, snapshot.manifest.value.floor, commit)
    for id_ in snapshot.bases:
        rules.check_partition_epoch(id_, snapshot.owner_epoch(id_), commit.epoch)
    return record


def _contended(task_id: str) -> RetriableError:
    return RetriableError(
        "offset.contended",
        f"other writes came before that of task {task_id} {MAX_ATTEMPTS} times in a row",
        fix="Repeat the call; check whether two owners compete for the task.",
        retry_after_s=0.2,
    )


def _task_of(entry: Entry | None) -> Revisioned[TaskRecord | None]:
    if entry is None:
        return Revisioned(0, None)
    return Revisioned(entry.revision, records.decode_task(entry.value))


def _value_weight(value: bytes | None) -> int:
    return _KEY_BYTES + len(value or b"")
