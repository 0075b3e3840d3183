"""What the two ends of a task tell the driver, and what it answers: the control side of the data
path.

Rows never appear here; they go from end to end inside a Spark job (see `penstock.model.ticket`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.model.connector import CommitMode
from penstock.model.errors import Diagnostic

if TYPE_CHECKING:  # services that move no rows know these words, too, and need not load it
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


# ── events of a read end, in stream order
# ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SchemaSeen:
    """A schema version that later batches use."""

    schema: StreamSchema


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """Where a row stands in its topic: number of the partition, and offset."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class BatchReady:
    """A batch that can be fetched by ticket until it is released. `seq` counts from 1 without
    gaps.

    `place` is that of the first row, where rows are of a topic: the others follow without gaps.
    `offset` of its partition holds at the checkpoint behind it, once there is one.
    """

    seq: int
    schema_id: int
    partition_id: str
    rows: int
    bytes: int
    place: TopicPlace | None = None
    offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place where a commit may be: `offsets` hold after all batches up to `last_seq`. May follow
    no rows at all.

    `rows` counts the rows since the checkpoint before. `await_commit` asks for a commit at once.
    """

    checkpoint_id: int
    offsets: Offsets
    rows: int
    last_seq: int
    await_commit: bool = False


@dataclass(frozen=True, slots=True)
class PartitionDone:
    """A partition ended: `finished` for good, or given up."""

    partition_id: str
    finished: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """A heartbeat with numbers; -1 when unknown. `committed` is the newest checkpoint that the
    source says it was told of.
    """

    bytes_left: int = -1
    rows_left: int = -1
    committed: int = -1


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read, with its original bytes. `offset` is its own, or holds at the
    checkpoint behind it, once there is one.
    """

    partition_id: str
    raw: bytes
    reason: Diagnostic
    dataset: str = ""
    offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """The last event: nothing follows."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a person should see; work goes on."""

    diagnostic: Diagnostic


ReadEvent: TypeAlias = (
    SchemaSeen | BatchReady | Checkpoint | PartitionDone | Progress | BadRow | Drained | Warned
)


# ── the write end
# ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PreparedTxn:
    """What a write end prepared. Stored with the offsets in one fenced write; `state` ≤ 64 KiB,
    opaque to the host.

    `token` is canonical JSON of the offsets the transaction covers.
    """

    txn_id: int
    epoch: int
    state: bytes = b""
    token: bytes = b""


@dataclass(frozen=True, slots=True)
class PutSlot:
    """An attempt at a slot that counts, with the rows in it. `detail` is what the executor's end
    reported.
    """

    slot: int
    attempt: int
    rows: int
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteOpened:
    """How a write end will work.

    `committed` is set in SINK mode: the last transaction in the sink, from whose token the task
    resumes.
    `commit_every` is the wanted time between commits in seconds; 0 for as soon as there are rows.
    """

    commit_mode: CommitMode
    committed: PreparedTxn | None = None
    commit_every: float = 0.0


@dataclass(frozen=True, slots=True)
class TxnCommitted:
    """A transaction became visible. `info` is for lineage: table version, file names."""

    txn_id: int
    rows: int = 0
    info: Mapping[str, str] = field(default_factory=dict)
