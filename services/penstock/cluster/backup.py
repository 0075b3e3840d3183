"""A backup of a cluster's state in etcd, and its restore into an empty one.

A backup has all keys of the cluster as they were at one revision, but not who lives and who leads:
these keys end with their leases. It is taken while everything runs.

A restore puts the keys back in the order in which they were written. What was written together is
put together. So every revision has the same place among the others as before, and the services find
what was newer than what. All revisions, which are epochs, are past those that topics and sinks have
seen (`penstock.store.etcd_format`).

The keys of offsets are many, and no order of them means anything: they are put in large writes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Final

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.cluster.backup_file import (
    BackupHeader,
    BackupWriter,
    VerifiedBackup,
    read_entries,
    verify_backup,
)
from penstock.cluster.instance import TOPICS_TRAIT
from penstock.etcd import CompactedError, Etcd, RangeResult, operations
from penstock.etcd.membership import MEMBERS
from penstock.model.errors import ConfigError, RetriableError
from penstock.offset.records import KEY_PREFIXES as OFFSETS
from penstock.scheduler.state.records import (
    PLAN_PREFIX,
    decode_plan_record,
    encode_new_plan_record,
    plan_index_key,
)
from penstock.store.etcd_format import FORMAT_KEY, EtcdFormat, decode_format
from penstock.store.port import Entry

EPOCHS_PER_RESTORE: Final = 1_000_000_000
"""What epochs are ahead of the backup after a restore, unless the user names a number. The lost
cluster has written fewer revisions since its backup: at 1,000 a second it needs eleven days."""

BATCH_KEYS: Final = 100
BATCH_BYTES: Final = 1 << 20
"""Size of a write of offsets; etcd takes 128 operations and 1.5 MB."""

_ATTEMPTS: Final = 3
"""Times that a backup begins again because etcd compacted the revision that it read."""

_STATE: Final = "state/"
_IDENTITY: Final = "cluster"
_PLAN_RECORDS: Final = _STATE + PLAN_PREFIX
_UNORDERED: Final = tuple(_STATE + prefix for prefix in OFFSETS)


@dataclass(frozen=True, slots=True)
class TakenBackup:
    """A backup that was written. `topics`: where the workers keep embedded topics; "" if nowhere:
    they are not in it.
    """

    backup: VerifiedBackup
    topics: str


@dataclass(frozen=True, slots=True)
class RestoredCluster:
    """A cluster that was restored. All its epochs are past `epochs_above`."""

    cluster: str
    entries: int
    epochs_above: int


async def back_up(client: Etcd, place: Path) -> TakenBackup:
    """Write a backup of the cluster to a file, or to a new file in a folder.

    Raises:
        ConfigError: `backup.nothing`, `backup.in_postgresql`, `backup.exists`.
        RetriableError: `store.restoring`, `backup.not_written`, or etcd does not answer.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(CompactedError):
            return await _write_backup(client, place)
    return await _write_backup(client, place)


async def _write_backup(client: Etcd, place: Path) -> TakenBackup:
    async with aclosing(client.pages(client.prefix)) as pages:
        first = await anext(pages)
        # by its own key: a page may have been cut to one key, where values are large
        stored = _read_format(client, await client.get(client.prefix + FORMAT_KEY))
        stored.refuse_restoring(client.prefix)
        traits = _read_traits(client, first)
        _refuse_postgresql(client, traits)
        base = stored.revision_base
        header = BackupHeader(client.settings.cluster, base + first.revision)
        with BackupWriter(_file_in(place, header), header) as out:
            out.write(_select_entries(client, first, base))
            async for page in pages:
                out.write(_select_entries(client, page, base))
            if not out.entries:
                raise _nothing(client)
            return TakenBackup(out.finish(), traits.get(TOPICS_TRAIT, ""))


def _select_entries(client: Etcd, page: RangeResult, base: int) -> Iterator[Entry]:
    """Yield the entries of a page that belong into a backup: not those that end with a lease."""
    for found in page.entries:
        key = found.key.removeprefix(client.prefix)
        if key == _IDENTITY or key.startswith(_STATE):
            yield Entry(key, found.value, base + found.mod_revision)


def _file_in(place: Path, header: BackupHeader) -> Path:
    if not place.is_dir():
        return place
    return place / f"penstock-{header.cluster}-{header.revision}.backup"


