"""`clickhouse-sink`: rows of datasets in tables of ClickHouse, exactly once."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

import pyarrow as pa

from penstock_analytics.clickhouse_sink.catalog import (
    Engine,
    read_engine,
    read_shape,
    require_fit,
)
from penstock_analytics.clickhouse_sink.config import ClickHouseSinkConfig
from penstock_analytics.clickhouse_sink.ddl import ClickHouseDdl
from penstock_analytics.clickhouse_sink.failing import (
    EXISTS,
    UNKNOWN_TABLE,
    ServerError,
    told_of_schema,
)
from penstock_analytics.clickhouse_sink.ledger import Last, Ledger
from penstock_analytics.clickhouse_sink.limits import cast, emptied, limit
from penstock_analytics.clickhouse_sink.session import Session
from penstock_analytics.clickhouse_sink.sql import literal, table_sql
from penstock_analytics.clickhouse_sink.writing import (
    Step,
    blocks,
    direct_insert,
    emptying,
    marks,
    named,
    settings,
    staged,
    staging_insert,
    staging_table,
    step,
)
from penstock_connector import ConnectorError, RetriableError, SchemaError, Staging
from penstock_connector.staging import Spill
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.evolution import Ddl, readable
from penstock_connector.tables.mapping import ColumnMapping
from penstock_connector.tables.names import TableId
from penstock_connector.tables.routing import Rejected, Route
from penstock_connector.tables.sink import RowStaging, TableSink
from penstock_connector.tables.writes import Write, plan_writes

T = TypeVar("T")

_MEMORY_BYTES: Final = 128 << 20
"""Bytes of rows in memory until they are staged; more go to a file."""

_STAGING: Final = "penstock_staging"


@dataclass(frozen=True, slots=True)
class _Way:
    """The way of rows into a table, and how the table keeps them."""

    route: Route
    engine: Engine


class _Rows(RowStaging):
    """Rows on their way; null collections are empty ones, where that is wanted."""

    def __init__(self, route: Route, spill: Spill, *, empty: bool) -> None:
        super().__init__(route, spill)
        self._empty = empty

    def put(self, rows: pa.RecordBatch) -> Rejected:
        """Stage rows, but for those that the table cannot hold."""
        return super().put(emptied(rows) if self._empty else rows)


class ClickHouseSink(TableSink[ClickHouseSinkConfig, _Way]):
    """Tables of ClickHouse.

    Makes tables, adds columns as they come, appends, or replaces and deletes by key with
    ReplacingMergeTree: exactly once, by staged rows, commit rows and tokens.
    """

    name = "clickhouse-sink"
    aliases = ("ClickHouseSinkConnector", "com.clickhouse.kafka.connect.ClickHouseSinkConnector")
    title = "Tables of ClickHouse"
    commit_every: ClassVar[float] = 1.0  # each insert is a part of the table: fewer, larger

    _session: Session | None = None
    _pool: ThreadPoolExecutor | None = None

    @classmethod
    def check(cls, config: ClickHouseSinkConfig) -> None:
        """Try to log in, and see how old the server is."""
        session = Session(config)
        try:
            config.connection_retry.call(session.require_version, time.sleep)
            session.query("SELECT 1")  # with the settings of the configuration
        finally:
            session.close()

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older epochs, see how far the task is, and finish what was committed."""
        config = self.config
        self._session = session = Session(config)
        self._pool = ThreadPoolExecutor(config.inserts_in_flight, "clickhouse")
        self._spill = Spill(_MEMORY_BYTES, "clickhouse.spool", "clickhouse.spool")
        self._engines: dict[TableId, Engine] = {}
        self._prepared: dict[int, Last] = {}
        config.connection_retry.call(session.require_version, self.stopping.wait)
        self._ledger = Ledger(session, config.place.database, task_id, epoch)
        self._last = self._again(self._ledger.claim)
        self._serial, self._version = self._last.serial, self._last.version
        self._finish(self._last.steps)

    # ── what a ClickHouse is ─────────────────────────────────────────────────────────────────────

    @property
    def ddl(self) -> Ddl:
        """The statements that make tables and columns."""
        return ClickHouseDdl(self.config)

    def table(self, dataset: str) -> TableId:
        """Return the table of a dataset."""
        return self.config.table(dataset)

    def shape(self, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return self._again(lambda: read_shape(self._opened, table, self.config))

    def execute_ddl(self, statement: str) -> None:
        """Run a statement, until it succeeds or another task was faster."""
        try:
            self._again(lambda: self._opened.execute(readable(statement)))
        except ConnectorError as error:
            if ServerError.number(error) not in EXISTS:
                raise told_of_schema(error) from None

    def looks_again(self, error: ConnectorError) -> bool:
        """Tell that what still fails is not another task's doing."""
        return False

    def route(self, dataset: str, shape: Shape, mapping: ColumnMapping) -> _Way:
        """Return the way of rows into a table."""
        engine = self._again(lambda: read_engine(self._opened, shape.table))
        if engine is None:
            raise RetriableError("clickhouse.table_gone", f"{shape.table} was dropped just now")
        require_fit(engine, shape.table, self.config, [one.field.name for one in mapping.key])
        ours = {engine.version, engine.deleted} if self.config.changes_rows else set()
        for column in mapping.all:
            if column.field.name in ours:
                raise SchemaError(
                    "clickhouse.reserved_column",
                    f"{shape.table}: rows have a field {column.field.name!r}, and the sink writes "
                    "that column itself",
                    fix="Rename the field or leave it out, with the transform ReplaceField.",
                )
        self._engines[shape.table] = engine
        return _Way(Route(self.config, dataset, shape, mapping, limit, cast), engine)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for rows in memory, or in a file without a name."""
        empty = self.config.null_collections == "empty"
        return _Rows(self.routed(dataset, schema).route, self._spill, empty=empty)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Bring the rows to ClickHouse: into tables that nobody reads, or at once into theirs."""
        self._serial += 1
        # a clock, so that of two tasks' rows of a key the later one counts; odd numbers are for
        # what a table had before it was emptied
        self._version = max(self._version + 2, time.time_ns() // 1000 & ~1)
        ours = [one for one in staged if isinstance(one, RowStaging)]
        steps = []
        for number, write in enumerate(plan_writes([(one.route, one.parts()) for one in ours])):
            name = f"{self._ledger.short}_{epoch}_{self._serial}_{number}"
            made = self._written(write, name, f"{name}_{txn_id}".replace("_", "-"))
            steps += [made] if made is not None else []
        for one in ours:
            one.discard()
        last = Last(epoch, txn_id, token, self._serial, self._version, tuple(steps))
        self._prepared[txn_id] = last
        # the offsets are stored after `commit`: a transaction that was only prepared is read again
        return str(self._serial).encode()

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Write the commit row, and bring the staged rows into their tables."""
        last = self._prepared[txn_id]
        self._again(lambda: self._ledger.store(last))
        self._again(self._ledger.require_ownership)
        self._finish(last.steps)
        self._last = last
        del self._prepared[txn_id]

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction of the task: its token is in the commit row."""
        last = self._last
        return (last.txn_id, last.epoch, last.token) if last.txn_id else None

    def sweep(self, txn_id_done: int) -> None:
        """Drop the tables with rows of earlier lives: they were not committed, and never will be;
        and remove older commit rows. What fails is done by the next life.
        """
        database, start = self.config.place.database, f"{_STAGING}_{self._ledger.short}_"
        with contextlib.suppress(ConnectorError):
            named = f"database = {literal(database)} AND startsWith(name, {literal(start)})"
            for (name,) in self._opened.query(f"SELECT name FROM system.tables WHERE {named}"):  # noqa: S608 - literals
                self._drop(table_sql(TableId(str(name), catalog=database)))
            self._ledger.forget_older()

    def close(self) -> None:
        """End the threads and the connections."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        if self._session is not None:
            self._session.close()

    # ── inserts ──────────────────────────────────────────────────────────────────────────────────

    def _written(self, write: Write, name: str, token: str) -> Step | None:
        """Write rows; returns what is left to be done when they are committed."""
        engine = self._engines[write.route.table]
        if write.verb is Verb.TRUNCATE:
            empty = emptying(write, engine, self._version, token)
            if self.config.exactly_once:
                return empty
            self._finish([empty])
            return None
        marked = marks(write, engine, self._version)
        parts = enumerate(blocks(write.rows, self.config.insert_rows))
        if not self.config.exactly_once:
            sql = direct_insert(write, marked)
            self._insert(
                (sql, named(write, rows, marked), settings(token, number)) for number, rows in parts
            )
            return None
        staging = TableId(f"{_STAGING}_{name}", catalog=self.config.place.database)
        self._again(lambda: self._opened.execute(staging_table(write, staging)))
        sql = staging_insert(write, staging)
        count = self._insert(
            (sql, staged(rows, number), settings(f"{token}-staged", number))
            for number, rows in parts
        )
        return step(write, staging, marked, count, token)

    def _finish(self, steps: Sequence[Step]) -> None:
        """Make the steps of a committed transaction; some or all may have been made before."""
        for one in steps:
            try:
                self._insert((sql, b"", with_token) for sql, with_token in one.inserts())
            except ConnectorError as error:
                if not self._is_done(one, error):
                    raise _waiting(one, error) from None
            if one.staging:
                self._drop(one.staging)

    def _is_done(self, one: Step, error: ConnectorError) -> bool:
        """Return whether the rows of a step are gone: they are dropped when they are written. A
        table that is to be emptied and is gone is empty.
        """
        if ServerError.number(error) != UNKNOWN_TABLE:
            return False
        if not one.staging:
            return True
        return not int(self._again(lambda: self._opened.query(f"EXISTS TABLE {one.staging}"))[0][0])

    def _drop(self, table: str) -> None:
        self._again(lambda: self._opened.execute(f"DROP TABLE IF EXISTS {table} SYNC"))

    def _insert(self, inserts: Iterable[tuple[str, bytes, Mapping[str, str]]]) -> int:
        """Make inserts, several at a time; returns how many there were."""
        assert self._pool is not None  # noqa: S101 - `connect` comes first
        count, flying = 0, deque[Future[None]]()
        try:
            for sql, data, with_settings in inserts:
                if len(flying) == self.config.inserts_in_flight:
                    flying.popleft().result()
                flying.append(self._pool.submit(self._inserted, sql, data, with_settings))
                count += 1
            while flying:
                flying.popleft().result()
        finally:
            for one in flying:  # the first error counts; nothing is written behind its back
                one.cancel()
                with contextlib.suppress(Exception):
                    one.result()
        return count

    def _inserted(self, sql: str, data: bytes, with_settings: Mapping[str, str]) -> None:
        def insert() -> None:
            if data:
                self._opened.insert(sql, data, with_settings)
            else:
                self._opened.execute(sql, with_settings)

        self._again(insert)

    @property
    def _opened(self) -> Session:
        assert self._session is not None  # noqa: S101 - `connect` comes first
        return self._session

    def _again(self, act: Callable[[], T]) -> T:
        """Do something that changes nothing when it is done twice, until it succeeds."""
        return self.config.write_retry.call(act, self.stopping.wait)


def _waiting(one: Step, error: ConnectorError) -> ConnectorError:
    """Return an error of a committed step, with what can be done for its rows."""
    if not one.staging:
        return error
    fix = (
        f"{error.fix} The rows of {one.table} wait in {one.staging}: repair {one.table} and they "
        f"are written; or give them up: DROP TABLE {one.staging}"
    )
    return type(error)(error.code, error.message, fix=fix)
