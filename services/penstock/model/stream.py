"""Events of a task's source and sink for the driver, and its commands: the control path.

Rows never appear here: they go from source to sink inside of a Spark job (see
`penstock.model.ticket`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.model.connector import CommitMode
from penstock.model.errors import DataError, Diagnostic

if TYPE_CHECKING:  # services that process no rows use these types, too, without loading pyarrow
    import pyarrow as pa

Offsets: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Partition id to offset fields."""


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """One version of a dataset's schema in a stream; batches name it by `schema_id`."""

    schema_id: int
    dataset: str
    arrow: pa.Schema
    key_columns: tuple[str, ...] = ()


# ── events of a source, in stream order


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A schema version of later batches."""

    schema: StreamSchema


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """The position of a row in its topic: partition number and offset."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class BatchReady:
    """A batch that can be fetched by ticket until it is released. `seq` counts from 1 without gaps.

    `position` is that of the first row, for rows of a topic; the other rows follow without gaps.
    `offset` is the partition's offset at the next checkpoint, once there is one.
    """

    seq: int
    schema_id: int
    partition_id: str
    rows: int
    bytes: int
    position: TopicPosition | None = None
    offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point where a commit is possible: `offsets` are valid after all batches up to `last_seq`.
    There may be no rows since the previous checkpoint.

    `rows` counts the rows since the previous checkpoint. `await_commit` requests a commit at once.
    """

    checkpoint_id: int
    offsets: Offsets
    rows: int
    last_seq: int
    await_commit: bool = False


@dataclass(frozen=True, slots=True)
class PartitionDone:
    """A partition ended: it has no more rows."""

    partition_id: str


@dataclass(frozen=True, slots=True)
class Progress:
    """A heartbeat with progress; -1 when unknown. `committed` is the newest checkpoint whose
    acknowledgement the source has received.
    """

    bytes_left: int = -1
    rows_left: int = -1
    committed: int = -1


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read, with its original bytes. `offset` is its own, or that of the
    next checkpoint, once there is one.
    """

    partition_id: str
    raw: bytes
    reason: Diagnostic
    dataset: str = ""
    offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """The last event of a stream."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class SourceWarning:
    """A warning for the user; the source goes on."""

    diagnostic: Diagnostic


ReadEvent: TypeAlias = (
    SchemaVersion
    | BatchReady
    | Checkpoint
    | PartitionDone
    | Progress
    | BadRow
    | EndOfStream
    | SourceWarning
)


# ── the sink


@dataclass(frozen=True, slots=True)
class PreparedTxn:
    """A prepared transaction of a sink. It is stored with the offsets in one fenced write.

    `state` is opaque data of the sink, at most 64 KiB. `token` is canonical JSON of the offsets
    that the transaction covers.
    """

    txn_id: int
    epoch: int
    state: bytes = b""
    token: bytes = b""


@dataclass(frozen=True, slots=True)
class PutSlot:
    """The successful attempt of a slot, with its number of rows. `detail` is the report of the
    sink writer on the executor. `left_out` are rows that are not to be written, by their numbers
    among all rows that were put.
    """

    slot: int
    attempt: int
    rows: int
    detail: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that a sink can never write. `row` is its number among all rows of the slot that were
    put.
    """

    slot: int
    row: int
    reason: Diagnostic


class FailedRowsError(DataError):
    """A sink prepared nothing, since it can never write some rows. It prepares the others when
    these are left out.
    """

    def __init__(self, rows: Sequence[FailedRow]) -> None:
        first = rows[0].reason
        super().__init__(
            first.code or "sink.row_refused",
            f"the sink cannot write {len(rows)} row(s), the first: {first.message}",
            fix=first.fix or "Correct the row at the source, or filter it with a transform.",
            config_path=first.config_path,
            dataset=first.dataset,
        )
        self.rows = tuple(rows)


@dataclass(frozen=True, slots=True)
class WriteOpened:
    """The options of an opened sink.

    `committed` is set in SINK mode: the last transaction in the sink; the task resumes from its
    token. `commit_every` is the interval of commits in seconds; 0: as soon as there are rows.
    `reports_failed_rows`: its `prepare` may raise `FailedRowsError`.
    """

    commit_mode: CommitMode
    committed: PreparedTxn | None = None
    commit_every: float = 0.0
    reports_failed_rows: bool = False
