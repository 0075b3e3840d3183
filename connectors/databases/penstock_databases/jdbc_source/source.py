"""`jdbc-source`: the task, whose tables take turns."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import (
    Batch,
    ConfigError,
    ConnectorError,
    Dataset,
    Monitor,
    Partition,
    RetriableError,
    Source,
)
from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source.bulk import BulkReader
from penstock_databases.jdbc_source.config import JdbcSourceConfig
from penstock_databases.jdbc_source.incrementing import IncrementingReader
from penstock_databases.jdbc_source.places import check_mode
from penstock_databases.jdbc_source.reader import Changed, Reader
from penstock_databases.jdbc_source.reader import Source as Relations
from penstock_databases.jdbc_source.relation import (
    NO_INCREMENTING_COLUMN,
    Relation,
    incrementing_column,
    look_up,
    no_incrementing_column,
    row_schema,
    timestamp_columns,
)
from penstock_databases.jdbc_source.session import Session
from penstock_databases.jdbc_source.stamped import StampedReader
from penstock_databases.jdbc_source.tables import (
    check_key,
    chosen,
    config_of,
    dataset_of,
    find_tables,
    no_tables,
    planned,
    table_of,
    text_of,
)
from penstock_databases.listing import with_columns

_SHARE: Final = 10
"""Polls of quiet tables take at most one part in so many of the time: very many tables are polled
more rarely instead of eating a core and the server."""

_CHANGES: Final = 5
"""Times that a relation may change under one poll before the task is tried again."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Turn:
    """A table and when it is polled again."""

    partition: Partition
    reader: Reader
    poll_every_s: float
    due: float = 0.0
    caught_up: bool = False
    """All rows were given that were there when the task connected."""

    def pause(self, began: float) -> float:
        """Return the seconds until it is polled again."""
        took = time.monotonic() - began
        return max(self.poll_every_s, took * _SHARE)


