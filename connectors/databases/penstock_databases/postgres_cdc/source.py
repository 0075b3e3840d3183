"""`postgres-cdc`: the task that reads tables and the log in turns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import pyarrow as pa

from penstock_connector import ApplyAction, Batch, Dataset, Partition, RetriableError, Source
from penstock_databases.cdc.chunks import Piece
from penstock_databases.cdc.envelopes import Envelopes
from penstock_databases.cdc.progress import Key, Work
from penstock_databases.cdc.signal_channels import SignalChannels
from penstock_databases.cdc.signal_table import insert_signal, signal_table
from penstock_databases.cdc.signals import new_signals
from penstock_databases.cdc.snapshot import Snapshot
from penstock_databases.cdc.transactions import boundary_batch
from penstock_databases.cdc.waiting import Bell, Every
from penstock_databases.dialects import DIALECTS
from penstock_databases.listing import with_columns
from penstock_databases.postgres_cdc import pgoutput
from penstock_databases.postgres_cdc.changes import Changes, Limits
from penstock_databases.postgres_cdc.chunks import TableChunk, moment
from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.offsets import lsn_of, to_offset
from penstock_databases.postgres_cdc.origins import ORIGIN_TYPE
from penstock_databases.postgres_cdc.progress import Moment
from penstock_databases.postgres_cdc.rows import RowShape
from penstock_databases.postgres_cdc.shapes import Naming, logged_fields
from penstock_databases.postgres_cdc.slot import log_end
from penstock_databases.postgres_cdc.start import Start, remove, start, try_out
from penstock_databases.postgres_cdc.stream import TELL_EVERY, Sessions, Stream
from penstock_databases.postgresql.connection import PostgresqlConnection

_BURST: Final = 512
"""Messages that are taken at once. More would let acknowledgements wait."""

_LONGEST_TURN: Final = 0.05
"""Seconds that changes are gathered while more come. Longer makes rows late, shorter makes batches
small where many small transactions come."""

_SETTLE: Final = 0.02
"""Seconds until it is asked again whether a transaction can be seen."""

_CHUNK_WAIT: Final = 0.2
"""Seconds of a wait while tables are read: a chunk that failed is begun again by looking."""

WINDOWS_MOST: Final = 16
"""Windows that may be open. Each makes changes of its table dearer to judge, and makes the offset
larger."""


class PostgresCdcSource(Source[PostgresCdcConfig]):
    """Tables of PostgreSQL, and their changes as they happen.

    Reads what is there in pieces and without locks, while changes already come from the log
    (logical replication, `pgoutput`); every change comes once, also over crashes.
    """

    name = "postgres-cdc"
    aliases = ("io.debezium.connector.postgresql.PostgresConnector", "PostgresConnector")
    title = "Changes of PostgreSQL"
    bounded: ClassVar[bool] = True  # asked for `finished`, which says no but for `initial_only`
    needs_commit: ClassVar[bool] = True

    @classmethod
    def check(cls, config: PostgresCdcConfig) -> None:
        """Try whether the server can be reached, and gives its changes to this user."""
        try_out(config)

    @classmethod
    def plan(
        cls, config: PostgresCdcConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return one partition: a log has one order."""
        key = {"database": config.target().database, "slot": config.slot_name}
        return [Partition(key, bounded=config.only_snapshot)]

    @classmethod
    def list_datasets(cls, config: PostgresCdcConfig) -> Iterator[Dataset]:
        """Yield the tables of the database, with the columns that the log has."""
        dialect, naming = DIALECTS["postgresql"], Naming(config.topic_prefix, config.hidden())
        connection = dialect.connect(config.target(), config.login())
        try:
            datasets = {
                table: Dataset(str(table), naming.dataset(table), selected=config.wanted(table))
                for table in dialect.tables(connection, ("TABLE",))
            }
            found = with_columns(
                datasets, dialect, connection, lambda shape: logged_fields(shape, naming)
            )
            yield from map(envelopes_of(config).dataset, found) if config.wraps else found
        finally:
            connection.close()

    @classmethod
    def send_signal(cls, config: PostgresCdcConfig, signal: Mapping[str, Any]) -> str:
        """Write a signal as a row of the table of signals."""
        table, dialect = signal_table(config, "public.signals"), DIALECTS["postgresql"]
        connection = dialect.connect(config.target(), config.login())
        try:
            insert_signal(connection, dialect.naming, table, signal)
        finally:
            connection.close()
        return table

    @classmethod
    def apply_action(
        cls,
        config: PostgresCdcConfig,
        action: ApplyAction,
        *,
        last: PostgresCdcConfig | None = None,
    ) -> Sequence[str]:
        """Drop the slot, which would keep the log for ever, and a publication made here."""
        # a slot that only `last` names may hold what was not read: it stays
        deleted = action is ApplyAction.DELETE and config.slot_drop_on_delete
        if not (deleted or action is ApplyAction.RESET):
            return ()
        return remove(config, publication=deleted)

    def init(self, config: PostgresCdcConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self._ready: deque[Batch] = deque()
        self._messages: deque[tuple[bytes, int]] = deque()
        self._envelopes = envelopes_of(config) if config.wraps else None
        self._sessions = Sessions(config)
        self._bell = Bell()
        self._channels = SignalChannels(config)
        self._snapshot: Snapshot[int, Moment] | None = None
        self._held: int | None = None
        self._acknowledged = 0
        self._failures = 0
        self._next_try = 0.0
        self._awaits = False
        self._rows_next = True
        self._settling = self._has_more = False
        self._target: int | None = None

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Begin where the offset is; without one, where the log is now."""
        (partition,) = partitions
        self._partition = partition
        if self.until_caught_up:
            self._target = log_end(self._sessions.side())
        self._begin(start(self._sessions.side(), self.config, partition.offset))

    def read_batch(self) -> Batch | None:
        """Return the next rows: of the log, and of tables that are read."""
        if not self._ready and not self._awaits and time.monotonic() >= self._next_try:
            try:
                self._turn()
                self._failures = 0
            except RetriableError as error:
                if self._snapshot is not None and self._snapshot.exhausted:
                    raise
                self._lost(error)
        if not self._ready:
            return None
        batch = self._ready.popleft()
        self._awaits = self._awaits or batch.await_commit
        batch = self.config.adjustments.apply(batch)
        return self._envelopes.wrap(batch, time.time_ns()) if self._envelopes else batch

    def wait(self, timeout: float) -> None:
        """Block until the log has more, or something else is due."""
        now = time.monotonic()
        due = [timeout, TELL_EVERY]
        if self._next_try > now:
            due.append(self._next_try - now)
        elif self._has_more:
            return
        elif self._settling:
            due.append(_SETTLE)
        due += [max(each.left(now), _SETTLE) for each in (self._heartbeat, self._look)]
        due.append(max(self._channels.left(), _SETTLE))
        if self._snapshot is not None and self._snapshot.active:
            due.append(_CHUNK_WAIT)
        stream = self._sessions.stream if self._held is None else None
        self._bell.wait(min(due), *([stream] if stream is not None else []))

    def wake(self) -> None:
        """End a wait."""
        self._bell.ring()

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Let the server forget what is durable: only now (invariant 1)."""
        for offset in offsets.values():
            self._acknowledged = max(self._acknowledged, lsn_of(offset["lsn"]))
        self._awaits = False
        stream = self._sessions.stream
        if stream is not None:
            stream.acknowledged = self._acknowledged
            try:
                stream.tell()
            except RetriableError as error:
                self._lost(error)

    def finished(self) -> bool:
        """Return whether all tables were read, when nothing more is wanted."""
        only = self.config.only_snapshot
        return only and not self._awaits and not self._progress.running and not self._ready

    def caught_up(self) -> bool:
        """Return whether the tables are read, and the log as far as it went at the beginning."""
        changes = self._changes
        left = self._ready or self._messages or self._awaits or self._progress.running
        if left or changes.inside or changes.rows or self._target is None:
            return False
        return changes.position.lsn >= self._target

    def close(self) -> None:
        """End the sessions; drop the slot when that is wanted."""
        self._disconnect()  # first: the next owner of the task waits for the slot
        if self._snapshot is not None:
            self._snapshot.close()
        self._channels.close()
        self._bell.close()
        if self.config.slot_drop_on_stop:
            self._sessions.drop_slot()

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def _begin(self, begun: Start) -> None:
        config = self.config
        self._tables = begun.tables
        self._progress = begun.tables.progress
        self._version = begun.version
        self._acknowledged = begun.acknowledged
        limits = Limits(
            config.max_batch_size,
            config.max_batch_bytes,
            config.toast_missing,
            counts=config.counts_transactions,
            prefix=config.topic_prefix,
            uncounted=config.adjustments.skipped_ops,
        )
        self._changes = Changes(self._tables, begun.position, self._progress, limits)
        self._snapshot = Snapshot(
            self._progress,
            lambda: PostgresqlConnection(config.target(), config.login()),
            parallelism=config.snapshot_parallelism,
            windows_most=WINDOWS_MOST,
            retry=config.retry,
        )
        self._given, self._snapshot_given = begun.position, self._progress.running
        self._heartbeat = Every(config.heartbeat_interval_ms)
        self._look = Every(config.table_poll_interval_ms)
        if begun.is_new:
            self._ready.append(self._batch(offset=True, awaits=True))

    def _connected(self) -> Stream:
        stream = self._sessions.stream
        if stream is None:
            self._tables.look(self._sessions.side(), self._version)
            stream = self._sessions.follow(self._changes.position.lsn, self._acknowledged)
        return stream

    def _disconnect(self) -> None:
        self._sessions.close()
        self._messages.clear()
        self._held = None
        if self._snapshot is not None:
            self._snapshot.cancel()

    def _lost(self, error: RetriableError) -> None:
        """Connect again after a time, and go on where the last rows were."""
        self._disconnect()
        self._failures += 1
        if self._failures >= self.config.connection_attempts:
            raise error
        self._next_try = time.monotonic() + self.config.retry.pause_s(self._failures)
        self._give_changes()
        self._changes.again()

    # ── turns ────────────────────────────────────────────────────────────────────────────────────

    def _turn(self) -> None:
        """Read some of the log, or give a piece of a table: in turns when both have more."""
        stream, changes, snapshot = self._connected(), self._changes, self._chunks()
        self._settling = self._has_more = False
        if not changes.inside:
            snapshot.start(self._chunk)
        if self._rows_next and self._give_piece(stream):
            self._rows_next = False
        else:
            self._rows_next = True
            self._has_more = self._read_log(stream)
            if not changes.inside:
                if not self._messages:  # it is behind all of these
                    changes.passed(stream.passed)
                self._progress.passed(changes.position.lsn)
            if changes.rows and (changes.is_full() or not changes.inside):
                self._give_changes()
            elif not self._give_piece(stream) and self._is_asking() and not changes.inside:
                stream.tell(ask=True)  # how far is the log? windows close behind it, a copy ends
                self._settling = True
        self._do_by_the_clock(stream, time.monotonic())

    def _is_asking(self) -> bool:
        """Return whether something waits for the log to get on."""
        behind = self._target is not None and self._changes.position.lsn < self._target
        return bool(self._progress.windows) or behind

    def _chunks(self) -> Snapshot[int, Moment]:
        assert self._snapshot is not None  # noqa: S101 - `connect` made it
        return self._snapshot

    def _chunk(self, work: Work[int], after: Key | None) -> TableChunk:
        """Return a chunk that sees all that was given of the log, and what waits there for others.

        It would let that wait for longer otherwise.
        """
        required = set(self._progress.pending)
        if self._held is not None:
            required.add(self._held)
        if work.keep and not work.begun:
            required.update(self._changes.recent)
        return TableChunk(
            work,
            after,
            self.config.snapshot_fetch_size,
            self.wake,
            self._tables.statement_of(work.table),
            table=self._tables.find(work.table),
            shapes=self._tables.shapes,
            required=frozenset(required),
        )

    def _give_piece(self, stream: Stream) -> bool:
        """Give rows of a chunk, when there are any and no changes stand before them."""
        if self._changes.inside or self._changes.rows:
            return False
        found = self._chunks().next()
        if found is None:
            return False
        chunk, piece = found
        self._changes.replan()
        if piece is None:
            self._progress.forget(chunk.table)
            if isinstance(chunk, TableChunk) and chunk.rekeyed:
                self._progress.add(
                    [chunk.table],
                    keep=True,
                    condition=chunk.work.condition,
                    anew=True,
                    incremental=chunk.work.incremental,
                )
            self._settling = True
            return True
        rows, shape = piece.rows, piece.shape
        marks = self._marks(piece)
        self._progress.given(piece.window, done=piece.done)
        self._progress.settle(piece.window.place)
        if rows.num_rows:
            made = shape.snapshot_batch(rows, piece.stamp, piece.window.place.number, marks)
            self._ready.append(self._batch(shape, made, offset=True))
        else:
            self._ready.append(self._batch(offset=True))
        stream.tell(ask=True)
        return True

    def _marks(self, piece: Piece[int, Moment]) -> pa.Array:
        """Return which rows are the first and the last; only envelopes tell it."""
        count = piece.rows.num_rows
        if not self.config.wraps:
            return pa.nulls(count, pa.string())

        def has_rows(table: int) -> bool:
            return self._tables.has_rows(self._sessions.side(), table)

        return self._progress.marks(piece.window, count, done=piece.done, follow=has_rows)

    def _do_by_the_clock(self, stream: Stream, now: float) -> None:
        if self._changes.inside or self._changes.rows:
            return
        if self._look.is_due(now) and self._tables.look(self._sessions.side(), self._version):
            self._changes.replan()
        if self._channels.is_due():
            self._read_channels()
        if self._heartbeat.is_due(now):
            stream.tell(ask=True)
            if self._changes.position != self._given:
                # nothing changed here, but the server may forget its log
                self._ready.append(self._batch(offset=True))
        if self._snapshot_given and not self._progress.running:
            self._ready.append(self._batch(offset=True))  # tables are read: offsets are small now

    def _read_channels(self) -> None:
        """Obey signals that come beside the table of signals, between two transactions."""
        signals, moved = self._channels.poll(self._progress.signals)
        if signals:
            self._tables.obey(signals)
            self._changes.replan()
        if moved:
            self._ready.append(self._batch(offset=True))

    def _read_log(self, stream: Stream) -> bool:
        """Take messages until a batch is full, or it took long enough: then there may be more."""
        changes, messages = self._changes, self._messages
        guarded = bool(self._chunks().chunks)
        self._held = None
        end = time.monotonic() + _LONGEST_TURN
        while True:
            if not messages:
                if not changes.inside and time.monotonic() >= end:
                    return True
                messages.extend(stream.read(_BURST))
                if not messages:
                    return False
            while messages:
                if guarded and self._is_held(messages[0][0]):
                    return False
                changes.take(*messages.popleft())
                if changes.is_full():
                    return True

    def _is_held(self, message: bytes) -> bool:
        """Return whether a transaction waits for rows that do not have it: they come before it."""
        self._held = None
        if message[0] != pgoutput.BEGIN:
            return False
        xid = pgoutput.read_begin(message).xid
        for chunk in self._chunks().chunks:
            if chunk.whole and chunk.work.begun:
                continue  # it is one window, which is open
            if chunk.place is None or not chunk.place.seen.has(xid):
                self._held = xid
                return True
        return False

    def _give_changes(self) -> None:
        if self._progress.pending and self._sessions.stream is not None:
            self._progress.settle(moment(self._sessions.side())[0])
        batches, position = self._changes.cut()  # nothing may fail from here on
        signals, boundaries = self._changes.take_signals(), self._changes.take_boundaries()
        if not (batches or signals or boundaries):
            return
        self._given = position
        if signals:
            self._tables.obey(new_signals(signals))
            self._changes.replan()
        given = [self._batch(*one) for one in batches if self._tables.is_given(one[0])]
        if boundaries:
            about = boundary_batch(boundaries, self.config.transactions_dataset)
            given.append(replace(about, partition=self._partition))
        given = given or [self._batch()]
        given[-1].offset = self._place()
        self._ready += given

    def _batch(
        self,
        shape: RowShape | None = None,
        rows: pa.RecordBatch | Sequence[Any] = (),
        *,
        offset: bool = False,
        awaits: bool = False,
    ) -> Batch:
        return Batch(
            rows,
            partition=self._partition,
            offset=self._place() if offset else None,
            dataset="" if shape is None else shape.dataset,
            key_columns=() if shape is None else shape.given_key,
            await_commit=awaits,
        )

    def _place(self) -> dict[str, Any]:
        """Return the offset behind all that is ready, which is told by that."""
        self._given, self._snapshot_given = self._changes.position, self._progress.running
        self._heartbeat.again()
        return to_offset(self._changes.position, self._tables.followed, self._progress)


def envelopes_of(config: PostgresCdcConfig) -> Envelopes:
    """Return what wraps the rows of a database."""
    return config.envelopes("postgresql", ORIGIN_TYPE)
