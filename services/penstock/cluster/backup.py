"""A backup of the state of a cluster: in etcd, and in PostgreSQL where its services keep it there.

It has all keys of the cluster as they were at one revision, but not who lives and who leads: these
keys end with their leases. It is taken while everything runs.

A database has a revision of its own. It is read after etcd, in one snapshot: a restart that was
requested in between is made again, where the other order would lose it. Each service ignores what
belongs to connectors that the other does not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from penstock.cluster.backup_file import BackupHeader, BackupWriter, VerifiedBackup, file_in
from penstock.cluster.instance import TOPICS_TRAIT
from penstock.cluster.restore_order import SERVICE_KEYS, STATE
from penstock.etcd import CompactedError, Etcd, RangeResult
from penstock.model.errors import ConfigError
from penstock.store.etcd_format import FORMAT_KEY, EtcdFormat, decode_format
from penstock.store.port import Entry
from penstock.store.postgresql.copy import PostgresqlSnapshot, open_snapshot
from penstock.store.postgresql.settings import PostgresqlSettings

_ATTEMPTS: Final = 3
"""Times that a backup begins again because etcd compacted the revision that it read."""

IDENTITY: Final = "cluster"
"""The key on which the services of a cluster agreed, below its prefix."""


@dataclass(frozen=True, slots=True)
class TakenBackup:
    """A backup that was written. `topics`: where embedded topics are; "" if nowhere: they are not
    in it.
    """

    backup: VerifiedBackup
    topics: str


async def back_up(
    client: Etcd, place: Path, database: PostgresqlSettings | None = None
) -> TakenBackup:
    """Write a backup of the cluster to a file, or to a new file in a folder. `database`: that of
    its services, where they do not keep their state in etcd.

    Raises:
        ConfigError: `backup.nothing`, `backup.in_postgresql`, `backup.exists`.
        RetriableError: `store.restoring`, `backup.not_written`, or a store does not answer.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(CompactedError):
            return await _write_backup(client, place, database)
    return await _write_backup(client, place, database)


async def _write_backup(
    client: Etcd, place: Path, database: PostgresqlSettings | None
) -> TakenBackup:
    async with aclosing(client.pages(client.prefix)) as pages:
        first = await anext(pages)
        # by its own key: a page may have been cut to one key, where values are large
        stored = read_format(client, await client.get(client.prefix + FORMAT_KEY))
        stored.refuse_restoring(client.prefix)
        traits = _read_traits(client, first)
        elsewhere = _services_elsewhere(client, traits, database)
        base = stored.revision_base
        header = BackupHeader(client.settings.cluster, base + first.revision, elsewhere)
        with BackupWriter(file_in(place, header), header) as out:
            out.write(_select_entries(client, first, header, base))
            async for page in pages:
                out.write(_select_entries(client, page, header, base))
            if not out.entries:
                raise _nothing(client)
            if database is not None and elsewhere:
                await _write_database(out, database, elsewhere)
            return TakenBackup(out.finish(), traits.get(TOPICS_TRAIT, ""))


def _select_entries(
    client: Etcd, page: RangeResult, header: BackupHeader, base: int
) -> Iterator[Entry]:
    """Yield the entries of a page that belong into a backup: not those that end with a lease, nor
    what a service left behind that has its keys in a database now.
    """
    left_behind = tuple(key for service in header.in_database for key in SERVICE_KEYS[service])
    for found in page.entries:
        key = found.key.removeprefix(client.prefix)
        if (key == IDENTITY or key.startswith(STATE)) and not key.startswith(left_behind):
            yield Entry(key, found.value, base + found.mod_revision)


async def _write_database(
    out: BackupWriter, database: PostgresqlSettings, services: Sequence[str]
) -> None:
    async with open_snapshot(database) as snapshot:
        if snapshot is None:
            raise ConfigError(
                "backup.nothing",
                f"the database has no schema `{database.schema}`",
                fix="Set `store.url` and `store.schema` to those of the services.",
                config_path="store.schema",
            )
        await _write_entries(out, snapshot, services)


async def _write_entries(
    out: BackupWriter, snapshot: PostgresqlSnapshot, services: Sequence[str]
) -> None:
    prefixes = [key.removeprefix(STATE) for service in services for key in SERVICE_KEYS[service]]
    async for entry in snapshot.entries(prefixes):
        out.write([replace(entry, key=STATE + entry.key)])


def read_format(client: Etcd, page: RangeResult) -> EtcdFormat:
    """Return the format of the state under the prefix of a cluster.

    Raises:
        ConfigError: `store.newer`.
    """
    for entry in page.entries:
        if entry.key == client.prefix + FORMAT_KEY:
            return decode_format(entry.value, client.prefix)
    return EtcdFormat()


def _read_traits(client: Etcd, page: RangeResult) -> dict[str, str]:
    """Return on what the services of the cluster agreed."""
    for entry in page.entries:
        if entry.key == client.prefix + IDENTITY:
            return dict(json.loads(entry.value)["traits"])
    return {}


def store_trait(service: str) -> str:
    """Return the name under which a service says where its state is."""
    return f"{service}.store"


def place_of(database: PostgresqlSettings | None) -> str:
    """Return where state is, as services say it."""
    return "etcd" if database is None else f"postgresql {database.location()}"


def _services_elsewhere(
    client: Etcd, traits: Mapping[str, str], database: PostgresqlSettings | None
) -> tuple[str, ...]:
    """Return the services whose state is in the database. Refuse one that is in another."""
    places = {one: traits.get(store_trait(one), "etcd") for one in SERVICE_KEYS}
    elsewhere = tuple(service for service, place in places.items() if place != "etcd")
    known = place_of(database)
    for service in elsewhere:
        if places[service] == known:
            continue
        what = "which no key names" if database is None else f"and `store.url` names {known}"
        raise ConfigError(
            "backup.in_postgresql",
            f"the state of service `{service}` of cluster `{client.settings.cluster}` is in "
            f"{places[service]}, {what}",
            fix="Set PENSTOCK_STORE=postgresql, PENSTOCK_STORE_URL and PENSTOCK_STORE_SCHEMA as "
            "for the services, or name their file with --config. Where config and offset service "
            "have a database each, back up all of them with their own tools: pg_dump "
            '--format=custom --file=penstock.dump "$PENSTOCK_STORE_URL", and etcdctl snapshot save '
            "backup.db",
            config_path="store",
        )
    return elsewhere


def _nothing(client: Etcd) -> ConfigError:
    return ConfigError(
        "backup.nothing",
        f"nothing is stored under {client.prefix} at {', '.join(client.settings.endpoints)}",
        fix="Set `cluster.name` and `etcd.endpoints` to those of the cluster, as variables "
        "PENSTOCK_CLUSTER_NAME and PENSTOCK_ETCD_ENDPOINTS, or in a file for --config. The state "
        "of a node is in a folder: --state.",
        config_path="cluster.name",
    )
