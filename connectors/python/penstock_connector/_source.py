"""What the author of a source writes.

One task is one `Source` object. All its methods are called from one thread, one at a time, in this
order: `init`, `connect`, then `read_batch` (and `wait` after a None) over and over with `ack` in
between, and `close` at the end, always. Nothing has to be thread-safe.

The SDK does the rest: it encodes batches, keeps them until the host has written them, stops reading
when the host has enough, and numbers everything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import pyarrow as pa

from penstock_connector._alterable import Alterable
from penstock_connector._connector import C
from penstock_connector._errors import ConnectorError
from penstock_connector._monitor import Monitor
from penstock_connector._values import Partition

Rows: TypeAlias = "Sequence[Mapping[str, Any]] | Sequence[Any] | pa.RecordBatch | pa.Table"
"""Rows of a batch: dicts, dataclass instances, or Arrow columns (by far the fastest)."""

_SHORTEST_WAIT: Final = 0.005
"""First wait of a source that has no `wait` of its own. Shorter burns CPU while a source is just
catching its breath; longer adds to the latency of a busy one."""

_LONGEST_WAIT: Final = 0.1
"""Where that wait stops doubling. Longer adds latency to the first row after a silence; shorter
costs CPU for every idle task. A source that can block implements `wait` and pays neither."""


class BadRow(NamedTuple):
    """A row that could not be read.

    Attributes:
        raw: Its bytes as they came.
        error: Why.
        offset: Its own offset, where it has one; otherwise it is near that of its batch.
    """

    raw: bytes
    error: ConnectorError
    offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row that could not be read, to be read again.

    Attributes:
        raw: Its bytes: those of its `BadRow`, or what a user made of them.
        partition: Key of the partition that it is from.
        dataset: That of its batch.
        changes: Columns to set before the bytes are read; None for no value. A text stands for the
            value that the column would have with these characters.
    """

    raw: bytes
    partition: Mapping[str, Any]
    dataset: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Batch:
    """Rows of one dataset and one partition, and the offset after them.

    Attributes:
        rows: The rows; may be empty.
        partition: The partition they are from; None when the task has just one.
        offset: Where to go on after these rows. With an offset, the host may commit here; without
            one, the rows wait for the partition's next batch that has one.
        offsets: Offsets after these rows by partition id (`partition_id`), where they are of many
            partitions, as those of a range are. `partition` names the range then. At most
            10,000: the host stores them in one write.
        dataset: Table, collection or topic.
        key_columns: Names of the columns that identify a row.
        schema: Arrow schema for dict rows; inferred when None.
        bad_rows: Rows that could not be read: their bytes as they came, and why; as `BadRow` with
            their own offsets.
        await_commit: The source cannot go on before this is committed.
        finished_partition: The partition ends here for good.
    """

    rows: Rows = ()
    partition: Partition | Mapping[str, Any] | None = None
    offset: Mapping[str, Any] | None = None
    offsets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dataset: str = ""
    key_columns: Sequence[str] = ()
    schema: pa.Schema | None = None
    bad_rows: Sequence[BadRow | tuple[bytes, ConnectorError]] = field(default_factory=list)
    await_commit: bool = False
    finished_partition: bool = False


@dataclass(frozen=True, slots=True)
class Dataset:
    """Something that a source can read: a table, a file, the result of a query.

    Attributes:
        name: Name outside, as the keys of the configuration name it; no two have the same.
        dataset: `Batch.dataset` of its rows.
        schema: Columns of its rows; None when they are not known before the rows are read.
        key_columns: Names of the columns that identify a row.
        selected: The configuration reads it.
        problem: Why its columns could not be looked up.
    """

    name: str
    dataset: str = ""
    schema: pa.Schema | None = None
    key_columns: Sequence[str] = ()
    selected: bool = True
    problem: ConnectorError | None = None


