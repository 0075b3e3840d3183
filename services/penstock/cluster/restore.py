"""The restore of a backup into a cluster that has no state: into etcd, or etcd and PostgreSQL.

A restore puts the keys into etcd in the order in which they were written. What was written together
is put together. So every revision has the same place among the others as before, and the services
find what was newer than what. All revisions, which are epochs, are past those that topics and sinks
have seen (`penstock.store.etcd_format`).

The keys of offsets are many, and no order of them means anything: they are put in large writes.

While it goes on, `format` in etcd says so, and no service opens a store. What belongs into a
database is put there in one transaction.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import filterfalse
from pathlib import Path

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.cluster.backup import IDENTITY, place_of, read_format, store_trait
from penstock.cluster.backup_file import BackupHeader, VerifiedBackup, read_entries, verify_backup
from penstock.cluster.restore_order import (
    SERVICE_KEYS,
    STATE,
    base_of_epochs,
    group_by_revision,
    is_offset,
    join_plan_records,
    shift_revisions,
    split_into_batches,
)
from penstock.etcd import Etcd, RangeResult, operations
from penstock.etcd.membership import MEMBERS
from penstock.model.errors import ConfigError, RetriableError
from penstock.store.etcd_format import FORMAT_KEY, EtcdFormat
from penstock.store.port import Entry
from penstock.store.postgresql.copy import fill_schema, find_first_key
from penstock.store.postgresql.settings import PostgresqlSettings


@dataclass(frozen=True, slots=True)
class RestoredCluster:
    """A cluster that was restored, or a node. All its epochs are past `epochs_above`."""

    cluster: str
    entries: int
    epochs_above: int


@dataclass(frozen=True, slots=True)
class RestorePlace:
    """Where the state of config and offset service comes. `database`: None: into etcd. `keeps`:
    the database has it still, and it stays as it is.
    """

    database: PostgresqlSettings | None = None
    keeps: bool = False

    def takes(self, entry: Entry) -> bool:
        """Return whether an entry belongs into the database."""
        return self.database is not None and any(
            entry.key.startswith(keys) for keys in SERVICE_KEYS.values()
        )


async def restore(
    client: Etcd, file: Path, epochs_above: int = 0, place: RestorePlace | None = None
) -> RestoredCluster:
    """Put a backup where nothing of the cluster is. One that was interrupted goes on.

    `epochs_above`: the largest epoch that a topic or a sink may have seen; 0: what the backup says,
    and `EPOCHS_PER_RESTORE` more.

    Raises:
        ConfigError: the file is damaged (`backup.*`), of another cluster (`restore.other_cluster`),
            or the cluster in etcd runs or has state (`restore.cluster_runs`, `restore.not_empty`).
    """
    place = place or RestorePlace()
    backup = verify_backup(file)
    _refuse_other_cluster(client, backup)
    base = base_of_epochs(backup.header.revision, epochs_above)
    database = None if place.keeps else place.database
    nonce = uuid.UUID(hex=backup.sha256[:32])
    if database is not None:
        await _refuse_members(client)
        _refuse_entries(database, await find_first_key(database, nonce))
    writer = await _RestoreWriter.begin(client, backup, base)
    in_etcd = partial(filterfalse, place.takes)
    for entries in split_into_batches(filter(is_offset, in_etcd(read_entries(backup)))):
        await writer.put(entries)
    others = list(filterfalse(is_offset, in_etcd(read_entries(backup))))
    identity = [entry for entry in others if entry.key == IDENTITY]
    rest = [entry for entry in others if entry.key != IDENTITY]
    for entries in _in_order(rest, backup.header):
        await writer.put(entries)
    if database is not None:
        await _fill_database(database, backup, place, writer.stored.revision_base, nonce)
    if not place.keeps:
        identity = [_at_place(one, place) for one in identity]
    await writer.end(identity)
    cluster = client.settings.cluster
    return RestoredCluster(cluster, backup.entries, writer.stored.revision_base)


def _in_order(entries: Sequence[Entry], header: BackupHeader) -> Iterator[list[Entry]]:
    """Yield entries as they were written: those of each counter of revisions for itself."""
    from_database = tuple(key for service in header.in_database for key in SERVICE_KEYS[service])
    yield from group_by_revision(one for one in entries if one.key.startswith(from_database))
    of_etcd = [one for one in entries if not one.key.startswith(from_database)]
    yield from group_by_revision(join_plan_records(of_etcd))


async def _fill_database(
    database: PostgresqlSettings,
    backup: VerifiedBackup,
    place: RestorePlace,
    base: int,
    nonce: uuid.UUID,
) -> None:
    revisions = [one.revision for one in read_entries(backup) if place.takes(one)]
    lowest, newest = min(revisions, default=0), max(revisions, default=0)
    taken = (one for one in read_entries(backup) if place.takes(one))
    shifted = shift_revisions(taken, lowest, base)
    newest += base + 1 - lowest
    _refuse_entries(database, await fill_schema(database, shifted, newest, nonce))


def _at_place(identity: Entry, place: RestorePlace) -> Entry:
    """Return on what the services agreed, with the place where their state is now."""
    document = json.loads(identity.value)
    names = document["traits"].keys() & {store_trait(service) for service in SERVICE_KEYS}
    moved = dict.fromkeys(names, place_of(place.database))
    if moved.items() <= document["traits"].items():
        return identity
    document["traits"] |= moved
    return replace(identity, value=json.dumps(document, sort_keys=True).encode())


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
        found = read_format(client, read)
        conditions = [
            operations.mod_revision_is(key, read.entries[0].mod_revision if read.entries else 0),
            operations.prefix_is_empty(client.prefix + MEMBERS),
        ]
        if found.restoring != backup.sha256:  # else it goes on
            await _refuse_state(client, found)
            conditions.append(operations.prefix_is_empty(client.prefix + STATE))
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
    kept = await client.range(client.prefix + STATE, limit=1)
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
    if backup.header.cluster not in {cluster, ""}:  # a node has no name
        raise ConfigError(
            "restore.other_cluster",
            f"{backup.file} is a backup of cluster `{backup.header.cluster}`, and `cluster.name` "
            f"is `{cluster}`",
            fix=f"Set `cluster.name` to {backup.header.cluster}. Two clusters with the same "
            "connectors would take each other's slots, transactions and files.",
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


def _refuse_entries(database: PostgresqlSettings, key: str) -> None:
    if key:
        raise ConfigError(
            "restore.not_empty",
            f"schema `{database.schema}` of the database has state, for instance the key {key}; "
            "a restore overwrites nothing",
            fix="If it is the cluster's, and only etcd was lost: restore with --keep-database. "
            "Else back it up, and then delete it where the backup is to take its place: "
            f"psql \"$PENSTOCK_STORE_URL\" -c 'DROP SCHEMA {database.schema} CASCADE'",
            config_path="store.schema",
        )
