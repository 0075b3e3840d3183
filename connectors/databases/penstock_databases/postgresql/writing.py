"""Rows into PostgreSQL: COPY, straight into the table or through a temporary one.

What comes of a row is the server's doing: types, defaults, triggers and rules work as they do for
any INSERT.
"""

# Names in SQL are quoted by `Naming`, values are parameters or the wire's own text.
# ruff: noqa: S608

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import psycopg
import pyarrow as pa
from psycopg import sql as composed

from penstock_connector import ConfigError, ConnectorError
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.evolution import NewColumn
from penstock_connector.tables.fitting import Limit
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection, Login
from penstock_databases.encode import Style, lines
from penstock_databases.failing import BrokenRule
from penstock_databases.names import POSTGRESQL
from penstock_databases.postgresql import catalog, ddl, violations
from penstock_databases.postgresql.connection import PostgresqlConnection, telling
from penstock_databases.url import Target
from penstock_databases.writing import Layout, Session, Text
from penstock_values.semantic_types import semantic_type

_STYLE: Final = Style(hex_prefix="\\\\x")
_TWICE: Final = "21000"
"""SQLSTATE of an upsert that meets one key twice."""

_PIECE: Final = 1 << 18
"""Bytes handed to the driver at once: it copies them, and the kernel takes no more anyway."""

_HELD_WITHIN: Final = 5.0
"""Seconds that a session that was ended has to let its task go."""

_KINDS: Final = {
    "r": "TABLE", "p": "PARTITIONED TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW",
    "f": "FOREIGN TABLE",
}  # fmt: skip
_UNIQUE: Final = (
    "SELECT array_agg(a.attname::text) FROM pg_catalog.pg_index i "
    "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
    "WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indimmediate AND i.indisvalid "
    "AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnatts = i.indnkeyatts "
    "GROUP BY i.indexrelid, i.indisprimary ORDER BY i.indisprimary DESC"
)
_HOLDER: Final = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_locks "
    "WHERE locktype = 'advisory' AND granted AND pid <> pg_catalog.pg_backend_pid() "
    "AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) "
    "AND classid = ((%s::bigint >> 32) & 4294967295)::oid "
    "AND objid = (%s::bigint & 4294967295)::oid "
    "AND objsubid = 1"
)
_LEDGER: Final = (
    "CREATE TABLE {table} (task_key char(64) PRIMARY KEY, task_id text NOT NULL, "
    "epoch bigint NOT NULL, txn_id bigint, txn_epoch bigint, token bytea, "
    "updated_at timestamptz NOT NULL DEFAULT now())"
)


