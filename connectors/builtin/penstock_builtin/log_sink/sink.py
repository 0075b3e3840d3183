"""`log-sink`: prints rows that count, and never more than the log can take."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import pyarrow as pa

from penstock_builtin.log_sink.line import Lines
from penstock_builtin.rowcolumns import OP, changes, row_names
from penstock_connector import CommitMode, ConfigError, Staging, TransactionalSink, key
from penstock_connector.reach import Reaching

_MOST: Final = 100
"""Most rows a second that may be asked for. A host logs 200 lines a second of a plugin, and drops
the others: beyond this, the task's own words would be among those."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LogSinkConfig(Reaching):
    """What of the rows is printed, and how many of them."""

    prefix: str = key("", doc="Begins every line, before the task's id.")
    rows_per_second: int = key(
        20,
        doc="Most rows that are printed a second, from 1 to 100; the others are counted: "
        "`… 980 rows not shown`.",
    )
    columns: tuple[str, ...] = key((), doc="Columns to print. Empty: all.")
    secret_columns: tuple[str, ...] = key(
        (),
        doc="Columns and nested fields, at any depth, whose values are printed as `***`; "
        "`a.b` is b inside of a.",
    )
    reserved_columns: bool = key(
        False, doc="Print columns like `__op`, too; `__op` of changes always."
    )
    row_characters: int = key(1000, doc="Most characters of a row; the rest is cut off.")
    level: str = key("info", doc="Level of the lines.", choices=("info", "warn", "error"))

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if not 1 <= self.rows_per_second <= _MOST:
            raise ConfigError(
                "config.invalid_value",
                f"'rows.per.second' is {self.rows_per_second}, and must be from 1 to {_MOST}",
                fix="Rows beyond it are counted, not lost to any other sink.",
                config_path="rows.per.second",
            )
        if self.row_characters < 1:
            raise ConfigError(
                "config.invalid_value",
                "'row.characters' must be at least 1",
                config_path="row.characters",
            )


class Allowance:
    """At most so many rows in any second that begins with the first of them."""

    def __init__(self, a_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_second, self._clock = a_second, clock
        self._since, self._taken = clock(), 0

    def take(self, rows: int) -> int:
        """Return how many of these rows may be printed now."""
        now = self._clock()
        if now - self._since >= 1:
            self._since, self._taken = now, 0
        given = min(rows, self._a_second - self._taken)
        self._taken += given
        return given


@dataclass(slots=True)
class LogStaging:
    """Rows of one attempt: the first few, which alone can be printed, and how many there are."""

    dataset: str
    most: int
    first: list[pa.RecordBatch] = field(default_factory=list)
    kept: int = 0
    rows: int = 0

    def put(self, rows: pa.RecordBatch) -> None:
        """Keep no more rows than can be printed: memory is bounded whatever comes."""
        self.rows += rows.num_rows
        room = min(self.most - self.kept, rows.num_rows)
        if room:
            # taken, not sliced: a slice would keep the whole batch in memory
            self.first.append(rows.take(pa.array(range(room), pa.int32())))
            self.kept += room

    def close(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        """Forget it."""
        self.first.clear()


class LogSink(TransactionalSink[LogSinkConfig]):
    """Rows in the log of the task.

    For a first look at what comes, and for trying out a chain of transforms. Rows beyond
    `rows.per.second` are counted. It stores nothing, and prints a row once more after a crash.
    """

    name = "log-sink"
    title = "Rows in the log of the task"
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.HOST,)

    def connect(self, task_id: str, epoch: int) -> None:
        """Begin a line as the task's."""
        config = self.config
        self._begin = f"{config.prefix} [{task_id}]".lstrip()
        self._lines = Lines(config.secret_columns, config.row_characters)
        self._allowance = Allowance(config.rows_per_second)
        self._level = {"info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}[
            config.level
        ]

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for the first rows."""
        return LogStaging(dataset, self.config.rows_per_second)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Print: only attempts that count are."""
        for staging in staged:
            assert isinstance(staging, LogStaging)  # noqa: S101 - we made them
            self._print(staging)
        return b""

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Nothing is left to do."""

    def _print(self, staging: LogStaging) -> None:
        shown = 0
        for batch in staging.first:
            names = row_names(batch.schema, reserved=self.config.reserved_columns)
            wanted = [n for n in names if not self.config.columns or n in self.config.columns]
            if OP not in wanted and changes(batch) is not None:
                wanted.append(OP)  # a delete must not look like a row
            count = self._allowance.take(batch.num_rows)
            for row in batch.select(wanted).slice(0, count).to_pylist():
                _log.log(self._level, "%s %s %s", self._begin, staging.dataset, self._lines.of(row))
            shown += count
        if staging.rows > shown:
            hidden = staging.rows - shown
            _log.log(self._level, "%s %s … %d rows not shown", self._begin, staging.dataset, hidden)