async def restore(client: Etcd, file: Path, epochs_above: int = 0) -> RestoredCluster:
    """Put a backup into etcd, where nothing of the cluster is. One that was interrupted goes on.

    `epochs_above`: the largest epoch that a topic or a sink may have seen; 0: what the backup says,
    and `EPOCHS_PER_RESTORE` more.

    Raises:
        ConfigError: the file is damaged (`backup.*`), of another cluster (`restore.other_cluster`),
            or the cluster in etcd runs or has state (`restore.cluster_runs`, `restore.not_empty`).
    """
    backup = verify_backup(file)
    _refuse_other_cluster(client, backup)
    above = max(epochs_above, backup.header.revision)
    base = above if epochs_above else above + EPOCHS_PER_RESTORE
    writer = await _RestoreWriter.begin(client, backup, base)
    for entries in split_into_batches(entry for entry in read_entries(backup) if _is_offset(entry)):
        await writer.put(entries)
    others = [entry for entry in read_entries(backup) if not _is_offset(entry)]
    identity = [entry for entry in others if entry.key == _IDENTITY]
    rest = join_plan_records([entry for entry in others if entry.key != _IDENTITY])
    for entries in group_by_revision(rest):
        await writer.put(entries)
    await writer.end(identity)
    return RestoredCluster(backup.header.cluster, backup.entries, writer.stored.revision_base)