class PostgresqlWriter:
    """See `writing.Writer`."""

    name = "postgresql"
    naming = POSTGRESQL
    locking = " FOR UPDATE"

    def connect(self, target: Target, login: Login) -> Connection:
        """Open a session with the server."""
        return PostgresqlConnection(target, login)

    def session(self, connection: Connection) -> Session:
        """Return what writes over a connection."""
        assert isinstance(connection, PostgresqlConnection)  # noqa: S101 - `connect` made it
        return PostgresqlSession(connection)

    def table(self, parts: Sequence[str], target: Target) -> TableId:
        """Return the table that a name of up to three parts means."""
        *before, name = parts
        if len(before) > 1 and (len(before) > 2 or before[0] != target.database):
            raise ConfigError(
                "jdbc.table_name",
                f"{'.'.join(parts)[:200]!r} names no table here: PostgreSQL has schema.table",
                fix='Set `table.name.format` to ${table}, or to "${topic}" in quotes.',
                config_path="table.name.format",
            )
        return TableId(name, schema=before[-1] if before else "")

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return catalog.shape(connection, table, _plain(table))

    def kind(self, connection: Connection, table: TableId) -> str:
        """Return what kind of relation it is."""
        rows = connection.execute(
            "SELECT relkind::text FROM pg_catalog.pg_class WHERE oid = %s::regclass",
            (_plain(table),),
        )
        return _KINDS.get(rows[0][0], "TABLE") if rows else "TABLE"

    def direct(self, connection: Connection, table: TableId) -> bool:
        """Return whether COPY takes it: a table without policies for rows."""
        rows = connection.execute(
            "SELECT relkind IN ('r', 'p') AND NOT pg_catalog.row_security_active(oid) "
            "FROM pg_catalog.pg_class WHERE oid = %s::regclass",
            (_plain(table),),
        )
        return bool(rows and rows[0][0])

    def transactional(self, connection: Connection, table: TableId) -> bool:
        """Everything is."""
        return True

    def unique_keys(self, connection: Connection, table: TableId) -> list[frozenset[str]]:
        """Return the columns of each unique index that an upsert can go by."""
        return [frozenset(names) for (names,) in connection.execute(_UNIQUE, (_plain(table),))]

    def create(self, table: TableId, columns: Sequence[NewColumn]) -> str:
        """Return the statement that makes a table."""
        return ddl.create(table, columns)

    def add(self, table: TableId, columns: Sequence[NewColumn]) -> list[str]:
        """Return the statements that add columns."""
        return ddl.add(table, columns)

    def retype(self, table: TableId, field: pa.Field) -> str:
        """Return the statement that gives a column another type. What an application calls a time
        may be longer than a day, and PostgreSQL's is not.
        """
        kind = "text" if semantic_type(field) == "time" else ddl.column_type(field)
        name = POSTGRESQL.quoted(field.name)
        return f"ALTER TABLE {table.sql(POSTGRESQL)} ALTER COLUMN {name} TYPE {kind}"

    def limit(self, column: Column) -> Limit:
        """Return which values a column can hold."""
        return ddl.limit(column)

    def rule_columns(
        self, connection: Connection, table: TableId, rule: BrokenRule
    ) -> tuple[str, ...]:
        """Return the columns of a constraint or a unique index."""
        return violations.rule_columns(connection, _plain(table), rule)

    def encode(self, columns: Sequence[Column], values: Sequence[pa.Array]) -> Text:
        """Return rows as COPY's text."""
        return lines(values, _STYLE)

    def evict(self, connection: Connection, task_key: str) -> None:
        """End the session that holds a task's advisory lock, and hold it."""
        number = int.from_bytes(bytes.fromhex(task_key)[:8], "big", signed=True)
        end = time.monotonic() + _HELD_WITHIN
        while not connection.execute("SELECT pg_catalog.pg_try_advisory_lock(%s)", (number,))[0][0]:
            connection.execute(_HOLDER, (number, number))
            if time.monotonic() > end:
                return  # another user's session: the ledger's row still keeps it from committing
            time.sleep(0.02)

    def ledger(self, connection: Connection, name: str) -> tuple[TableId, str]:
        """Return where the ledger is: in the first schema of the search path."""
        ((schema,),) = connection.execute("SELECT current_schema()")
        if schema is None:
            raise ConfigError(
                "jdbc.no_schema",
                "no schema of the search path exists",
                fix="Name one that exists: jdbc:postgresql://…?currentSchema=public.",
                config_path="connection.url",
            )
        table = TableId(name, schema=schema)
        return table, _LEDGER.format(table=table.sql(POSTGRESQL))


