"""`jdbc-sink`: rows of datasets in tables of a database, exactly once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock_connector import (
    ConfigError,
    ConnectorError,
    DataError,
    FailedRowsError,
    PreparedTxn,
    RetriableError,
    SchemaError,
    Staging,
)
from penstock_connector.connection import Retry
from penstock_connector.staging import Spill
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.evolution import Ddl
from penstock_connector.tables.mapping import ColumnMapping
from penstock_connector.tables.names import TableId
from penstock_connector.tables.sink import TableSink
from penstock_databases.dialect import Connection, Login
from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.jdbc_sink.failed_rows import (
    FailedRow,
    find_failed_rows,
    find_first_failed,
)
from penstock_databases.jdbc_sink.ledger import Ledger
from penstock_databases.jdbc_sink.route import JdbcRoute, JdbcStaging, Piece
from penstock_databases.jdbc_sink.session import TaskSession
from penstock_databases.writers import reached_by

_log = logging.getLogger(__name__)

_WRITE_WITHIN_S: Final = 100.0
"""Seconds after which a transaction is not tried again: the host waits 120 s for Prepare."""


class JdbcSink(TableSink[JdbcSinkConfig, JdbcRoute]):
    """Tables of MariaDB, MySQL, PostgreSQL or SQLite.

    Inserts, upserts, updates and deletes; makes tables and adds columns. Exactly once: a row in the
    table `penstock_commits` tells how far a task is, and changes in the same transaction.
    """

    name = "jdbc-sink"
    aliases = (
        "io.confluent.connect.jdbc.JdbcSinkConnector",
        "JdbcSinkConnector",
        "io.aiven.connect.jdbc.JdbcSinkConnector",
    )
    title = "Tables of a database"

    @classmethod
    def check(cls, config: JdbcSinkConfig) -> None:
        """Try whether the database lets us in."""
        target, writer = reached_by(config.connection_url)
        writer.connect(target, Login(config.connection_user, config.connection_password)).close()

    def init(self, config: JdbcSinkConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self._target, self._writer = reached_by(config.connection_url)
        # a file of SQLite has one writer: dead letters in it would wait for the rows' commit
        self.reports_failed_rows = self._writer.name != "sqlite"
        self._spill = Spill(config.staging_bytes, "jdbc.staging_full", "jdbc.staging_failed")
        self._session: TaskSession | None = None
        self._open: int | None = None
        self._done: int | None = None
        self._token = b""

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older owners, and find out how far the task is."""
        self._ledger = Ledger(self._writer, task_id, epoch)
        self._session = TaskSession(
            self.config, self._target, self._writer, self._ledger, self.stopping
        )
        self._session.connection()

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction in the database: the token is stored with the rows."""
        last = self._owned.last
        return (last.txn_id, last.epoch, last.token) if last else None

    def recover(self, last: PreparedTxn) -> None:
        """Nothing is left to do: the database knows what is committed."""

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    @property
    def ddl(self) -> Ddl:
        """The statements of the database."""
        return self._writer

    def table(self, dataset: str) -> TableId:
        """Return the table of a dataset."""
        parts = self.config.table_parts(dataset, self._writer.naming)
        return self._writer.table(parts, self._target)

    def cased(self, name: str) -> str:
        """Return the name of a field's column."""
        return self.config.cased(name, self._writer.naming)

    def shape(self, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return self._writer.shape(self._idle(), table)

    def execute_ddl(self, statement: str) -> None:
        """Run a statement."""
        self._idle().execute(statement)

    def looks_again(self, error: ConnectorError) -> bool:
        """Look in a new session."""
        self._lose()
        return True

    def route(self, dataset: str, shape: Shape, mapping: ColumnMapping) -> JdbcRoute:
        """Return the way of rows into a table that can be written to."""
        connection, table = self._idle(), shape.table
        kind = self._writer.kind(connection, table)
        if kind not in {name.upper() for name in self.config.table_types}:
            raise SchemaError(
                "jdbc.table_type",
                f"{table} is a {kind.lower()}",
                fix=f"Add {kind} to `table.types`, or name a table.",
                config_path="table.types",
            )
        if not self._writer.transactional(connection, table):
            raise SchemaError(
                "jdbc.not_transactional",
                f"the engine of {table} has no transactions: rows could be written twice",
                fix="Change it: ALTER TABLE … ENGINE=InnoDB.",
            )
        unique = self._writer.unique_keys(connection, table)
        key = frozenset(mapped.field.name for mapped in mapping.key)
        if self.config.verb is Verb.UPSERT and key not in unique:
            raise SchemaError(
                "jdbc.no_unique_key",
                f"{table} has no unique index over exactly {', '.join(sorted(key))}: "
                "an upsert could not find rows",
                fix="Make one, or correct `pk.fields`.",
                config_path="pk.fields",
            )
        direct = self._writer.direct(connection, table)
        return JdbcRoute(self.config, self._writer, dataset, shape, mapping, unique, direct=direct)

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Make the table, or add the columns that it lacks."""
        try:
            return super().apply_schema(dataset, schema, key_columns)
        except ConfigError as error:
            if error.code != "sql.bad_name":
                raise
            # a name that came with the rows: the policy for schemas decides, not the connector
            raise SchemaError(error.code, error.message, fix=error.fix, dataset=dataset) from error

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for rows, in memory or a file without a name."""
        keeps_rows = self._finds_failed_rows
        return JdbcStaging(self.routed(dataset, schema), self._spill, keeps_rows=keeps_rows)

    @property
    def _finds_failed_rows(self) -> bool:
        return self.tolerates_failed_rows and self.reports_failed_rows

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Write the rows and how far the task is in a transaction that is not committed yet."""
        # the epoch is that of `connect`: the host opens a task anew for another one
        ours = [staging for staging in staged if isinstance(staging, JdbcStaging)]
        groups = list(_grouped((p for s in ours for p in s.parts()), self.config.batch_size))
        retry = Retry(
            self.config.max_retries + 1, self.config.retry_backoff_ms, within_s=_WRITE_WITHIN_S
        )
        try:
            retry.call(lambda: self._write(groups, txn_id, token), self.stopping.wait, self._lose)
        except DataError as error:
            self._lose()
            if self._finds_failed_rows:
                groups.clear()
                if failed := self._find_failed(ours):
                    raise FailedRowsError(failed) from error
            named = self._name_first(groups)
            groups.clear()
            _discard(ours)
            if named is not None:
                raise named from error
            raise
        except BaseException:
            self._lose()
            groups.clear()
            _discard(ours)
            raise
        groups.clear()
        _discard(ours)
        self._open = txn_id
        self._token = token
        return b""

    def _find_failed(self, stagings: Sequence[JdbcStaging]) -> list[FailedRow]:
        """Return the rows that fail; none where they cannot be found."""
        try:
            session = self._owned.session()
            return find_failed_rows(self._idle(), session, stagings, self._writer)
        except Exception as failure:  # noqa: BLE001 - the error that is there is the one to tell
            _log.warning("the rows that failed could not be found: %s", failure)
            return []
        finally:
            self._lose()

    def _name_first(self, groups: Sequence[Sequence[Piece]]) -> DataError | None:
        """Return the error of the first row that fails; None: no row fails alone. A file of SQLite
        says itself what is wrong.
        """
        if not groups or not self.reports_failed_rows:
            return None
        try:
            return find_first_failed(self._idle(), self._owned.session(), groups, self._writer)
        except Exception as failure:  # noqa: BLE001 - the error that is there is the one to tell
            _log.warning("no row that failed could be found to be named: %s", failure)
            return None
        finally:
            self._lose()

    def _write(self, groups: Sequence[Sequence[Piece]], txn_id: int, token: bytes) -> None:
        connection = self._idle()
        session = self._owned.session()
        connection.begin()
        self._ledger.lock(connection)
        session.begin()
        for group in groups:
            first = group[0]
            session.write(first.verb, first.layout, [piece.text for piece in group])
        session.finish()
        self._ledger.store(connection, txn_id, token)

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Make the rows visible; nothing is left to do when they are."""
        if self._open == txn_id:
            self._commit()
        elif self._done != txn_id:
            raise RetriableError("jdbc.txn_lost", f"transaction {txn_id} was lost with its session")

    def _commit(self) -> None:
        """Commit what is open. When the answer is lost, the ledger knows what became of it."""
        txn_id, self._open = self._open, None
        owned = self._owned
        try:
            owned.connection().commit()
        except RetriableError:
            owned.lose()
            owned.connection()
            last = owned.last
            if last is None or last.txn_id != txn_id or last.token != self._token:
                raise
        except BaseException:
            self._lose()
            raise
        self._done = txn_id

    def close(self) -> None:
        """Undo what is open, and end the session."""
        if self._session is not None:
            self._lose()

    # ── the session ──────────────────────────────────────────────────────────────────────────────

    def _idle(self) -> Connection:
        """Return the connection with no transaction open.

        One that was prepared is committed early: in this mode the database is the authority for
        what is written, the host does nothing between the two, and DDL would commit it anyway.
        """
        if self._open is not None:
            self._commit()
        return self._owned.connection()

    @property
    def _owned(self) -> TaskSession:
        assert self._session is not None  # noqa: S101 - `connect` came before
        return self._session

    def _lose(self) -> None:
        self._open = None
        self._owned.lose()


def _discard(stagings: Sequence[JdbcStaging]) -> None:
    for staging in stagings:
        staging.discard()


def _grouped(pieces: Iterator[Piece], most: int) -> Iterator[list[Piece]]:
    """Yield pieces that one statement can do, in order."""
    group: list[Piece] = []
    rows = 0
    for piece in pieces:
        same = group and group[0].verb is piece.verb and group[0].layout == piece.layout
        if group and (not same or 0 < most < rows + piece.rows):
            yield group
            group, rows = [], 0
        group.append(piece)
        rows += piece.rows
    if group:
        yield group
