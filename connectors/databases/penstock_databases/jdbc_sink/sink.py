"""`jdbc-sink`: rows of datasets in tables of a database, exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import pyarrow as pa

from penstock_connector import (
    CommitMode,
    ConfigError,
    ConnectorError,
    PreparedTxn,
    RetriableError,
    SchemaError,
    Staging,
    TransactionalSink,
)
from penstock_databases.dialect import Connection, Login
from penstock_databases.jdbc_sink import evolve
from penstock_databases.jdbc_sink.config import JdbcSinkConfig, problems
from penstock_databases.jdbc_sink.keys import Places, places
from penstock_databases.jdbc_sink.ledger import Ledger
from penstock_databases.jdbc_sink.naming import cased, table_parts
from penstock_databases.jdbc_sink.owning import Owning
from penstock_databases.jdbc_sink.route import Piece, Route
from penstock_databases.jdbc_sink.staging import Budget, JdbcStaging
from penstock_databases.names import TableId
from penstock_databases.writers import reached_by

_WRITE_WITHIN: Final = 100.0
"""Seconds after which a transaction is not tried again: the host waits 120 s for Prepare."""


class JdbcSink(TransactionalSink[JdbcSinkConfig]):
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
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.SINK,)

    @classmethod
    def validate(cls, config: JdbcSinkConfig) -> list[ConnectorError]:
        """Return what is wrong with the configuration."""
        return list(problems(config))

    @classmethod
    def check(cls, config: JdbcSinkConfig) -> None:
        """Try whether the database lets us in."""
        target, writer = reached_by(config.connection_url)
        writer.connect(target, Login(config.connection_user, config.connection_password)).close()

    def init(self, config: JdbcSinkConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self._target, self._writer = reached_by(config.connection_url)
        self._routes: dict[tuple[str, bytes], Route] = {}
        self._budget = Budget(config.staging_bytes)
        self._owning: Owning | None = None
        self._open: int | None = None
        self._done: int | None = None
        self._token = b""

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older owners, and find out how far the task is."""
        self._ledger = Ledger(self._writer, task_id, epoch)
        self._owning = Owning(self.config, self._target, self._writer, self._ledger, self.stopping)
        self._owning.connection()

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction in the database: the token is stored with the rows."""
        last = self._owned.last
        return (last.txn_id, last.epoch, last.token) if last else None

    def recover(self, last: PreparedTxn) -> None:
        """Nothing is left to do: the database knows what is committed."""

    # ── schemas ──────────────────────────────────────────────────────────────────────────────────

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a table; None when it is not there."""
        parts = table_parts(self.config, dataset, self._writer.naming)
        table = self._writer.table(parts, self._target)
        shape = self._writer.shape(self._idle(), table)
        return pa.schema([column.field for column in shape.columns]) if shape else None

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Make the table, or add the columns that it lacks."""
        naming = self._writer.naming
        wanted = places(
            self.config, schema, key_columns, lambda name: cased(self.config, name, naming)
        )
        try:
            table = self._writer.table(table_parts(self.config, dataset, naming), self._target)
            told = self._fitted(table, wanted)
            self._routes[dataset, _fingerprint(schema)] = self._route(dataset, table, wanted)
        except ConfigError as error:
            if error.code != "sql.bad_name":
                raise
            # a name that came with the rows: the policy for schemas decides, not the connector
            raise SchemaError(error.code, error.message, fix=error.fix, dataset=dataset) from error
        return told or None

    def _fitted(self, table: TableId, wanted: Places) -> list[str]:
        """Make and add what is missing; others may do the same at this moment."""
        for last in (False, True):
            connection = self._idle()
            shape = self._writer.shape(connection, table)
            change = evolve.change(self.config, self._writer, table, shape, wanted)
            try:
                for statement in change.statements:
                    connection.execute(statement)
            except ConnectorError:
                if last:
                    raise
                self._lose()  # somebody may have been faster: look again, once
            else:
                return change.told
        return []

    def _route(self, dataset: str, table: TableId, wanted: Places) -> Route:
        connection = self._idle()
        shape = self._writer.shape(connection, table)
        if shape is None:
            raise RetriableError("jdbc.table_gone", f"{table} was dropped just now")
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
        evolve.check(self.config, shape, wanted, unique)
        direct = self._writer.direct(connection, table)
        return Route(self.config, self._writer, dataset, shape, wanted, unique, direct=direct)

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for rows, in memory or a file without a name."""
        del txn_id, slot, attempt
        return JdbcStaging(self._routes[dataset, _fingerprint(schema)], self._budget)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Write the rows and how far the task is in a transaction that is not committed yet."""
        del epoch  # that of `connect`: the host opens a task anew for another one
        ours = [staging for staging in staged if isinstance(staging, JdbcStaging)]
        groups = list(_grouped((p for s in ours for p in s.pieces()), self.config.batch_size))
        end = time.monotonic() + _WRITE_WITHIN
        try:
            for attempt in range(self.config.max_retries + 1):
                try:
                    self._write(groups, txn_id, token)
                    break
                except RetriableError:
                    self._lose()
                    late = time.monotonic() + self.config.retry_backoff_ms > end
                    if late or attempt == self.config.max_retries or self.stopping.is_set():
                        raise
                    self.stopping.wait(self.config.retry_backoff_ms)
        except BaseException:
            self._lose()
            raise
        finally:
            groups.clear()
            for staging in ours:
                staging.discard()
        self._open = txn_id
        self._token = token
        return b""

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
        del epoch, state
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
        if self._owning is not None:
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
    def _owned(self) -> Owning:
        assert self._owning is not None  # noqa: S101 - `connect` came before
        return self._owning

    def _lose(self) -> None:
        self._open = None
        self._owned.lose()


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


def _fingerprint(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize())