class PostgresqlSession:
    """See `writing.Session`. Keeps a temporary table for each layout, as long as the connection."""

    def __init__(self, connection: PostgresqlConnection) -> None:
        self._connection = connection
        self._tables: dict[Layout, str] = {}
        self._made = 0
        self._used: set[str] = set()
        self._repeating: set[TableId] = set()

    def begin(self) -> None:
        """Take note that temporary tables are empty."""
        self._used.clear()

    def write(self, verb: Verb, layout: Layout, texts: Sequence[Text]) -> None:
        """Write rows."""
        if verb is Verb.TRUNCATE:
            self._connection.execute(f"TRUNCATE {layout.table.sql(POSTGRESQL)}")
        elif verb is Verb.INSERT and layout.direct:
            self._copy(layout.table.sql(POSTGRESQL), layout, texts)
        else:
            staged = self._staged(layout, texts)
            if verb is Verb.UPSERT:
                self._upsert(layout, staged)
            elif verb is Verb.INSERT:
                self._connection.changed(_insert(layout, staged))
            else:
                self._connection.changed(_joined(verb, layout, staged, once=len(texts) == 1))

    def undone(self) -> None:
        """Forget the temporary tables that were made since: they are gone, too."""
        for layout, name in list(self._tables.items()):
            if self._connection.execute("SELECT to_regclass(%s)", (name,))[0][0] is None:
                del self._tables[layout]

    def finish(self) -> None:
        """Let deferred constraints speak now, so that COMMIT has no reason to fail."""
        self._connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def _staged(self, layout: Layout, texts: Sequence[Text]) -> str:
        name = self._tables.get(layout)
        if name is None:
            name = f"pg_temp.penstock_{self._made}"
            self._made += 1
            self._connection.execute(
                f"CREATE TEMPORARY TABLE {name} ON COMMIT DELETE ROWS AS "
                f"SELECT {_list(c.name for c in layout.columns)} "
                f"FROM {layout.table.sql(POSTGRESQL)} WITH NO DATA"
            )
            self._tables[layout] = name
        elif name in self._used:
            self._connection.execute(f"TRUNCATE {name}")
        self._used.add(name)
        self._copy(name, layout, texts)
        return name

    def _upsert(self, layout: Layout, staged: str) -> None:
        """Merge. That keys are there once is not checked before: mostly they are."""
        if layout.table in self._repeating:
            self._connection.changed(_upsert(layout, staged, last=True))
            return
        self._connection.execute("SAVEPOINT penstock")
        try:
            with telling(layout.table):
                self._connection.driver.execute(
                    composed.SQL(_upsert(layout, staged, last=False).replace("%%", "%"))
                )
        except ConnectorError as error:
            cause = error.__cause__
            if not isinstance(cause, psycopg.Error) or cause.sqlstate != _TWICE:
                raise
            self._repeating.add(layout.table)
            self._connection.execute("ROLLBACK TO SAVEPOINT penstock")
            self._connection.changed(_upsert(layout, staged, last=True))

    def _copy(self, into: str, layout: Layout, texts: Sequence[Text]) -> None:
        names = _list(column.name for column in layout.columns)
        statement = composed.SQL(f"COPY {into} ({names}) FROM STDIN".replace("%%", "%"))
        with telling(layout.table), self._connection.driver.cursor() as cursor:
            copying = cursor.copy(statement)
            with copying as copy:
                for text in texts:
                    view = memoryview(text)
                    for start in range(0, len(view), _PIECE):
                        copy.write(view[start : start + _PIECE])


def _is_identity(column: Column) -> bool:
    """Return whether a statement must say so to bring a number."""
    return column.auto and not column.serial


def _insert(layout: Layout, staged: str, chosen: str = "", order: str = "") -> str:
    names = _list(column.name for column in layout.columns)
    given = " OVERRIDING SYSTEM VALUE" if any(map(_is_identity, layout.columns)) else ""
    return (
        f"INSERT INTO {layout.table.sql(POSTGRESQL)} ({names}){given} "
        f"SELECT {chosen}{names} FROM {staged}{order}"
    )


def _upsert(layout: Layout, staged: str, *, last: bool) -> str:
    keys = _list(layout.key)
    chosen = f"DISTINCT ON ({keys}) " if last else ""
    order = f" ORDER BY {keys}, ctid DESC" if last else ""
    settable = [c.name for c in layout.columns if c.name not in layout.key and not _is_identity(c)]
    sets = ", ".join(f"{q} = EXCLUDED.{q}" for q in map(POSTGRESQL.quoted, settable))
    then = f"UPDATE SET {sets}" if sets else "NOTHING"
    return f"{_insert(layout, staged, chosen, order)} ON CONFLICT ({keys}) DO {then}"


def _joined(verb: Verb, layout: Layout, staged: str, *, once: bool) -> str:
    """Return the statement that changes the rows of a table that are in another."""
    table = layout.table.sql(POSTGRESQL)
    keys = [POSTGRESQL.quoted(name) for name in layout.key]
    same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    if verb is Verb.DELETE:
        return f"DELETE FROM {table} t USING {staged} s WHERE {same}"
    sets = ", ".join(f"{q} = s.{q}" for q in map(POSTGRESQL.quoted, layout.others))
    names = ", ".join(keys)
    last = f"(SELECT DISTINCT ON ({names}) * FROM {staged} ORDER BY {names}, ctid DESC)"
    return f"UPDATE {table} t SET {sets} FROM {staged if once else last} s WHERE {same}"


def _list(names: object) -> str:
    return ", ".join(map(POSTGRESQL.quoted, names))  # type: ignore[call-overload] # an iterable


def _plain(table: TableId) -> str:
    """Return a name as text for `to_regclass`: quoted, and percent signs as they are."""
    return table.sql(POSTGRESQL).replace("%%", "%")
