"""`postgres-cdc`: the task that reads tables and the log in turns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from penstock_connector import ApplyAction, Batch, Partition, RetriableError, Source
from penstock_databases.postgres_cdc import rules
from penstock_databases.postgres_cdc.changes import Changes, Limits
from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.offsets import lsn_of, to_offset
from penstock_databases.postgres_cdc.pacing import Every
from penstock_databases.postgres_cdc.reading import Reading
from penstock_databases.postgres_cdc.removal import remove
from penstock_databases.postgres_cdc.rows import RowShape
from penstock_databases.postgres_cdc.sessions import Sessions
from penstock_databases.postgres_cdc.start import Start, start, try_out
from penstock_databases.postgres_cdc.stream import TELL_EVERY, Stream

_BURST: Final = 512
"""Messages that are taken at once. More would let acknowledgements wait."""

_LONGEST_TURN: Final = 0.05
"""Seconds that changes are gathered while more come. Longer makes rows late, shorter makes batches
small where many small transactions come."""

_SETTLE: Final = 0.02
"""Seconds until it is asked again whether a transaction can be seen."""

_BACKOFF_MOST: Final = 10.0


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
        del max_tasks, known
        key = {"database": config.target().database, "slot": config.slot_name}
        return [Partition(key, bounded=config.snapshot_mode == "initial_only")]

    @classmethod
    def apply_action(
        cls,
        config: PostgresCdcConfig,
        action: ApplyAction,
        *,
        last: PostgresCdcConfig | None = None,
    ) -> Sequence[str]:
        """Drop the slot, which would keep the log for ever, and a publication made here."""
        del last  # a slot that is not named any more may hold what was not read
        deleted = action is ApplyAction.DELETE and config.slot_drop_on_delete
        if not (deleted or action is ApplyAction.RESET):
            return ()
        return remove(config, publication=deleted)

    def init(self, config: PostgresCdcConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self._ready: deque[Batch] = deque()
        self._messages: deque[bytes] = deque()
        self._sessions = Sessions(config)
        self._reading: Reading | None = None
        self._acknowledged = 0
        self._failures = 0
        self._next_try = 0.0
        self._awaits = False
        self._turn_of_tables = True
        self._settling = self._has_more = False

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Begin where the offset is; without one, where the log is now."""
        (partition,) = partitions
        self._partition = partition
        self._begin(start(self._sessions.side(), self.config, partition.offset))

    def read_batch(self) -> Batch | None:
        """Return the next rows: of the log, and of tables that are read."""
        if not self._ready and not self._awaits and time.monotonic() >= self._next_try:
            try:
                self._turn()
                self._failures = 0
            except RetriableError as error:
                self._lost(error)
        if not self._ready:
            return None
        batch = self._ready.popleft()
        self._awaits = self._awaits or batch.await_commit
        return batch

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
        stream = self._sessions.stream
        if stream is None:
            self._woken.wait(max(min(due), 0))
        elif not self._woken.is_set():
            stream.wait(min(due))
        self._woken.clear()

    def wake(self) -> None:
        """End a wait."""
        self._woken.set()
        stream = self._sessions.stream
        if stream is not None:
            stream.wake()

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
        """Tell whether all tables were read, when nothing more is wanted."""
        only = self.config.snapshot_mode == "initial_only"
        return only and not self._awaits and not self._plan and not self._ready

    def close(self) -> None:
        """End the sessions; drop the slot when that is wanted."""
        self._disconnect()
        if self.config.slot_drop_on_stop:
            self._sessions.drop_slot()

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def _begin(self, begun: Start) -> None:
        config = self.config
        self._tables = begun.tables
        self._plan = begun.tables.plan
        self._version = begun.version
        self._acknowledged = begun.acknowledged
        limits = Limits(config.max_batch_size, config.max_batch_bytes, config.toast_missing)
        self._changes = Changes(self._tables, begun.position, self._plan, limits)
        self._reading = Reading(
            self._plan,
            self._tables.find,
            self._tables.shapes,
            config.target(),
            config.login(),
            config.snapshot_fetch_size,
        )
        self._given, self._plan_given = begun.position, bool(self._plan)
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
        if self._reading is not None:
            self._reading.close()

    def _lost(self, error: RetriableError) -> None:
        """Connect again after a time, and go on where the last rows were."""
        self._disconnect()
        self._failures += 1
        if self._failures >= self.config.connection_attempts:
            raise error
        backoff = self.config.connection_backoff_ms * 2 ** (self._failures - 1)
        self._next_try = time.monotonic() + min(backoff, _BACKOFF_MOST)
        self._give_changes()
        self._changes.again()

    # ── turns ────────────────────────────────────────────────────────────────────────────────────

    def _turn(self) -> None:
        """Read some of the log, or a piece of a table: in turns when both have more."""
        stream = self._connected()
        self._settling = self._has_more = False
        if not (self._turn_of_tables and self._tables_are_due()):
            self._has_more = self._read_log(stream)
        if not self._changes.inside:
            if not self._messages:  # it is behind all of these
                self._changes.passed(stream.passed)
            rules.close_windows(self._plan, self._changes.position.lsn)
        if self._changes.rows and (self._changes.is_full() or not self._changes.inside):
            self._give_changes()
            self._turn_of_tables = True
        elif self._tables_are_due():
            self._read_tables(stream)
            self._turn_of_tables = False
        elif self._plan and not self._changes.inside:
            stream.tell(ask=True)  # how far is the log? windows close behind it
            self._settling = True
        self._do_by_the_clock(stream, time.monotonic())

    def _pieces(self) -> Reading:
        assert self._reading is not None  # noqa: S101 - `connect` made it
        return self._reading

    def _tables_are_due(self) -> bool:
        return self._pieces().is_due() and not self._changes.inside and not self._changes.rows

    def _do_by_the_clock(self, stream: Stream, now: float) -> None:
        if self._changes.inside or self._changes.rows:
            return
        if self._look.is_due(now) and self._tables.look(self._sessions.side(), self._version):
            self._changes.replan()
        if self._heartbeat.is_due(now):
            stream.tell(ask=True)
            if self._changes.position != self._given:
                # nothing changed here, but the server may forget its log
                self._ready.append(self._batch(offset=True))
        if self._plan_given and not self._plan:
            self._ready.append(self._batch(offset=True))  # tables are read: offsets are small now

    def _read_log(self, stream: Stream) -> bool:
        """Take messages until a batch is full, or it took long enough: then there may be more."""
        changes, messages = self._changes, self._messages
        end = time.monotonic() + _LONGEST_TURN
        while True:
            if not messages:
                if not changes.inside and time.monotonic() >= end:
                    return True
                messages.extend(stream.read(_BURST))
                if not messages:
                    return False
            while messages:
                changes.take(messages.popleft())
                if changes.is_full():
                    return True

    def _read_tables(self, stream: Stream) -> None:
        piece = self._pieces().piece(self._sessions.side(), list(self._changes.recent))
        self._changes.replan()
        if piece is None:
            self._settling = True
            return
        stream.tell(ask=True)
        self._ready.append(self._batch(piece.shape, piece.rows, offset=True))

    def _give_changes(self) -> None:
        batches, position = self._changes.cut()
        if not batches:
            return
        self._given = position
        if self._plan.pending and self._sessions.stream is not None:
            self._pieces().settle(self._sessions.side())
        for shape, rows in batches[:-1]:
            self._ready.append(self._batch(shape, rows))
        self._ready.append(self._batch(*batches[-1], offset=True))

    def _batch(
        self,
        shape: RowShape | None = None,
        rows: pa.RecordBatch | Sequence[Any] = (),
        *,
        offset: bool = False,
        awaits: bool = False,
    ) -> Batch:
        place = None
        if offset:
            place = to_offset(self._changes.position, self._tables.followed, self._plan)
            self._given, self._plan_given = self._changes.position, bool(self._plan)
            self._heartbeat.again()
        return Batch(
            rows,
            partition=self._partition,
            offset=place,
            dataset="" if shape is None else shape.dataset,
            key_columns=() if shape is None else shape.key,
            await_commit=awaits,
        )
