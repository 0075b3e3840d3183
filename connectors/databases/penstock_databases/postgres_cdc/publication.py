"""The publication: which tables are in the log for us. Made when missing, grown when filtered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from penstock_connector import ConfigError
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection
from penstock_databases.names import POSTGRESQL

_PUBLICATION: Final = (
    "SELECT puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate "
    "FROM pg_catalog.pg_publication WHERE pubname = %s"
)
_COMMENT: Final = (
    "SELECT pg_catalog.obj_description(oid, 'pg_publication') "
    "FROM pg_catalog.pg_publication WHERE pubname = %s"
)
_MADE_HERE: Final = "made by Penstock"
"""The comment on a publication that a connector made: only such a one is dropped with it."""

_CANDIDATES: Final = (
    "SELECT n.nspname, c.relname, c.relreplident = 'n' OR (c.relreplident = 'd' AND NOT EXISTS ("
    "SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)) "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' "
    "AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' ORDER BY 1, 2"
)
_PUBLISHED: Final = (
    "SELECT c.oid::bigint, p.schemaname, p.tablename, c.relkind = 'p', "
    "COALESCE(to_jsonb(p) -> 'attnames', 'null'), to_jsonb(p) ->> 'rowfilter' "
    "FROM pg_catalog.pg_publication_tables p "
    "JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname "
    "JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename "
    "WHERE p.pubname = %s ORDER BY 2, 3"
)
_EXISTING: Final = "SELECT oid::bigint FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p')"

_NAMES: Final = (
    "SELECT c.oid::bigint, n.nspname, c.relname FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY(%s::oid[])"
)

_ROOTS_FROM: Final = 130_000
"""Version from which changes of parts can be told as those of the whole table."""

_log = logging.getLogger(__name__)

Wanted = Callable[[TableId], bool]


@dataclass(frozen=True, slots=True)
class Published:
    """A table of the publication.

    Attributes:
        oid: Its number.
        table: Its name.
        parted: It is made of parts.
        columns: Columns that are published; None: all.
        rows: Condition on the rows that are published, as the server writes it; or None.
    """

    oid: int
    table: TableId
    parted: bool = False
    columns: tuple[str, ...] | None = None
    rows: str | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """How the publication is made.

    Attributes:
        name: Its name.
        mode: `all_tables`, `filtered` or `disabled`.
        keyless: What becomes of tables whose rows cannot be named: `fail`, `warn`, or `skip`: they
            are not added.
        told: Tables that were told of: once is enough.
    """

    name: str
    mode: str
    keyless: str = "fail"
    told: set[str] = field(default_factory=set)


def ensure_publication(
    connection: Connection, how: Membership, wanted: Wanted, version: int
) -> bool:
    """Make the publication when it is missing, and add tables that are; returns whether it has all
    tables by itself.
    """
    rows = connection.execute(_PUBLICATION, (how.name,))
    if rows:
        ((everything, complete),) = rows
        if not complete:
            _log.warning("the publication %r leaves out some kinds of changes", how.name)
        if how.mode == "filtered" and not everything:
            _grow(connection, how, wanted)
        return bool(everything)
    if how.mode == "disabled":
        raise ConfigError(
            "cdc.no_publication",
            f"there is no publication {how.name!r}",
            fix="Make it, or set publication.autocreate.mode=filtered.",
            config_path="publication.name",
        )
    _make(connection, how, wanted, version)
    return how.mode == "all_tables"


def published(connection: Connection, name: str, wanted: Wanted) -> dict[int, Published]:
    """Return the tables of a publication that are wanted, by their numbers, in their order."""
    found = {}
    for oid, schema, table, parted, columns, condition in connection.execute(_PUBLISHED, (name,)):
        table_id = TableId(table, schema=schema)
        if wanted(table_id):
            listed = None if columns is None else tuple(columns)
            found[int(oid)] = Published(int(oid), table_id, bool(parted), listed, condition)
    return found


def existing(connection: Connection) -> frozenset[int]:
    """Return the numbers of all tables of the database."""
    return frozenset(int(oid) for (oid,) in connection.execute(_EXISTING))


def unwanted(connection: Connection, oids: Iterable[int], wanted: Wanted) -> dict[int, TableId]:
    """Return the tables of these numbers that are there and are not wanted."""
    rows = connection.execute(_NAMES, (list(oids),))
    tables = {int(oid): TableId(name, schema=schema) for oid, schema, name in rows}
    return {oid: table for oid, table in tables.items() if not wanted(table)}


def _make(connection: Connection, how: Membership, wanted: Wanted, version: int) -> None:
    tables = _candidates(connection, how, wanted if how.mode == "filtered" else lambda _: True)
    roots = " WITH (publish_via_partition_root = true)" if version >= _ROOTS_FROM else ""
    what = "FOR ALL TABLES" if how.mode == "all_tables" else _for_tables(tables)
    name = POSTGRESQL.quoted(how.name)
    connection.execute(f"CREATE PUBLICATION {name}{f' {what}' if what else ''}{roots}")
    connection.execute(f"COMMENT ON PUBLICATION {name} IS '{_MADE_HERE}'")


def is_made_here(connection: Connection, name: str) -> bool:
    """Whether a publication is there, and was made by a connector."""
    return connection.execute(_COMMENT, (name,)) == [(_MADE_HERE,)]


def drop_publication(connection: Connection, name: str) -> None:
    """Drop a publication, when it is there."""
    connection.execute(f"DROP PUBLICATION IF EXISTS {POSTGRESQL.quoted(name)}")


def _grow(connection: Connection, how: Membership, wanted: Wanted) -> None:
    have = {found.table for found in published(connection, how.name, wanted).values()}
    missing = [table for table in _candidates(connection, how, wanted, have) if table not in have]
    for table in missing:
        connection.execute(
            f"ALTER PUBLICATION {POSTGRESQL.quoted(how.name)} ADD TABLE ONLY "
            f"{table.sql(POSTGRESQL)}"
        )


def _for_tables(tables: Iterable[TableId]) -> str:
    names = ", ".join(f"ONLY {table.sql(POSTGRESQL)}" for table in tables)
    return f"FOR TABLE {names}" if names else ""


def _candidates(
    connection: Connection, how: Membership, wanted: Wanted, have: Iterable[TableId] = ()
) -> list[TableId]:
    """Return the tables to publish. Those without an identity would refuse updates from then on."""
    known = set(have)
    tables, keyless = [], []
    for schema, name, no_identity in connection.execute(_CANDIDATES):
        table = TableId(name, schema=schema)
        if not wanted(table):
            continue
        if no_identity and table not in known:
            keyless.append(str(table))
            if how.keyless == "skip":
                continue
        tables.append(table)
    if keyless:
        _tell_keyless(keyless, how)
    return tables


def _tell_keyless(keyless: list[str], how: Membership) -> None:
    news = [name for name in keyless if name not in how.told]
    how.told.update(news)
    if not news:
        return
    names = ", ".join(news[:10])
    if how.keyless == "skip":
        _log.warning("tables without a primary key or replica identity are left out: %s", names)
        return
    if how.keyless == "warn":
        _log.warning("tables without a primary key refuse updates once published: %s", names)
        return
    raise ConfigError(
        "cdc.no_identity",
        f"tables have no primary key and no replica identity: {names}; published, they would "
        "refuse every update and delete",
        fix="Run ALTER TABLE … REPLICA IDENTITY FULL, leave them out by `table.exclude.list`, or "
        "set replica.identity.missing=warn where rows are only inserted.",
        config_path="table.exclude.list",
    )
