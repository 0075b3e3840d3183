"""`databend-sink`: rows of datasets in tables of Databend, exactly once."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeVar

import pyarrow as pa

from penstock_connector import ConnectorError, Staging
from penstock_connector.connection import Retry
from penstock_connector.staging import Spill
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.evolution import Ddl
from penstock_connector.tables.mapping import ColumnMapping
from penstock_connector.tables.names import TableId
from penstock_connector.tables.routing import Route
from penstock_connector.tables.sink import RowStaging, TableSink
from penstock_connector.tables.writes import plan_writes
from penstock_databases.databend_sink.config import DatabendSinkConfig
from penstock_databases.databend_sink.ddl import DatabendDdl
from penstock_databases.databend_sink.ledger import Last, Ledger
from penstock_databases.databend_sink.limits import cast, limit
from penstock_databases.databend_sink.session import (
    Session,
    change,
    open_session,
    remove,
    shape,
    transaction,
)
from penstock_databases.databend_sink.sql import quoted
from penstock_databases.databend_sink.writing import parquet, statement

T = TypeVar("T")

_WRITE_WITHIN_S: Final = 90.0
"""Seconds in which a transaction is tried again; the host waits for 120."""

_FIRST_BACKOFF_S: Final = 0.05
"""Conflicts with other tasks are over within milliseconds, restarts of a server are not."""

_MEMORY_BYTES: Final = 128 << 20
"""Bytes of rows in memory until they are staged; more go to a file."""


@dataclass(slots=True)
class _Prepared:
    """A transaction that only has to be committed."""

    last: Last
    statements: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class DatabendSink(TableSink[DatabendSinkConfig, Route]):
    """Tables of Databend.

    Makes tables, adds columns as they come, appends or replaces by key: rows and offsets in one
    transaction, exactly once. Writes to a server, or to a folder by an engine of its own.
    """

    name = "databend-sink"
    aliases = ("DatabendSinkConnector", "com.databend.kafka.connect.DatabendSinkConnector")
    title = "Tables of Databend"
    commit_every: ClassVar[float] = 1.0  # each commit is a new version of the table: fewer, larger
    ddl: Ddl = DatabendDdl()

    _session: Session | None = None

    @classmethod
    def check(cls, config: DatabendSinkConfig) -> None:
        """Try to log in to a server. A folder is left alone: a task may be using it."""
        if not config.target.folder:
            open_session(config, time.sleep).close()

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older epochs, and see how far the task is."""
        self._session = session = open_session(self.config, self.stopping.wait)
        self._spill = Spill(_MEMORY_BYTES, "databend.spool", "databend.spool")
        self._prepared: dict[int, _Prepared] = {}
        if self.config.target.folder:  # nobody else could make a database in a folder
            session.execute(f"CREATE DATABASE IF NOT EXISTS {quoted(self.config.database)}")
        self._ledger = Ledger(session, self.config.database, task_id, epoch)
        self._last = self._again(self._ledger.claim)
        self._serial = self._last.serial

    def table(self, dataset: str) -> TableId:
        """Return the table of a dataset."""
        return self.config.table(dataset)

    def shape(self, table: TableId) -> Shape | None:
        """Return a table's columns."""
        return shape(self._opened, table)

    def execute_ddl(self, statement: str) -> None:
        """Run a statement, until it succeeds or another task was faster."""
        self._again(lambda: change(self._opened, statement))

    def looks_again(self, error: ConnectorError) -> bool:
        """Tell that what still fails is not another task's doing."""
        return False

    def route(self, dataset: str, shape: Shape, mapping: ColumnMapping) -> Route:
        """Return the way of rows into a table."""
        return Route(self.config, dataset, shape, mapping, limit, cast)

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for rows in memory, or in a file without a name."""
        return RowStaging(self.routed(dataset, schema), self._spill)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Bring the rows to Databend's stage, as files that no table knows."""
        self._serial += 1
        prepared = _Prepared(Last(epoch, txn_id, token, self._serial))
        self._prepared[txn_id] = prepared
        ours = [one for one in staged if isinstance(one, RowStaging)]
        for write in plan_writes([(one.route, one.parts()) for one in ours]):
            name = f"{self._folder}/{secrets.token_hex(16)}.parquet"
            if write.verb is not Verb.TRUNCATE:
                with parquet(write, self._spill) as file:
                    prepared.files.append(name)
                    self._again(lambda n=name, f=file: self._opened.upload(n, f))  # type: ignore[misc] # as above
            prepared.statements.append(statement(write, name))
        for one in ours:
            one.discard()
        # the offsets are stored after COMMIT: a transaction that was only prepared is read again
        return json.dumps({"serial": self._serial}).encode()

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Write the rows and the commit row in one transaction."""
        prepared = self._prepared[txn_id]
        self._again(lambda: self._write(prepared))
        self._last = prepared.last
        del self._prepared[txn_id]
        remove(self._opened, prepared.files)
        self._ledger.tidy()

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction of the task: its token is stored with the rows."""
        last = self._last
        return (last.txn_id, last.epoch, last.token) if last.serial else None

    def sweep(self, txn_id_done: int) -> None:
        """Remove the files of earlier lives: they were not committed, and never will be."""
        remove(self._opened, [f"{self._folder}/"])

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()

    @property
    def _opened(self) -> Session:
        assert self._session is not None  # noqa: S101 - `connect` comes first
        return self._session

    @property
    def _folder(self) -> str:
        return f"penstock/{self._ledger.folder}"

    def _write(self, prepared: _Prepared) -> None:
        if self._ledger.done(prepared.last.serial):
            return  # the answer to COMMIT was lost, the rows were not
        with transaction(self._opened):
            self._ledger.advance(prepared.last)
            for one in prepared.statements:
                self._opened.execute(one)

    def _again(self, act: Callable[[], T]) -> T:
        """Do something that changes nothing when it is done twice, until it succeeds."""
        retry = Retry(
            self.config.max_retries + 1,
            _FIRST_BACKOFF_S,
            max_backoff_s=self.config.retry_backoff_ms,
            within_s=_WRITE_WITHIN_S,
            jitter=True,
        )
        return retry.call(act, self.stopping.wait)
