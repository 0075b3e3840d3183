"""Rows into MariaDB or MySQL: straight into the table, or through a temporary one."""

# Names in SQL are quoted by `Naming`, values are parameters or the wire's own text.
# ruff: noqa: S608

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from penstock_connector import ConfigError, ConnectorError
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.evolution import NewColumn
from penstock_connector.tables.fitting import Limit
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection, Login
from penstock_databases.encode import Style, lines
from penstock_databases.failing import BrokenRule
from penstock_databases.mysql import catalog, ddl, violations
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.mysql.loading import Loader
from penstock_databases.names import MYSQL
from penstock_databases.url import Target
from penstock_databases.writing import Layout, Session, Text

_STYLE: Final = Style(digits=True, wide=True)

_HELD_WITHIN: Final = 5.0
"""Seconds that a session that was ended has to let its task go."""

_UNIQUE: Final = (
    "SELECT index_name, column_name, sub_part FROM information_schema.statistics "
    "WHERE table_schema = %s AND table_name = %s AND non_unique = 0 "
    "ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index"
)
_KIND: Final = (
    "SELECT t.table_type, COALESCE(e.transactions, 'YES') FROM information_schema.tables t "
    "LEFT JOIN information_schema.engines e ON e.engine = t.engine "
    "WHERE t.table_schema = %s AND t.table_name = %s"
)
_LEDGER: Final = (
    "CREATE TABLE IF NOT EXISTS {table} ("
    "task_key CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, "
    "task_id VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, epoch BIGINT NOT NULL, txn_id BIGINT, "
    "txn_epoch BIGINT, token LONGBLOB, "
    "updated_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) "
    "ON UPDATE CURRENT_TIMESTAMP(6)) ENGINE=InnoDB"
)