class JdbcSource(Source[JdbcSourceConfig]):
    """Rows of tables.

    Reads tables of MySQL, MariaDB, PostgreSQL and SQLite, or a query, and polls for what is new.
    Every table is a partition; new and dropped tables are found while it runs.
    """

    name = "jdbc-source"
    aliases = (
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "JdbcSourceConnector",
        "io.aiven.connect.jdbc.JdbcSourceConnector",
    )
    title = "Rows of tables"

    @classmethod
    def check(cls, config: JdbcSourceConfig) -> None:
        """Connect, look for the tables, and check the columns of each."""
        connection = config.dialect.connect(config.target, config.login)
        try:
            partitions = planned(config, connection)
            if not partitions:
                raise no_tables(config)
            _check_columns(config, connection, partitions)
        finally:
            connection.close()

    @classmethod
    def plan(
        cls, config: JdbcSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return a partition for each table."""
        connection = config.dialect.connect(config.target, config.login)
        try:
            return planned(config, connection)
        finally:
            connection.close()

    @classmethod
    def list_datasets(cls, config: JdbcSourceConfig) -> Iterator[Dataset]:
        """Yield the tables, or the query."""
        connection = config.dialect.connect(config.target, config.login)
        try:
            yield from _datasets(config, connection)
        finally:
            connection.close()

    @classmethod
    def monitored(cls, config: JdbcSourceConfig, max_tasks: int) -> bool:
        """Return whether tables may come and go."""
        return not config.query

    @classmethod
    def monitor(cls, config: JdbcSourceConfig, monitor: Monitor) -> None:
        """Look for new and dropped tables. A server that is away is waited for."""
        while True:
            try:
                monitor.compare(cls.plan(config, monitor.max_tasks, monitor.partitions))
            except RetriableError as error:
                monitor.warn(error)
            if not monitor.wait(config.table_poll_interval_ms):
                return

    @classmethod
    def alter_offsets(
        cls, config: JdbcSourceConfig, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Refuse offsets that the mode cannot go on from."""
        for partition in partitions:
            if partition.offset is not None:
                check_key(partition, is_query=bool(config.query))
                check_mode(partition.offset, config_of(config, partition).mode)
                _reader(_relations(config, partition), partition.offset)
        return partitions

    def init(self, config: JdbcSourceConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self._session = Session(config, self.stopping)
        self._turns: list[_Turn] = []
        self._failures = 0

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on in every table where its offset says."""
        connection = self._session.connection()
        self._all_visible = time.monotonic() + self.config.timestamp_delay_interval_ms
        for partition in partitions:
            relations = _relations(self.config, partition)
            reader = _reader(relations, partition.offset)
            self._turns.append(_Turn(partition, reader, relations.config.poll_every))
        _check_columns(self.config, connection, partitions)

    def read_batch(self) -> Batch | None:
        """Return rows of the table whose turn it is."""
        began = time.monotonic()
        for turn in [turn for turn in self._open_turns() if turn.due <= began]:
            if self.stopping.is_set():
                return None
            self._turns.remove(turn)
            self._turns.append(turn)  # at the end of the line: tables take turns
            batch = self._poll(turn)
            turn.due = 0.0 if turn.reader.more else time.monotonic() + turn.pause(began)
            if batch is not None:
                return batch
        return None

    def wait(self, timeout: float) -> None:
        """Block until the next poll is due."""
        dues = (turn.due for turn in self._open_turns())
        due = min(dues, default=float("inf")) - time.monotonic()
        self._woken.wait(max(min(timeout, due), 0))
        self._woken.clear()

    def caught_up(self) -> bool:
        """Return whether every table was polled to its end."""
        return all(turn.caught_up for turn in self._turns)

    def close(self) -> None:
        """Close all connections."""
        for turn in self._turns:
            turn.reader.close()
        self._session.close()

    def _open_turns(self) -> list[_Turn]:
        """Return the tables to poll. A copy reads each once: another pass would copy it again."""
        return [turn for turn in self._turns if not (self.until_caught_up and turn.caught_up)]

    def _poll(self, turn: _Turn) -> Batch | None:
        """Return the next rows of a table. What a new session or a new look at the catalog may heal
        is tried again.
        """
        for _ in range(_CHANGES):
            began = time.monotonic()
            try:
                batch = turn.reader.poll(self._session)
            except Changed:
                continue
            except ConnectorError as error:
                self._fail(turn, error)
                return None
            self._failures = 0
            turn.caught_up = turn.caught_up or (
                turn.reader.caught_up and began >= self._all_visible
            )
            return batch
        raise RetriableError(
            "jdbc.changing",
            f"{turn.partition.id} changes faster than it is read",
            fix="It is tried again.",
        )

    def _fail(self, turn: _Turn, error: ConnectorError) -> None:
        """Wait for what can be healed; raise everything else."""
        if error.code == "sql.no_table" and not turn.reader.midway:
            self._turns.remove(turn)  # dropped: the monitor tells, and the plan follows
            _log.warning("a table is gone: %s", error)
            return
        self._failures += 1
        healing = isinstance(error, RetriableError) and not turn.reader.midway
        if not healing or self._failures >= self.config.connection_attempts:
            raise error
        _log.warning("trying again: %s", error)
        turn.reader.renew()
        self._session.close()
        if self._failures > 1:
            self.stopping.wait(self.config.connection_backoff_ms)


def _datasets(config: JdbcSourceConfig, connection: Connection) -> Iterator[Dataset]:
    if config.query:
        relation = look_up(config, connection, None)
        schema = row_schema(config, relation.columns)
        yield Dataset("query", relation.dataset, schema)
        return
    dialect, tables = config.dialect, find_tables(config, connection)
    selected = set(chosen(config, tables))
    datasets = {
        table: Dataset(
            text_of(table, dialect.naming), dataset_of(config, table), selected=table in selected
        )
        for table in tables
    }
    yield from with_columns(
        datasets, dialect, connection, lambda shape: row_schema(config, shape.columns)
    )


def _find(config: JdbcSourceConfig, partition: Partition, connection: Connection) -> Relation:
    table = table_of(partition, config.dialect.naming) if "table" in partition.key else None
    return look_up(config, connection, table)


def _relations(config: JdbcSourceConfig, partition: Partition) -> Relations:
    of_table = config_of(config, partition)
    return Relations(of_table, functools.partial(_find, of_table, partition), partition)


def _reader(relations: Relations, offset: Mapping[str, Any] | None) -> Reader:
    match relations.config.mode:
        case "bulk":
            return BulkReader(relations, offset)
        case "incrementing":
            return IncrementingReader(relations, offset)
    return StampedReader(relations, offset)


def _check_columns(
    config: JdbcSourceConfig, connection: Connection, partitions: Sequence[Partition]
) -> None:
    """Refuse tables that their mode cannot read, all of them at once, before anything is read."""
    without_column = []
    for partition in partitions:
        try:
            _check_table(config_of(config, partition), connection, partition)
        except ConfigError as error:
            if error.code != NO_INCREMENTING_COLUMN or "table" not in partition.key:
                raise
            without_column.append(str(table_of(partition, config.dialect.naming)))
    if without_column:
        raise no_incrementing_column(without_column)


def _check_table(config: JdbcSourceConfig, connection: Connection, partition: Partition) -> None:
    try:
        relation = _find(config, partition, connection)
    except ConnectorError as error:
        if error.code == "sql.no_table":
            return  # dropped since it was planned
        raise
    if "incrementing" in config.mode:
        incrementing_column(config, relation)
    if "timestamp" in config.mode:
        timestamp_columns(config, relation)
