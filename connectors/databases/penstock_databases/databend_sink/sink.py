"""`databend-sink`: rows of datasets in tables of Databend, exactly once."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeVar

import pyarrow as pa

from penstock_connector import (
    CommitMode,
    ConnectorError,
    RetriableError,
    Staging,
    TransactionalSink,
)
from penstock_databases.databend_sink import evolve
from penstock_databases.databend_sink.config import DatabendSinkConfig, database_of, problems
from penstock_databases.databend_sink.keys import places
from penstock_databases.databend_sink.ledger import Last, Ledger
from penstock_databases.databend_sink.naming import table_of
from penstock_databases.databend_sink.opening import opened
from penstock_databases.databend_sink.route import Route, route
from penstock_databases.databend_sink.session import Session, change, remove, shape, transaction
from penstock_databases.databend_sink.sql import quoted, readable
from penstock_databases.databend_sink.staging import DatabendStaging
from penstock_databases.databend_sink.writing import Verb, parquet, statement, writes

T = TypeVar("T")

_TRIES_WITHIN: Final = 90.0
"""Seconds in which a transaction is tried again; the host waits for 120."""

_FIRST_DELAY: Final = 0.05


@dataclass(slots=True)
class _Prepared:
    """A transaction that only has to be committed."""

    last: Last
    statements: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class DatabendSink(TransactionalSink[DatabendSinkConfig]):
    """Tables of Databend.

    Makes tables, adds columns as they come, appends or replaces by key: rows and offsets in one
    transaction, exactly once. Writes to a server, or to a folder by an engine of its own.
    """

    name = "databend-sink"
    aliases = ("DatabendSinkConnector", "com.databend.kafka.connect.DatabendSinkConnector")
    title = "Tables of Databend"
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.SINK,)
    commit_every: ClassVar[float] = 1.0  # each commit is a new version of the table: fewer, larger

    _session: Session | None = None

    @classmethod
    def validate(cls, config: DatabendSinkConfig) -> list[ConnectorError]:
        """Find what contradicts itself."""
        return list(problems(config))

    @classmethod
    def check(cls, config: DatabendSinkConfig) -> None:
        """Try to log in to a server. A folder is left alone: a task may be using it."""
        if not config.connection_url.startswith("databend+local:"):
            opened(config, time.sleep).close()

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older epochs, and see how far the task is."""
        self._session = session = opened(self.config, self.stopping.wait)
        self._routes: dict[tuple[str, bytes], Route] = {}
        self._prepared: dict[int, _Prepared] = {}
        database = database_of(self.config)
        if self.config.connection_url.startswith("databend+local:"):
            # nobody else could make a database in a folder
            session.execute(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}")
        self._ledger = Ledger(session, database, task_id, epoch)
        self._last = self._again(self._ledger.claim)
        self._serial = self._last.serial

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a dataset's table."""
        there = shape(self._opened, table_of(self.config, dataset))
        return None if there is None else pa.schema([column.field for column in there.columns])

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str]:
        """Make the table, or add the columns that it lacks."""
        table = table_of(self.config, dataset)
        wanted = places(self.config, schema, key_columns)
        there = shape(self._opened, table)
        statements = evolve.change(self.config, table, there, wanted)
        for one in statements:
            self._again(lambda one=one: change(self._opened, one))  # type: ignore[misc] # bound at once
        if statements or there is None:
            there = shape(self._opened, table)
        assert there is not None  # noqa: S101 - it was made
        evolve.check(there, wanted)
        self._routes[dataset, _print(schema)] = route(
            table, there, wanted, deletes=self.config.delete_enabled
        )
        return [readable(one) for one in statements]

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for rows in memory, or in a file without a name."""
        del txn_id, slot, attempt
        return DatabendStaging(self._routes[dataset, _print(schema)])

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Bring the rows to Databend's stage, as files that no table knows."""
        self._serial += 1
        prepared = _Prepared(Last(epoch, self._serial, txn_id, token))
        self._prepared[txn_id] = prepared
        ours = [one for one in staged if isinstance(one, DatabendStaging)]
        for write in writes(ours, upsert=self.config.insert_mode == "upsert"):
            name = f"{self._folder}/{secrets.token_hex(16)}.parquet"
            if write.verb is not Verb.TRUNCATE:
                with parquet(write) as file:
                    prepared.files.append(name)
                    self._again(lambda n=name, f=file: self._opened.upload(n, f))  # type: ignore[misc] # as above
            prepared.statements.append(statement(write, name))
        for one in ours:
            one.discard()
        # the offsets are stored after COMMIT: a transaction that was only prepared is read again
        return json.dumps({"serial": self._serial}).encode()

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Write the rows and the commit row in one transaction."""
        del epoch, state
        prepared = self._prepared[txn_id]
        self._again(lambda: self._write(prepared))
        self._last = prepared.last
        del self._prepared[txn_id]
        remove(self._opened, prepared.files)
        self._ledger.tidy()

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction of the task: its token is stored with the rows."""
        last = self._last
        return (last.txn, last.epoch, last.token) if last.serial else None

    def sweep(self, txn_id_done: int) -> None:
        """Remove the files of earlier lives: they were not committed, and never will be."""
        del txn_id_done
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
        """Do something that changes nothing when it is done twice, until it succeeds.

        Conflicts with other tasks are over within milliseconds, restarts of a server are not.
        """
        until = time.monotonic() + _TRIES_WITHIN
        delay = _FIRST_DELAY
        for _ in range(self.config.max_retries):
            try:
                return act()
            except RetriableError:
                if time.monotonic() + delay > until or self.stopping.wait(_jittered(delay)):
                    raise
            delay = min(delay * 2, self.config.retry_backoff_ms)
        return act()


def _jittered(seconds: float) -> float:
    """Return a time at random: two tasks that were in each other's way shall not be again."""
    return seconds * (0.5 + secrets.randbelow(1000) / 1000)


def _print(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize())
