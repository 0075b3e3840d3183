"""`mysql-cdc`: the task that gives a server's changes."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock_connector import (
    Batch,
    ConfigError,
    Dataset,
    OffsetLostError,
    Partition,
    RetriableError,
    Source,
)
from penstock_databases.cdc.chunks import Piece
from penstock_databases.cdc.envelopes import Envelopes
from penstock_databases.cdc.progress import Key, Work
from penstock_databases.cdc.signal_channels import SignalChannels
from penstock_databases.cdc.signal_table import insert_signal, signal_table
from penstock_databases.cdc.signals import Signal, new_signals, obey_signal
from penstock_databases.cdc.snapshot import Snapshot
from penstock_databases.cdc.transactions import TransactionCounter
from penstock_databases.cdc.waiting import Bell
from penstock_databases.dialects import DIALECTS
from penstock_databases.listing import with_columns
from penstock_databases.mysql_cdc.chunks import TableChunk, is_retriable
from penstock_databases.mysql_cdc.config import MysqlCdcConfig, table_filter
from penstock_databases.mysql_cdc.following import Follower, Halt
from penstock_databases.mysql_cdc.gathering import (
    Changes,
    Gathering,
    Table,
    schema_change_batch,
    snapshot_batch,
    truncate_batch,
)
from penstock_databases.mysql_cdc.offsets import Offset, from_fields, to_fields
from penstock_databases.mysql_cdc.origins import ORIGIN_TYPE
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.progress import WINDOWS_MOST
from penstock_databases.mysql_cdc.server import Origin
from penstock_databases.mysql_cdc.statements import Means, Statement, TableName

_LOG = logging.getLogger(__name__)

_LONGEST_WAIT: Final = 5.0
"""Seconds of one wait at most: a server that fell silent is found by looking."""

_CHUNK_WAIT: Final = 0.2
"""The same while tables are read: a chunk that failed is begun again by looking."""


_NAMES_MOST: Final = 10
"""Names of tables in a line of the log."""


class MysqlCdc(Source[MysqlCdcConfig]):
    """Changes of MariaDB's and MySQL's tables.

    Reads the rows that tables have, in chunks and without locks, while it follows the binary log:
    every insert, update, delete and truncate, in order, exactly once.
    """

    name = "mysql-cdc"
    aliases = (
        "io.debezium.connector.mysql.MySqlConnector",
        "io.debezium.connector.mariadb.MariaDbConnector",
    )
    title = "Changes of MariaDB and MySQL"
    bounded: ClassVar[bool] = True  # asked for `finished`, which says no but in `initial_only`

    @classmethod
    def check(cls, config: MysqlCdcConfig) -> None:
        """Connect, and refuse a server whose log does not tell all."""
        origin = Origin(config)
        try:
            origin.learn()
            origin.server.place()
        finally:
            origin.link.close()

    @classmethod
    def plan(
        cls, config: MysqlCdcConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return one partition: a log has one order."""
        host, port = config.target.hosts[0]
        return [Partition({"server": config.topic_prefix or f"{host}:{port}"})]

    @classmethod
    def list_datasets(cls, config: MysqlCdcConfig) -> Iterator[Dataset]:
        """Yield the tables of all databases."""
        dialect, chosen = DIALECTS["mysql"], config.chosen
        connection = dialect.connect(config.target, config.login)
        try:
            datasets = {
                table: Dataset(
                    f"{table.catalog}.{table.name}",
                    config.dataset(table.catalog, table.name),
                    selected=chosen.includes(table.catalog, table.name),
                )
                for table in dialect.tables(connection, ("TABLE",), everywhere=True)
            }
            found = with_columns(
                datasets, dialect, connection, lambda shape: [c.field for c in shape.columns]
            )
            if config.wraps:
                found = map(envelopes_of(config, mariadb=False).dataset, found)
            yield from found
        finally:
            connection.close()

    @classmethod
    def send_signal(cls, config: MysqlCdcConfig, signal: Mapping[str, Any]) -> str:
        """Write a signal as a row of the table of signals."""
        table, dialect = signal_table(config, "shop.signals"), DIALECTS["mysql"]
        connection = dialect.connect(config.target, config.login)
        try:
            insert_signal(connection, dialect.naming, table, signal)
        finally:
            connection.close()
        return table

    def init(self, config: MysqlCdcConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self._origin = Origin(config)
        self._adjustments = config.adjustments
        self._gathering = self._new_gathering()
        self._envelopes: Envelopes | None = None
        self._ready: deque[Batch] = deque()
        self._bell = Bell()
        self._awaiting = False
        self._limited = False
        self._rows_next = False
        self._signals: list[Signal | ConfigError] = []
        self._channels = SignalChannels(config)
        self._moved_at = time.monotonic()
        self._told: Place | None = None
        self._follower: Follower | None = None
        self._snapshot: Snapshot[TableName, Place] | None = None
        self._target: Place | None = None

    def _new_gathering(self) -> Gathering:
        return Gathering(
            before=self.config.include_before,
            counter=TransactionCounter() if self.config.counts_transactions else None,
            boundaries=self.config.transactions_dataset,
            uncounted=self._adjustments.skipped_ops,
            counts=self._is_shown,
        )

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on where the offset says, or begin."""
        fields = partitions[0].offset
        offset = from_fields(fields) if fields else None
        self._origin.identity = offset.server if offset else ""
        self._origin.learn()
        self._origin.tell_signals()
        if self.until_caught_up:
            self._target = self._origin.server.place()
        if offset is None:
            self._resume(self._origin.beginning())
            self._announce(await_commit=True)
            return
        if self.config.reads_at_every_start and not offset.progress.work:
            self._origin.add_tables(offset.progress, self._origin.chosen(), keep=True)
        self._resume(offset)

    def _resume(self, offset: Offset) -> None:
        origin = self._origin
        self._tables = origin.tables
        self._lists = self.config.lists if offset.lists is None else offset.lists
        if self._chooses:
            self._tables.choose(table_filter(self._lists))
        if self.config.wraps:
            self._envelopes = envelopes_of(self.config, mariadb=origin.server.mariadb)
        if self._gathering.counter is not None:
            self._gathering.counter = TransactionCounter(*offset.counted)
        self._progress = offset.progress
        self._progress.resumed()
        statements = self.config.snapshot_statements
        self._progress.keep_all([n for n in self._progress.work if ".".join(n) in statements])
        self._follower = Follower(
            offset,
            lambda place, second: origin.dial(place, second, self._elsewhere),
            self._tables,
            self._gathering,
            mariadb=origin.server.mariadb,
        )
        self._snapshot = Snapshot(
            self._progress,
            origin.link.open,
            parallelism=self.config.snapshot_parallelism,
            windows_most=WINDOWS_MOST,
            retry=self.config.retry,
            retriable=is_retriable,
        )

    def _chunk(self, work: Work[TableName], after: Key | None) -> TableChunk:
        follower, _ = self._task()
        return TableChunk(
            work,
            after,
            self.config.snapshot_fetch_size,
            self.wake,
            self.config.snapshot_statements.get(".".join(work.table)),
            floor=follower.track.floor,
            exact=self._origin.exact,
        )

    def _elsewhere(self, now: Place) -> None:
        """Go on at another server: what was known by places is in doubt up to now."""
        follower, _ = self._task()
        self._progress.inexact(now)
        follower.track.elsewhere()
        if self._target is not None:  # its number is that of the other server
            self._target = now
        follower.prepared.clear()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def read_batch(self) -> Batch | None:
        """Return the next rows: of the log, or of a chunk."""
        if not self._ready and not self._awaiting:
            try:
                self._read()
            except OffsetLostError:
                if not self.config.starts_anew:
                    raise
                self._start_anew()
        if not self._ready:
            return None
        batch = self._adjustments.apply(self._ready.popleft())
        return self._envelopes.wrap(batch, time.time_ns()) if self._envelopes else batch

    def _read(self) -> None:
        follower, snapshot = self._task()
        if not follower.connected:
            self._connect(follower)
        if self._chooses and not follower.track.midway:
            self._choose()
        self._limited = False
        if self._channels.is_due() and not (self._chooses or follower.track.open):
            self._read_channels()
        if self._progress.running:
            self._close_windows(follower)
            if not (
                follower.track.open or self._chooses
            ):  # else where the chunk must be behind is not known
                snapshot.start(self._chunk)
            if self._rows_next and self._give_piece(snapshot):
                self._rows_next = False
                return
            self._rows_next = True
        halt = self._follow(follower, snapshot)
        if not self._ready and self._progress.running and self._give_piece(snapshot):
            return
        if not self._ready:
            self._limited = halt == Halt.LIMIT
            self._heartbeat(follower)

    @property
    def _chooses(self) -> bool:
        """Whether other tables are to be meant soon: the offset is of other lists than ours."""
        return self._lists != self.config.lists

    def _choose(self) -> None:
        """Mean the tables that the configuration names now, which were others before. Not in the
        middle of a transaction: what was given of it is known by the number of its rows.
        """
        origin = self._origin
        was = table_filter(self._lists)
        self._tables.choose(self.config.chosen)
        self._lists = self.config.lists
        begun = {one.table for one in self._progress.windows} | self._progress.work.keys()
        left_out = [name for name in begun if not self._tables.meant(*name)]
        for name in left_out:
            self._progress.forget(name)
        added = [
            name
            for name in origin.chosen()
            if not was.includes(*name) and name not in self._progress.work
        ]
        if self.config.reads_tables:
            origin.add_tables(self._progress, added)
        _LOG.info(
            "the lists of tables were changed; not read any more: %s; new, %s: %s",
            _names(left_out),
            "read from now on" if self.config.reads_tables else "followed in the log from now on",
            _names(added),
        )

    def _task(self) -> tuple[Follower, Snapshot[TableName, Place]]:
        assert self._follower is not None  # noqa: S101 - connect came before
        assert self._snapshot is not None  # noqa: S101 - as above
        return self._follower, self._snapshot

    def _connect(self, follower: Follower) -> None:
        follower.connect(self.config.retry, self.stopping)

    def _follow(self, follower: Follower, snapshot: Snapshot[TableName, Place]) -> Halt | Statement:
        """Read of the log, and give what is complete."""
        try:
            limit = snapshot.limit(follower.track.number)
            halt = follower.read(limit, to_commit=snapshot.waits)
        except RetriableError as error:
            if self.stopping.is_set():
                raise
            _LOG.warning("the log broke off and is asked for again: %s", error)
            follower.close()
            return Halt.FULL
        if self._gathering.holds and (halt is not Halt.EMPTY or not follower.track.open):
            self._flush()
        if isinstance(halt, Statement):
            self._obey(halt, follower)
        self._close_windows(follower)
        return halt

    def _close_windows(self, follower: Follower) -> None:
        """Close windows that the log has passed; not while changes from before it are gathered (the
        log may rest within a later transaction): they are still to be compared with the windows.
        """
        if not self._gathering.holds:
            self._progress.passed(follower.track.number)

    def _flush(self) -> None:
        """Make batches of what is gathered; the last has the offset (invariant 1)."""
        batches = self._gathering.take(self._settle)
        self._obey_signals()  # of the rows that come after these
        self._ready += [batch for batch in batches if self._is_given(batch)]
        self._announce()

    def _settle(self, table: Table, changes: Changes) -> Changes:
        if f"{table.database}.{table.name}" == self.config.signals_table:
            self._signals += new_signals(changes.rows(table))  # before any of them is left out
        if self._chooses and not self.config.chosen.includes(table.database, table.name):
            return changes.kept(np.zeros(len(changes.ops), np.bool_))
        return self._progress.settle(table, changes)

    def _announce(self, *, await_commit: bool = False) -> None:
        """Let the offset come with what is ready, or alone."""
        follower, _ = self._task()
        rows, txn = follower.track.done
        self._told = follower.track.place
        self._moved_at = time.monotonic()
        offset = Offset(
            self._told, self._origin.identity, rows, txn, follower.prepared,
            self._progress, self._lists,
        )  # fmt: skip
        if rows and self._gathering.counter is not None:
            offset.counted = self._gathering.counter.id, self._gathering.counter.counts
        if not self._ready or self._ready[-1].offset is not None:
            self._ready.append(Batch())
        self._ready[-1].offset = to_fields(offset)
        if await_commit:  # the start of the log is durable before a row is read (invariant 3)
            self._ready[-1].await_commit = self._awaiting = True

    def _heartbeat(self, follower: Follower) -> None:
        """Move the offset while others' tables change, so that it is not purged."""
        late = time.monotonic() - self._moved_at >= self.config.heartbeat_interval_ms
        if late and not follower.track.open and follower.track.place != self._told:
            self._announce()

    def _start_anew(self) -> None:
        """Read all tables again: the log that they could follow is gone."""
        _LOG.warning("the log was purged before it was read: all tables are read again")
        self._end()
        self._gathering = self._new_gathering()
        self._origin.identity = ""
        self._origin.learn()
        if self.until_caught_up:
            self._target = self._origin.server.place()
        beginning = self._origin.beginning(again=True)
        beginning.progress.signals = self._progress.signals
        self._resume(beginning)
        self._announce(await_commit=True)

    # ── the snapshot ─────────────────────────────────────────────────────────────────────────────

    def _give_piece(self, snapshot: Snapshot[TableName, Place]) -> bool:
        """Give rows of a chunk, when there are any."""
        found = snapshot.next()
        if found is None:
            return False
        chunk, piece = found
        if self._gathering.holds:
            self._flush()
        if self._progress.work.get(chunk.table) is not chunk.work:
            return True  # a signal in the rows before it: the table is read again
        if piece is None:
            self._progress.forget(chunk.table)
            return True
        table, rows = self._tables.of_shape(piece.shape), piece.rows
        marks = self._marks(piece)
        self._progress.given(piece.window, done=piece.done)
        if rows.num_rows:
            batch = snapshot_batch(table, rows, piece.stamp, piece.window.place, marks)
            self._ready.append(batch)
        self._announce()
        return True

    def _marks(self, piece: Piece[TableName, Place]) -> pa.Array:
        """Return which rows are the first and the last; only envelopes tell it."""
        count = piece.rows.num_rows
        if not self.config.wraps:
            return pa.nulls(count, pa.string())
        return self._progress.marks(
            piece.window, count, done=piece.done, follow=self._origin.has_rows
        )

    # ── statements and signals ───────────────────────────────────────────────────────────────────

    def _obey(self, statement: Statement, follower: Follower) -> None:
        """Do what a statement in the log means for rows."""
        if statement.means == Means.XA_COMMIT and self.config.reads_tables:
            _LOG.warning("rows were prepared (XA) before the log was read: tables are read again")
            left = [name for name in self._origin.chosen() if not self._progress.reads_all(name)]
            self._origin.add_tables(self._progress, left, keep=True)
        for name in statement.tables:
            if not self._tables.meant(*name):
                continue
            if statement.means == Means.TRUNCATE:
                self._truncated(name, statement, follower)
            if self.config.include_schema_changes:
                dataset = self.config.topic_prefix or "schema_changes"
                self._ready.append(
                    schema_change_batch(dataset, name, statement.text, statement.stamp)
                )
        for old, new in statement.renamed:
            if self._tables.meant(*old) != self._tables.meant(*new):
                _LOG.warning(
                    "%s is %s now; only one of these names is meant by the lists: rows "
                    "of its time under the other name are missing",
                    ".".join(old),
                    ".".join(new),
                )
            work = self._progress.forget(old)
            if work is not None and self._tables.meant(*new):
                self._origin.add_tables(
                    self._progress, [new], anew=True, incremental=work.incremental
                )
        self._announce()

    def _truncated(self, name: TableName, statement: Statement, follower: Follower) -> None:
        """Give a truncate. What was read after it must be read again."""
        ahead = any(
            one.table == name and one.place.number >= follower.track.number
            for one in self._progress.windows
        )
        work = self._progress.forget(name)
        if work is not None or ahead:
            was = work or Work(name)
            self._origin.add_tables(
                self._progress,
                [name],
                condition=was.condition,
                anew=work is not None,
                incremental=was.incremental,
            )
        if work is not None and not work.begun:
            return  # nothing of it was given
        table = self._tables.latest(*name)
        if table is not None:
            origin = follower.statement_origin
            self._ready.append(truncate_batch(table, statement.stamp, origin))

    def _is_given(self, batch: Batch) -> bool:
        """Return whether changes are for others, too: the table of signals may not be meant."""
        signals = self.config.signals_table
        database, _, name = signals.partition(".")
        if not signals or batch.dataset != self.config.dataset(database, name):
            return True
        return self._tables.meant(database, name)

    def _is_shown(self, table: Table) -> bool:
        """Return whether rows of a table are for others, too, as `_is_given` does of a batch."""
        signals = f"{table.database}.{table.name}" == self.config.signals_table
        return not signals or self._tables.meant(table.database, table.name)

    def _obey_signals(self) -> None:
        signals, self._signals = self._signals, []
        for signal in signals:
            if isinstance(signal, ConfigError):
                _LOG.warning("%s", signal)
                continue
            tables = {one: ".".join(one) for one in (*self._origin.chosen(), *self._progress.work)}
            done = obey_signal(signal, self._progress, tables, self._read_again)
            _LOG.info("signal: %s", done)

    def _read_channels(self) -> None:
        """Obey signals that come beside the table of signals, between two transactions."""
        if self._gathering.holds:
            self._flush()
        self._signals, moved = self._channels.poll(self._progress.signals)
        self._obey_signals()
        if moved:
            self._announce()

    def _read_again(self, table: TableName, condition: str) -> None:
        self._origin.add_tables(
            self._progress, [table], keep=True, condition=condition, incremental=True
        )

    # ── the task ─────────────────────────────────────────────────────────────────────────────────

    def wait(self, timeout: float) -> None:
        """Block until the server says something, or a chunk has rows."""
        if self._snapshot is not None and self._snapshot.active:
            timeout = min(timeout, _CHUNK_WAIT)
        timeout = min(timeout, self._channels.left())
        reads = self._follower is not None and self._follower.connected and not self._limited
        if not self.stopping.is_set():
            others = [self._follower] if reads and self._follower else []
            self._bell.wait(min(timeout, _LONGEST_WAIT), *others)

    def wake(self) -> None:
        """End a wait."""
        self._bell.ring()

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Go on when the start is durable."""
        if offsets:
            self._awaiting = False

    def finished(self) -> bool:
        """Return whether only the snapshot was wanted, and it is complete."""
        only = self.config.only_snapshot
        left = self._progress.running or self._ready or self._awaiting or self._chooses
        return only and not left

    def caught_up(self) -> bool:
        """Return whether the tables are read, and the log as far as it went at the beginning."""
        follower, _ = self._task()
        left = self._progress.running or self._ready or self._awaiting or self._chooses
        if left or self._gathering.holds or follower.track.open or self._target is None:
            return False
        return follower.track.number >= self._target.number

    def close(self) -> None:
        """Let go of everything."""
        self._end()
        self._channels.close()
        self._origin.link.close()
        self._bell.close()

    def _end(self) -> None:
        if self._follower is not None:
            self._follower.close()
        if self._snapshot is not None:
            self._snapshot.close()


def envelopes_of(config: MysqlCdcConfig, *, mariadb: bool) -> Envelopes:
    """Return what wraps the rows of a server."""
    connector = "mariadb" if mariadb else "mysql"
    return config.envelopes(connector, ORIGIN_TYPE)


def _names(tables: Sequence[TableName]) -> str:
    """Return names of tables for people; not of all where they are many."""
    names = [".".join(name) for name in tables[:_NAMES_MOST]]
    more = len(tables) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "") if names else "none"
