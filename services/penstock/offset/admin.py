"""The admin operations on offsets: get, list, history, alter; reset and rewind of all at once.

Altering, resetting and rewinding need a stopped connector. Each raises the floor of the generation
to the newest epoch that exists: a task that started before, and may still run, can neither commit
nor claim any more (invariant 4). The next start gets a newer epoch.

What a task has prepared stays: its rows are durable, and its offsets were stored with it. A claim
still requests its recovery, which shows those rows and changes no offset.

A reset or rewind is visible completely or not at all, however many partitions there are: it writes
a new version beside the current one, and switches the manifest to it in one write. A claim in
between means that the connector was started: the switch fails, and the new version is deleted.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.model import faults
from penstock.model.errors import ConfigError, RetriableError
from penstock.offset import history, journal, records, rules
from penstock.offset.compaction import Compactor
from penstock.offset.history import OffsetVersion
from penstock.offset.records import Manifest
from penstock.offset.staged_writes import bounded_gather, split_batches, stage_journal
from penstock.offset.stop_guard import StopGuard
from penstock.offset.view import MAX_JOURNALS, OffsetView, Revisioned
from penstock.store.port import Check, Conflict, Put, Store
from penstock_values.identity import partition_id, partition_key
from penstock_values.partition_ranges import PartitionRange

MAX_GET_PARTITIONS: Final = 10_000
"""Partitions of one get (invariant 12)."""

MAX_ALTER_PARTITIONS: Final = 100_000
"""Partitions of one alteration."""

MAX_ATTEMPTS: Final = 8

COPY_BATCH_SIZE: Final = 500
"""Partitions in one write of a new version. Such a write has only one condition."""

BEFORE_FIRST_MS: Final = -1
"""A time at which no partition had an offset."""


class OffsetAdmin:
    """Reads and alters single offsets."""

    def __init__(
        self,
        store: Store,
        guard: StopGuard,
        view: OffsetView | None = None,
        compactor: Compactor | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`guard` checks that a connector is stopped."""
        self._store, self._guard, self._clock = store, guard, clock
        self._view = view or OffsetView(store)
        self._compactor = compactor or Compactor(store, self._view, clock)

    async def get(self, generation: str, partition_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the offsets of partitions. A partition without an offset is absent.

        Raises:
            ConfigError: `offset.too_many`.
        """
        rules.check_generation(generation)
        fix = "Get fewer partitions at once, or list the offsets."
        rules.check_count(len(partition_ids), MAX_GET_PARTITIONS, fix)
        found = await self._view.read_values(generation, partition_ids)
        values = ((id_, known.value) for id_, known in found.items())
        return _bodies((id_, value) for id_, value in values if value is not None)

    async def list(
        self, generation: str, prefix: str, ranges: Collection[PartitionRange] = ()
    ) -> AsyncIterator[dict[str, bytes]]:
        """Yield pages of offsets, ordered by partition id: all, or those that are in a range.

        Raises:
            RetriableError: `offset.list_superseded`: offsets were reset or rewound meanwhile.
        """
        rules.check_generation(generation)
        async for page in self._view.read_pages(generation, prefix):
            wanted = page
            if ranges:
                wanted = [(id_, value) for id_, value in page if _is_in(id_, ranges)]
            bodies = _bodies(wanted)
            if bodies:
                yield bodies

    async def list_history(self, generation: str, partition_id: str) -> Sequence[OffsetVersion]:
        """Return the offsets that a partition had, newest first."""
        rules.check_generation(generation)
        known = (await self._view.read_values(generation, (partition_id,)))[partition_id]
        return history.decode_versions(known.value) if known.value is not None else []

    async def check_alterable(self, connector: str, generation: str) -> None:
        """Raise the error with which `alter` would fail now.

        Raises:
            PenstockError: see `StopGuard.require_stopped`.
        """
        rules.check_generation(generation)
        await self._guard.require_stopped(connector, generation, must_exist=True)

    async def alter(
        self, connector: str, generation: str, offsets: Mapping[str, bytes | None]
    ) -> int:
        """Set offsets, or remove those that are None, all or none; returns the revision.

        Raises:
            PenstockError: see `StopGuard.require_stopped`.
            ConfigError: `offset.partition_id`, `offset.nothing_to_alter`, `offset.too_many`.
        """
        rules.check_generation(generation)
        rules.check_sizes(offsets)
        rules.check_count(len(offsets), MAX_ALTER_PARTITIONS, "Alter fewer partitions at once.")
        _check_not_empty(offsets)
        for id_ in offsets:
            _check_canonical(id_)
        stopped = await self._guard.require_stopped(connector, generation, must_exist=True)
        for _ in range(MAX_ATTEMPTS):
            manifest = await self._view.read_manifest(generation)
            if len(manifest.value.journals) >= MAX_JOURNALS:
                manifest = await self._compactor.compact_all(generation)
            revision = await self._try_alter(generation, manifest, stopped.epoch, offsets)
            if revision:
                return revision
        raise _contended(generation)

    async def _try_alter(
        self,
        generation: str,
        manifest: Revisioned[Manifest],
        newest_epoch: int,
        offsets: Mapping[str, bytes | None],
    ) -> int:
        """Write a journal whose epoch is the new floor; returns 0 after a conflict."""
        new = manifest.value.with_fence(newest_epoch)
        draft = journal.draft_journal(new.floor, int(self._clock() * 1000), offsets)
        new = new.with_journal(draft.journal.id)
        puts = await stage_journal(self._store, generation, draft)
        key = records.manifest_key(generation)
        try:
            revision = await self._store.write(
                [Check(key, manifest.revision)], [(key, records.encode_manifest(new)), *puts]
            )
        except Conflict:
            return 0
        self._view.cache_journal(generation, draft.journal.at_revision(revision))
        self._compactor.schedule(generation, new)
        return revision


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The offset of a partition before and after a rewind; None for no offset.

    `after_written_at_ms`: when the offset after was committed, in milliseconds since the epoch.
    """

    partition_id: str
    before: bytes | None
    after: bytes | None
    after_written_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class RewindProgress:
    """The progress of a rewind: counts of partitions. A `revision` means that it is complete."""

    seen: int = 0
    changed: int = 0
    removed: int = 0
    changes: tuple[OffsetChange, ...] = ()
    revision: int = 0

    def advance(self, seen: int, changes: Sequence[OffsetChange]) -> RewindProgress:
        """Return the progress after some more partitions."""
        removed = sum(change.after is None for change in changes)
        return RewindProgress(
            self.seen + seen, self.changed + len(changes), self.removed + removed, tuple(changes)
        )


class BulkAdmin:
    """Resets and rewinds all offsets of a generation."""

    def __init__(
        self,
        store: Store,
        guard: StopGuard,
        view: OffsetView,
        compactor: Compactor,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`guard` checks that a connector is stopped."""
        self._store, self._guard, self._clock = store, guard, clock
        self._view, self._compactor = view, compactor

    async def reset(self, connector: str, generation: str, *, forget: bool = False) -> int:
        """Remove all offsets; returns the revision.

        With `forget` their history is removed, too; and if the connector is deleted, everything
        that is stored of it.

        Raises:
            PenstockError: see `StopGuard.require_stopped`.
        """
        rules.check_generation(generation)
        stopped = await self._guard.require_stopped(connector, generation, must_exist=False)
        version = await self._begin_version(generation, stopped.epoch)
        if not forget:
            async for _ in self._copy(generation, version, BEFORE_FIRST_MS, ""):
                pass
        return await self._switch(generation, version, delete=forget and not stopped.exists)

    async def rewind(
        self,
        connector: str,
        generation: str,
        to_ms: int,
        prefix: str = "",
        *,
        dry_run: bool = False,
    ) -> AsyncIterator[RewindProgress]:
        """Set partitions to the offsets that they had at a time; yields the progress.

        A dry run yields the changes, and changes nothing. Else the last progress has a revision; a
        caller that stops iterating before it has changed nothing.

        Raises:
            PenstockError: see `StopGuard.require_stopped`.
        """
        rules.check_generation(generation)
        progress = RewindProgress()
        if dry_run:
            async for page in self._view.read_pages(generation, prefix):
                found = (rewind_change(id_, value, to_ms) for id_, value in page)
                progress = progress.advance(len(page), [change for change in found if change])
                yield progress
            return
        stopped = await self._guard.require_stopped(connector, generation, must_exist=True)
        version = await self._begin_version(generation, stopped.epoch)
        async for progress in self._copy(generation, version, to_ms, prefix):
            yield replace(progress, changes=())
        revision = await self._switch(generation, version)
        yield replace(progress, changes=(), revision=revision)

    async def _begin_version(self, generation: str, newest_epoch: int) -> str:
        """Fence all existing epochs, compact the journals, and begin a new version; returns its
        name.
        """
        key = records.manifest_key(generation)
        for _ in range(MAX_ATTEMPTS):
            manifest = await self._compactor.compact_all(generation)
            version = journal.new_id(int(self._clock() * 1000))
            new = manifest.value.with_fence(newest_epoch).with_pending(version)
            try:
                await self._store.write(
                    [Check(key, manifest.revision)], [(key, records.encode_manifest(new))]
                )
            except Conflict:
                continue
            return version
        raise _contended(generation)

    async def _copy(
        self, generation: str, version: str, to_ms: int, prefix: str
    ) -> AsyncIterator[RewindProgress]:
        """Write the new version, page by page. It is not visible yet."""
        version_prefix = records.version_prefix(generation, version)
        now_ms = int(self._clock() * 1000)
        epoch = (await self._require_pending(generation, version)).value.floor
        progress = RewindProgress()
        async for page in self._view.read_pages(generation):
            found = (
                rewind_change(id_, value, to_ms) for id_, value in page if id_.startswith(prefix)
            )
            changes = {change.partition_id: change for change in found if change}
            puts: list[Put] = [
                (
                    version_prefix + id_,
                    history.add_version(value, OffsetVersion(epoch, now_ms, changes[id_].after))
                    if id_ in changes
                    else value,
                )
                for id_, value in page
            ]
            await faults.reach("offset.copying")
            batches = split_batches(puts, COPY_BATCH_SIZE)
            await bounded_gather(
                batches, lambda batch: self._write_pending(generation, version, batch)
            )
            progress = progress.advance(len(page), list(changes.values()))
            yield progress

    async def _switch(self, generation: str, version: str, *, delete: bool = False) -> int:
        """Make the new version the current one; returns the revision."""
        while True:
            manifest = await self._require_pending(generation, version)
            new = manifest.value.switched()
            new = new.deleted() if delete else new
            put = (records.manifest_key(generation), records.encode_manifest(new))
            revision = await self._try_write(generation, manifest, [put])
            if revision:
                self._compactor.schedule(generation, new)
                return revision

    async def _write_pending(self, generation: str, version: str, puts: Sequence[Put]) -> None:
        """Write a part of the new version, only while it is pending: a part that is written after
        it was abandoned would never be deleted.
        """
        while True:
            manifest = await self._require_pending(generation, version)
            if await self._try_write(generation, manifest, puts):
                return  # else a compaction has changed the manifest

    async def _require_pending(self, generation: str, version: str) -> Revisioned[Manifest]:
        """Return the manifest, if the new version is still pending."""
        manifest = await self._view.read_manifest(generation)
        if manifest.value.pending_version != version:
            self._compactor.schedule(generation, manifest.value)
            raise _overtaken(generation)
        return manifest

    async def _try_write(
        self, generation: str, manifest: Revisioned[Manifest], puts: Sequence[Put]
    ) -> int:
        try:
            return await self._store.write(
                [Check(records.manifest_key(generation), manifest.revision)], puts
            )
        except Conflict:
            return 0


def rewind_change(partition_id: str, value: bytes, to_ms: int) -> OffsetChange | None:
    """Return the change when a partition is rewound to a time; None when it stays as it is."""
    current, past = history.newest_version(value), history.version_at(value, to_ms)
    after = None if past is None else past.body
    if current.body == after:
        return None
    written_at_ms = 0 if past is None else past.time_ms
    return OffsetChange(partition_id, current.body, after, written_at_ms)


def _contended(generation: str) -> RetriableError:
    return RetriableError(
        "offset.contended",
        f"other writes changed the offsets of {generation} {MAX_ATTEMPTS} times in a row",
        fix="Repeat the call.",
        retry_after_s=0.2,
    )


def _overtaken(generation: str) -> RetriableError:
    return RetriableError(
        "offset.overtaken",
        f"the connector of {generation} was started, or its offsets were altered, before all "
        "offsets were rewritten: none has changed",
        fix="Stop the connector, wait until its tasks have ended, and repeat the call.",
    )


def _bodies(values: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return the current offsets of values. A removed offset is absent."""
    bodies = ((id_, history.newest_version(value).body) for id_, value in values)
    return {id_: body for id_, body in bodies if body is not None}


def _is_in(id_: str, ranges: Collection[PartitionRange]) -> bool:
    return any(one.has_id(id_) for one in ranges)


def _check_not_empty(offsets: Mapping[str, bytes | None]) -> None:
    if not offsets:
        raise ConfigError(
            "offset.nothing_to_alter",
            "the alteration names no partition",
            fix="Name partitions with their offsets, or reset the offsets of the connector.",
        )


def _check_canonical(id_: str) -> None:
    """Refuse an id under which no task would find its offset."""
    try:
        canonical = partition_id(partition_key(id_))
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        canonical = ""
    if canonical != id_:
        raise ConfigError(
            "offset.partition_id",
            f"{id_[:200]!r} is not the canonical JSON of a partition's key",
            fix="Write the key as JSON with sorted names and no spaces, as a list of offsets does.",
            suggestion=canonical,
        )