def join_plan_records(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries in which a plan record that names the revision of its plans is written with
    them: a restore gives them another revision, and a record that names none has that of its entry.
    A record of other plans stays as it is; its connector is planned again.
    """
    plans = {entry.key: entry.revision for entry in entries if entry.key.endswith("/index")}
    joined: list[Entry] = []
    for entry in entries:
        generation = entry.key.removeprefix(_PLAN_RECORDS)
        revision = plans.get(_STATE + plan_index_key(generation))
        is_record = generation != entry.key
        joined.append(_join_plan_record(entry, revision) if is_record and revision else entry)
    return joined


def _join_plan_record(entry: Entry, plans_revision: int) -> Entry:
    try:
        _, record = decode_plan_record(entry)
    except (ValueError, TypeError):
        return entry  # the scheduler says what is wrong with it
    if record.epoch != plans_revision or entry.revision == plans_revision:
        return entry
    return Entry(entry.key, encode_new_plan_record(record), plans_revision)


def split_into_batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries, as many at once as a write of etcd takes."""
    batch, size_bytes = list[Entry](), 0
    for entry in entries:
        entry_bytes = len(entry.key) + len(entry.value)
        if batch and (len(batch) == BATCH_KEYS or size_bytes + entry_bytes > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(entry)
        size_bytes += entry_bytes
    if batch:
        yield batch


def group_by_revision(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries in the order in which they were written, those of one write together."""
    by_revision = sorted(entries, key=attrgetter("revision"))
    for _, group in itertools.groupby(by_revision, key=attrgetter("revision")):
        yield list(group)


class _RestoreWriter:
    """Writes a backup. Each write succeeds only while the cluster does not run, and while no other
    restore has begun since.
    """

    def __init__(self, client: Etcd, stored: EtcdFormat, revision: int) -> None:
        """`revision` is that of the key of the format, which another restore would change."""
        self.stored = stored
        self._client, self._revision = client, revision
        self._format_key = client.prefix + FORMAT_KEY

    @staticmethod
    async def begin(client: Etcd, backup: VerifiedBackup, base: int) -> _RestoreWriter:
        """Write down that this backup is being restored: from now on no service opens the store."""
        await _refuse_members(client)
        key = client.prefix + FORMAT_KEY
        read = await client.get(key)
        found = _read_format(client, read)
        conditions = [
            operations.mod_revision_is(key, read.entries[0].mod_revision if read.entries else 0),
            operations.prefix_is_empty(client.prefix + MEMBERS),
        ]
        if found.restoring != backup.sha256:  # else it goes on
            await _refuse_state(client, found)
            conditions.append(operations.prefix_is_empty(client.prefix + _STATE))
        # never back: epochs may have been given since another restore, whose state was deleted
        stored = EtcdFormat(max(base, found.revision_base), backup.sha256)
        put = operations.put(key, stored.encode())
        done = await client.txn(conditions, [put], stage="begin to restore")
        if not done.succeeded:
            await _refuse_members(client)
            raise _superseded(client)
        return _RestoreWriter(client, stored, done.revision)

    async def put(self, entries: Sequence[Entry]) -> None:
        """Put entries in one write. It may happen twice: what follows is still newer."""
        puts = [operations.put(self._client.prefix + one.key, one.value) for one in entries]
        await self._write(puts, f"restore {entries[0].key}")

    async def end(self, identity: Iterable[Entry]) -> None:
        """Write on what the services of the cluster agreed, and let them open the store."""
        puts = [operations.put(self._client.prefix + one.key, one.value) for one in identity]
        puts.append(operations.put(self._format_key, replace(self.stored, restoring="").encode()))
        await self._write(puts, "end the restore", repeat=False)

    async def _write(
        self, puts: Sequence[pb.RequestOp], stage: str, *, repeat: bool = True
    ) -> None:
        conditions = [
            operations.mod_revision_is(self._format_key, self._revision),
            operations.prefix_is_empty(self._client.prefix + MEMBERS),
        ]
        then = operations.pack(puts, len(conditions), operations.MAX_OPS)
        if then is None:
            raise ConfigError(
                "etcd.request_too_large",
                f"{len(puts)} keys were written at once, more than the {operations.MAX_OPS} "
                "operations of a transaction of etcd hold",
                fix="Restore the snapshot of etcd itself: `etcdutl snapshot restore`.",
            )
        done = await self._client.txn(conditions, then, stage=stage, repeat=repeat)
        if not done.succeeded:
            await _refuse_members(self._client)
            raise _superseded(self._client)


def _read_format(client: Etcd, page: RangeResult) -> EtcdFormat:
    for entry in page.entries:
        if entry.key == client.prefix + FORMAT_KEY:
            return decode_format(entry.value, client.prefix)
    return EtcdFormat()


def _read_traits(client: Etcd, page: RangeResult) -> dict[str, str]:
    """Return on what the services of the cluster agreed."""
    for entry in page.entries:
        if entry.key == client.prefix + _IDENTITY:
            return dict(json.loads(entry.value)["traits"])
    return {}


def _is_offset(entry: Entry) -> bool:
    return entry.key.startswith(_UNORDERED)


async def _refuse_members(client: Etcd) -> None:
    prefix = client.prefix + MEMBERS
    found: RangeResult = await client.range(prefix, limit=5)
    if found.entries:
        names = ", ".join(entry.key.removeprefix(prefix) for entry in found.entries)
        raise ConfigError(
            "restore.cluster_runs",
            f"cluster `{client.settings.cluster}` runs: {names}{', …' if found.has_more else ''}",
            fix="Stop all its services and workers first. Those that were killed are gone when "
            "their leases end, after `lease.ttl` (5 s).",
        )


async def _refuse_state(client: Etcd, found: EtcdFormat) -> None:
    if found.restoring:
        raise ConfigError(
            "restore.unfinished",
            f"the restore of another backup (sha256 {found.restoring}) was interrupted",
            fix=f"Restore that file to its end, or delete what is there: {_delete(client)}",
        )
    kept = await client.range(client.prefix + _STATE, limit=1)
    if kept.entries:
        raise ConfigError(
            "restore.not_empty",
            f"cluster `{client.settings.cluster}` has state in etcd, for instance the key "
            f"{kept.entries[0].key}; a restore overwrites nothing",
            fix="Back it up, and then delete it where the backup is to take its place: "
            f"{_delete(client)}",
        )


def _refuse_other_cluster(client: Etcd, backup: VerifiedBackup) -> None:
    cluster = client.settings.cluster
    if backup.header.cluster != cluster:
        raise ConfigError(
            "restore.other_cluster",
            f"{backup.file} is a backup of cluster `{backup.header.cluster}`, and `cluster.name` "
            f"is `{cluster}`",
            fix=f"Set `cluster.name` to {backup.header.cluster}. Two clusters with the same "
            "connectors would take each other's slots, transactions and files.",
            config_path="cluster.name",
        )


def _refuse_postgresql(client: Etcd, traits: dict[str, str]) -> None:
    elsewhere = {store for name, store in traits.items() if name.endswith(".store")} - {"etcd"}
    if elsewhere:
        raise ConfigError(
            "backup.in_postgresql",
            f"connectors and offsets of cluster `{client.settings.cluster}` are not in etcd but in "
            f"{min(elsewhere)}",
            fix="Back up both with their own tools: pg_dump --format=custom "
            '--file=penstock.dump "$PENSTOCK_STORE_URL", and etcdctl snapshot save backup.db.',
            config_path="store",
        )


def _nothing(client: Etcd) -> ConfigError:
    return ConfigError(
        "backup.nothing",
        f"nothing is stored under {client.prefix} at {', '.join(client.settings.endpoints)}",
        fix="Set `cluster.name` and `etcd.endpoints` to those of the cluster, as variables "
        "PENSTOCK_CLUSTER_NAME and PENSTOCK_ETCD_ENDPOINTS, or in a file for --config.",
        config_path="cluster.name",
    )


def _superseded(client: Etcd) -> RetriableError:
    return RetriableError(
        "restore.superseded",
        f"something else writes under {client.prefix}: another restore, or a service that started",
        fix="Let one restore run at a time; then run it again with the same file.",
    )


def _delete(client: Etcd) -> str:
    return f"etcdctl del --prefix {client.prefix}"