class Source(Alterable[C]):
    """Reads. A subclass must have a `name` and `read_batch`; everything else has a default.

    Attributes:
        bounded: Ends by itself: `finished` says when.
        needs_commit: Wants `ack` because it prunes or acknowledges upstream.
        replayable: Reads the same rows again from any offset it gave out. Exactly once needs it.
        monitor_every: Seconds between two looks at whether `plan` gives other partitions; 0: never.
        until_caught_up: The task ends once `caught_up` says so. Set before `connect`.
    """

    bounded: ClassVar[bool] = False
    needs_commit: ClassVar[bool] = False
    replayable: ClassVar[bool] = True
    monitor_every: ClassVar[float] = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.until_caught_up = False
        self._woken = threading.Event()
        self._next_wait = _SHORTEST_WAIT

    @classmethod
    def plan(cls, config: C, max_tasks: int, known: Sequence[Partition]) -> Sequence[Partition]:
        """Return the partitions to read; the host spreads them over at most `max_tasks` tasks.

        Must give the same partitions for the same configuration. `known` are those with stored
        offsets.
        """
        return [Partition({"source": cls.name}, bounded=cls.bounded)]

    @classmethod
    def list_datasets(cls, config: C) -> Iterable[Dataset]:
        """Return what can be read over this connection, also what the configuration leaves out.

        Override it where a user may choose: `penstock connector discover` shows it. A generator is
        best, which looks up the columns of a dataset when that is asked for: the host ends it, and
        so runs its `finally`, when it has enough. All of it runs in one thread. Changes nothing
        outside.
        """
        raise NotImplementedError

    @classmethod
    def lists_datasets(cls) -> bool:
        """Return whether it can list its datasets."""
        return cls.list_datasets.__func__ is not Source.list_datasets.__func__  # type: ignore[attr-defined] # class methods

    @classmethod
    def parse_rows(cls, config: C, rows: Sequence[RawRow]) -> Iterable[Batch | ConnectorError]:
        """Return, for each row in order, a batch of exactly this row, or why it is not one.

        Override it in a source with `bad_rows`, so that a user can correct and replay them. The
        batch has the columns and types that `read_batch` gives; its partition and offset are not
        used. Changes nothing outside.
        """
        raise NotImplementedError

    @classmethod
    def parses_rows(cls) -> bool:
        """Return whether it can read single rows again."""
        return cls.parse_rows.__func__ is not Source.parse_rows.__func__  # type: ignore[attr-defined] # class methods

    @classmethod
    def send_signal(cls, config: C, signal: Mapping[str, Any]) -> str:
        """Write a signal to where the tasks read signals; return that place, for people.

        Override it in a source whose tasks can be asked for more than their configuration says,
        such as to read a table again. The signal must be durable when it returns. One with an `id`
        that was written before is there already.

        Args:
            config: The configuration; the connector may be stopped.
            signal: `id` and `type`, both texts, and `data`, an object, as it documents.
        """
        raise NotImplementedError

    @classmethod
    def takes_signals(cls) -> bool:
        """Return whether its tasks can be asked for something."""
        return cls.send_signal.__func__ is not Source.send_signal.__func__  # type: ignore[attr-defined] # class methods

    @classmethod
    def monitored(cls, config: C, max_tasks: int) -> bool:
        """Return whether `monitor` runs for this configuration. By default when there is one."""
        return cls.monitor_every > 0 or cls.monitor.__func__ is not Source.monitor.__func__  # type: ignore[attr-defined] # class methods

    @classmethod
    def monitor(cls, config: C, monitor: Monitor) -> None:
        """Watch for partitions that appear and vanish, until `monitor.wait` says that it is over.

        Runs in a thread of its own, on one worker, for the connector's life. The default asks for a
        new plan when `plan` gives other partitions than are in force. Override it when the outside
        tells of changes by itself.
        """
        while True:
            monitor.compare(cls.plan(config, monitor.max_tasks, monitor.partitions))
            if not monitor.wait(cls.monitor_every):
                return

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Open what is needed to read these partitions from their offsets.

        Those offsets are durable, as those of `ack` are: the last acknowledgement may have been
        lost in a crash.
        """

    def read_batch(self) -> Batch | None:
        """Return the next rows, or None when there are none now. May block for a short time."""
        raise NotImplementedError

    def wait(self, timeout: float) -> None:
        """Block until there may be more rows, or until `timeout` seconds have passed.

        The default sleeps a little longer each time. Override it when the source can block on
        something (a socket, a file watch); then return early when `self.stopping` is set, or
        override `wake` too.
        """
        self._woken.wait(min(timeout, self._next_wait))
        self._woken.clear()
        self._next_wait = min(self._next_wait * 2, _LONGEST_WAIT)

    def wake(self) -> None:
        """Make a running `wait` return. The only method that other threads call."""
        self._woken.set()

    def finished(self) -> bool:
        """Return whether a bounded source has given all its rows. Asked after a None."""
        return False

    def caught_up(self) -> bool:
        """Return whether everything was given that was there when the task connected.

        Override it for a source without an end, so that a copy can end. Asked after each
        `read_batch`, only when the user wants an end (`until.caught.up`).
        """
        raise NotImplementedError

    @classmethod
    def knows_caught_up(cls) -> bool:
        """Return whether it can say that it has caught up."""
        return cls.caught_up is not Source.caught_up

    def remaining(self) -> tuple[int, int]:
        """Return the bytes and the rows that are left; -1 for unknown."""
        return -1, -1

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Learn that all rows up to these offsets are durable: partition id to offset."""