class MysqlWriter:
    """See `writing.Writer`."""

    name = "mysql"
    naming = MYSQL
    locking = " FOR UPDATE"

    def connect(self, target: Target, login: Login) -> Connection:
        """Open a session with the server. Notes are off, so that every warning is one."""
        connection = MysqlConnection(target, login)
        connection.execute("SET SESSION sql_notes = 0")
        connection.execute("SET SESSION lock_wait_timeout = 30")  # of DDL; the default is a day
        return connection

    def session(self, connection: Connection) -> Session:
        """Return what writes over a connection."""
        assert isinstance(connection, MysqlConnection)  # noqa: S101 - `connect` made it
        return MysqlSession(connection)

    def table(self, parts: Sequence[str], target: Target) -> TableId:
        """Return the table that a name of one or two parts means."""
        *before, name = parts
        catalog_name = before[0] if before else target.database
        if len(before) > 1 or not catalog_name:
            raise ConfigError(
                "jdbc.table_name",
                f"{'.'.join(parts)[:200]!r} names no table here: MySQL has database.table",
                fix='Set `table.name.format` to ${table}, or to "${topic}" in quotes, '
                "and name the database in `connection.url`.",
                config_path="table.name.format",
            )
        return TableId(name, catalog=catalog_name)

    def shape(self, connection: Connection, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return catalog.shape(connection, table)

    def kind(self, connection: Connection, table: TableId) -> str:
        """Return whether it is a table or a view."""
        rows = connection.execute(_KIND, (table.catalog, table.name))
        return "VIEW" if rows and "VIEW" in rows[0][0] else "TABLE"

    def direct(self, connection: Connection, table: TableId) -> bool:
        """It is, for views, too."""
        return True

    def transactional(self, connection: Connection, table: TableId) -> bool:
        """Return whether the table's engine has transactions."""
        rows = connection.execute(_KIND, (table.catalog, table.name))
        return not rows or rows[0][1] != "NO"

    def unique_keys(self, connection: Connection, table: TableId) -> list[frozenset[str]]:
        """Return the columns of each unique index. One over a part of a text is no key."""
        found: dict[str, set[str]] = {}
        partial = set()
        for index, column, part in connection.execute(_UNIQUE, (table.catalog, table.name)):
            found.setdefault(index, set()).add(column)
            if part is not None:
                partial.add(index)
        return [frozenset(names) for index, names in found.items() if index not in partial]

    def create(self, table: TableId, columns: Sequence[NewColumn]) -> str:
        """Return the statement that makes a table."""
        return ddl.create(table, columns)

    def add(self, table: TableId, columns: Sequence[NewColumn]) -> list[str]:
        """Return the statements that add columns."""
        return ddl.add(table, columns)

    def retype(self, table: TableId, field: pa.Field) -> str:
        """Return the statement that gives a column another type."""
        column = ddl.column_type(field)
        return f"ALTER TABLE {table.sql(MYSQL)} MODIFY COLUMN {MYSQL.quoted(field.name)} {column}"

    def limit(self, column: Column) -> Limit:
        """Return which values a column can hold."""
        return ddl.limit(column)

    def rule_columns(
        self, connection: Connection, table: TableId, rule: BrokenRule
    ) -> tuple[str, ...]:
        """Return the columns of a unique key or a check."""
        return violations.rule_columns(connection, table, rule)

    def encode(self, columns: Sequence[Column], values: Sequence[pa.Array]) -> Text:
        """Return rows as LOAD DATA's text."""
        return lines(values, _STYLE)

    def evict(self, connection: Connection, task_key: str) -> None:
        """End the session that holds a task's named lock, and hold it."""
        name = f"penstock{task_key[:48]}"
        end = time.monotonic() + _HELD_WITHIN
        while connection.execute("SELECT GET_LOCK(%s, 0)", (name,))[0][0] != 1:
            ((holder,),) = connection.execute("SELECT IS_USED_LOCK(%s)", (name,))
            if holder is not None:
                with contextlib.suppress(ConnectorError):  # it may be gone by now
                    connection.execute("KILL CONNECTION %s", (int(holder),))
            if time.monotonic() > end:
                return  # another user's session: the ledger's row still keeps it from committing
            time.sleep(0.02)

    def ledger(self, connection: Connection, name: str) -> tuple[TableId, str]:
        """Return where the ledger is: in the database of the URL."""
        ((database,),) = connection.execute("SELECT DATABASE()")
        if not database:
            raise ConfigError(
                "jdbc.no_database",
                "the URL names no database",
                fix="Write jdbc:mysql://host:3306/database.",
                config_path="connection.url",
            )
        table = TableId(name, catalog=database)
        return table, _LEDGER.format(table=table.sql(MYSQL))


class MysqlSession:
    """See `writing.Session`. Temporary tables are made and dropped inside the transaction, which
    neither commits it nor is logged.
    """

    def __init__(self, connection: MysqlConnection) -> None:
        self._connection = connection
        self._loader = Loader(connection)

    def begin(self) -> None:
        """Nothing is kept over transactions."""

    def undone(self) -> None:
        """Nothing is kept over statements."""

    def finish(self) -> None:
        """Nothing is deferred."""

    def write(self, verb: Verb, layout: Layout, texts: Sequence[Text]) -> None:
        """Write rows."""
        if verb is Verb.TRUNCATE:
            # TRUNCATE itself would commit what was written before it
            self._connection.changed(f"DELETE FROM {layout.table.sql(MYSQL)}")
        elif verb is Verb.INSERT:
            self._loader.load(layout.table, layout.columns, texts)
        elif verb is Verb.UPDATE or (verb is Verb.UPSERT and not layout.alone):
            for text in texts:  # a key is in a text once; over several the last one wins
                self._through_another(verb, layout, [text])
        else:
            self._through_another(verb, layout, texts)

    def _through_another(self, verb: Verb, layout: Layout, texts: Sequence[Text]) -> None:
        staged = TableId("penstock_rows", catalog=layout.table.catalog)
        name = staged.sql(MYSQL)
        self._connection.execute(f"DROP TEMPORARY TABLE IF EXISTS {name}")
        self._connection.execute(
            f"CREATE TEMPORARY TABLE {name} ENGINE=InnoDB AS SELECT "
            f"{_list(c.name for c in layout.columns)} FROM {layout.table.sql(MYSQL)} WHERE FALSE"
        )
        self._loader.load(staged, layout.columns, texts)
        for statement in _merging(verb, layout, name):
            self._connection.changed(statement)
        self._connection.execute(f"DROP TEMPORARY TABLE {name}")


def _merging(verb: Verb, layout: Layout, staged: str) -> list[str]:
    """Return the statements that change a table by the rows of another."""
    table = layout.table.sql(MYSQL)
    names = _list(column.name for column in layout.columns)
    same = " AND ".join(f"t.{q} = s.{q}" for q in map(MYSQL.quoted, layout.key))
    sets = ", ".join(f"t.{q} = s.{q}" for q in map(MYSQL.quoted, layout.others))
    if verb is Verb.DELETE:
        return [f"DELETE t FROM {table} t JOIN {staged} s ON {same}"]
    update = [f"UPDATE {table} t JOIN {staged} s ON {same} SET {sets}"] if sets else []
    if verb is Verb.UPDATE:
        return update
    own = ", ".join(f"s.{MYSQL.quoted(column.name)}" for column in layout.columns)
    if layout.alone:
        first = MYSQL.quoted(layout.key[0])
        changes = ", ".join(f"{table}.{q} = s.{q}" for q in map(MYSQL.quoted, layout.others))
        insert = f"INSERT INTO {table} ({names}) SELECT {own} FROM {staged} s"
        return [
            f"{insert} ON DUPLICATE KEY UPDATE {changes or f'{table}.{first} = {table}.{first}'}"
        ]
    # another unique index: ON DUPLICATE KEY would change whatever row it met there
    missing = f"LEFT JOIN {table} t ON {same} WHERE t.{MYSQL.quoted(layout.key[0])} IS NULL"
    return [*update, f"INSERT INTO {table} ({names}) SELECT {own} FROM {staged} s {missing}"]


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(MYSQL.quoted, names))
