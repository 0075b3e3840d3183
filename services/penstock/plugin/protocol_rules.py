"""The rules of the protocol for what a plugin sends, without I/O.

- `ReadRules`: batches, checkpoints and partitions of a read stream (R5, R8, R9)
- `check_opened`, `check_prepared`: answers of a write stream (R11, R12, R13)
- `schema_from_proto`: Arrow schemas, their key columns and reserved columns (R20)
- `DatasetRules`: datasets that a source lists

The first message that breaks a rule raises an InternalError `plugin.protocol.<rule>`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.record.v1 import record_pb2
from penstock.model import columns
from penstock.model.connector import CommitMode
from penstock.model.errors import ConfigError, ErrorClass, FencedError
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    FailedRow,
    PreparedTxn,
    PutSlot,
    StreamSchema,
    WriteOpened,
)
from penstock.plugin.errors import escape_text, protocol_violation
from penstock.wire.connector import PREPARED
from penstock_values.identity import is_partition_id
from penstock_values.schemas import InvalidSchemaError, decode_schema

MAX_READY_BATCHES: Final = 65_536
"""Batches that may be ready and not released. The host keeps about 100 bytes of each."""
MAX_SCHEMAS: Final = 100_000
MAX_DATASET_NAME: Final = 8_192
"""Characters of the name of a dataset: a path of a file may have 4,096 bytes, a URL more."""
MAX_BATCH_ROWS: Final = 1 << 20
"""Rows of a batch that the executors take (`penstock_values.frame_bounds`)."""


class ReadRules:
    """Checks the frames of one read stream in their order and refuses the first that is wrong."""

    def __init__(
        self, credit_bytes: int, own: Container[str] | None = None, known: Container[str] = ()
    ) -> None:
        """`own`: ids of the partitions that may have offsets. None: any id. `known`: some of them,
        which are not checked again.
        """
        self._own, self._known = own, known
        self.schemas: dict[int, StreamSchema] = {}
        self.last_checkpoint = 0
        self.drained = False
        self._credit_bytes = credit_bytes
        self._held_bytes = 0  # ready and not released
        self._ready: deque[BatchReady] = deque()
        self._announced_bytes: dict[int, int] = {}  # of each ready batch
        self._last_seq = 0
        self._released_seq = 0
        self._rows = 0  # since the last checkpoint
        self._committed_checkpoint = 0  # the source was notified of it
        self._confirmed_checkpoint = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that are ready and not released."""
        return self._held_bytes

    def check_schema(self, schema: StreamSchema) -> None:
        """Check a schema: an id means the same schema for the whole stream."""
        self.check_not_drained("a schema")
        known = self.schemas.setdefault(schema.schema_id, schema)
        if known is not schema and known != schema:
            raise protocol_violation(
                "schema_changed", f"schema {schema.schema_id} was sent twice, with other content"
            )
        if len(self.schemas) > MAX_SCHEMAS:
            raise protocol_violation(
                "too_many_schemas", f"more than {MAX_SCHEMAS} schemas in one stream"
            )

    def check_batch(self, ready: BatchReady) -> None:
        """Check a batch that can be fetched, and count it."""
        self.check_not_drained(f"batch {ready.seq}")
        if ready.seq != self._last_seq + 1:
            raise protocol_violation(
                "seq_gap", f"batch {ready.seq} came after batch {self._last_seq} (R8)"
            )
        if ready.schema_id not in self.schemas:
            raise protocol_violation(
                "unknown_schema",
                f"batch {ready.seq} has schema {ready.schema_id}, which was not sent before",
            )
        if ready.rows > MAX_BATCH_ROWS:
            raise protocol_violation(
                "too_many_rows",
                f"batch {ready.seq} has {ready.rows} rows; at most {MAX_BATCH_ROWS} are allowed",
            )
        check_partition_id(ready.partition_id)
        # One batch may overdraw the credit, so that a row larger than the credit cannot block. No
        # batch may follow it.
        if self._held_bytes >= self._credit_bytes:
            raise protocol_violation(
                "credit_overdrawn",
                f"batch {ready.seq} was made ready while {self._held_bytes} of "
                f"{self._credit_bytes} allowed bytes were ready (R9)",
            )
        if len(self._ready) >= MAX_READY_BATCHES:
            raise protocol_violation(
                "credit_overdrawn", f"more than {MAX_READY_BATCHES} batches are ready (R9)"
            )
        self._last_seq = ready.seq
        self._held_bytes += ready.bytes
        self._rows += ready.rows
        self._ready.append(ready)
        self._announced_bytes[ready.seq] = ready.bytes

    def check_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Check a checkpoint: a point after which a commit is possible."""
        self.check_not_drained(f"checkpoint {checkpoint.checkpoint_id}")
        if checkpoint.checkpoint_id != self.last_checkpoint + 1:
            raise protocol_violation(
                "checkpoint_gap",
                f"checkpoint {checkpoint.checkpoint_id} came after "
                f"checkpoint {self.last_checkpoint} (R8)",
            )
        if checkpoint.last_seq != self._last_seq:
            raise protocol_violation(
                "checkpoint_place",
                f"checkpoint {checkpoint.checkpoint_id} claims to follow batch "
                f"{checkpoint.last_seq}; it follows batch {self._last_seq}",
            )
        if checkpoint.rows != self._rows:
            raise protocol_violation(
                "row_count",
                f"checkpoint {checkpoint.checkpoint_id} claims {checkpoint.rows} rows; "
                f"{self._rows} were made ready (R5)",
            )
        for id_ in checkpoint.offsets:
            if id_ in self._known:
                continue
            check_partition_id(id_)
            if self._own is not None and id_ not in self._own:
                raise protocol_violation(
                    "unknown_partition",
                    f"checkpoint {checkpoint.checkpoint_id} has an offset of partition "
                    f"{escape_text(id_, 200)}, which is not in the plan of the task",
                )
        self.last_checkpoint = checkpoint.checkpoint_id
        self._rows = 0

    def check_drained(self, checkpoint_id: int) -> None:
        """Check the end. A source leaves no row after its last checkpoint."""
        self.check_not_drained("a second Drained")
        if checkpoint_id != self.last_checkpoint:
            raise protocol_violation(
                "checkpoint_gap",
                f"Drained names checkpoint {checkpoint_id}, the last was {self.last_checkpoint}",
            )
        if self._rows:
            raise protocol_violation(
                "rows_left", f"the source ended with {self._rows} rows after its last checkpoint"
            )
        self.drained = True

    def check_not_drained(self, what: str) -> None:
        """Refuse a frame that comes after Drained."""
        if self.drained:
            raise protocol_violation("after_drained", f"{what} came after Drained")

    def mark_committed(self, checkpoint_id: int) -> None:
        """Record that the source is about to be notified of the commit of a checkpoint."""
        self._committed_checkpoint = checkpoint_id

    def check_confirmed(self, checkpoint_id: int) -> None:
        """Check the commit that the source confirms to know of; 0 confirms nothing."""
        if checkpoint_id > self._committed_checkpoint:
            raise protocol_violation(
                "confirmed_unknown",
                f"the source confirms checkpoint {checkpoint_id}; the last commit that it was "
                f"notified of is {self._committed_checkpoint}",
            )
        if 0 < checkpoint_id < self._confirmed_checkpoint:
            raise protocol_violation(
                "confirmed_back",
                f"the source confirms checkpoint {checkpoint_id} after "
                f"{self._confirmed_checkpoint}",
            )
        self._confirmed_checkpoint = max(self._confirmed_checkpoint, checkpoint_id)

    def release(self, seq: int) -> bool:
        """Release all batches up to `seq`; return whether there were any."""
        before = self._released_seq
        while self._ready and self._ready[0].seq <= seq:
            batch = self._ready.popleft()
            self._held_bytes -= batch.bytes
            del self._announced_bytes[batch.seq]
            self._released_seq = batch.seq
        return self._released_seq > before

    def announced_bytes(self, seq: int) -> int:
        """Return the size in bytes with which a fetchable batch was announced."""
        return self._announced_bytes[seq]

    def is_fetchable(self, seq: int) -> bool:
        """Return whether a batch was made ready and not released."""
        return self._released_seq < seq <= self._last_seq


@lru_cache(maxsize=4096)
def check_partition_id(id_: str) -> None:
    """Refuse an id that is not the canonical JSON of a key: it would match no stored offset."""
    if not is_partition_id(id_):
        raise protocol_violation(
            "partition_id",
            f"{escape_text(id_, 200)!r} is not the canonical JSON of the key of a partition",
        )


READ_ENCODINGS: Final = (record_pb2.ENCODING_ARROW_IPC, record_pb2.ENCODING_JSON_LINES)
"""Encodings that the executors read, best first."""

MAX_STATE_BYTES: Final = 64 * 1024
"""Prepared state is stored with the offsets at each commit (R12)."""

_STRENGTH: Final = {
    CommitMode.UNSPECIFIED: 0,
    CommitMode.HOST: 1,
    CommitMode.IDEMPOTENT: 2,
    CommitMode.SINK: 3,
    CommitMode.TWO_PHASE: 3,
}


def commit_mode(number: int) -> CommitMode:
    """Return the commit mode; a mode of a newer protocol version reads as unspecified."""
    return CommitMode(number) if number in list(CommitMode) else CommitMode.UNSPECIFIED


def check_opened(message: pb.WriteOpened, requested: CommitMode, epoch: int) -> WriteOpened:
    """Return how the sink commits.

    Raises:
        ConfigError: `plugin.weaker_commit_mode`: the sink offers less than was requested; a commit
            mode is never downgraded silently (R13).
        FencedError: `plugin.stale_epoch`: the sink has a transaction of a newer epoch (R11).
        InternalError: `plugin.protocol.*`.
    """
    mode = commit_mode(message.commit_mode)
    if mode is CommitMode.UNSPECIFIED:
        raise protocol_violation(
            "commit_mode", f"WriteOpened has commit mode {message.commit_mode}"
        )
    if _STRENGTH[mode] < _STRENGTH[requested]:
        raise ConfigError(
            "plugin.weaker_commit_mode",
            f"commit mode {requested.name} was requested; the sink offers {mode.name} (R13)",
            suggestion=mode.name.lower(),
            fix="Request a weaker commit mode, or use another sink, or a setting of this one that "
            "has the stronger mode.",
        )
    committed = None
    if message.HasField("committed"):
        committed = PREPARED.from_proto(message.committed)
        if committed.epoch > epoch:
            raise FencedError(
                "plugin.stale_epoch",
                f"the sink has a transaction of epoch {committed.epoch}; this task has {epoch}",
                fix="A newer task writes to the sink, and this one ends by itself. If no newer "
                "task runs, the sink belongs to another connector.",
            )
    every = message.commit_every.ToTimedelta().total_seconds()
    return WriteOpened(mode, committed, max(0.0, every), message.reports_failed_rows)


_MAX_FAILED_ROWS: Final = 1_000
"""Failed rows of an answer."""


def check_failed_rows(
    rows: Sequence[FailedRow], slots: Sequence[PutSlot], *, is_tolerant: bool
) -> None:
    """Check the rows that the sink cannot write.

    Raises:
        InternalError: `plugin.protocol.failed_rows`.
    """
    known = {slot.slot: set(slot.left_out) for slot in slots}
    wrong = ""
    if not is_tolerant:
        wrong = "failed rows are named, and the host does not tolerate them"
    elif len(rows) > _MAX_FAILED_ROWS:
        wrong = f"{len(rows)} failed rows are named at once; {_MAX_FAILED_ROWS} are allowed"
    for one in rows:
        if one.slot not in known:
            wrong = wrong or f"a failed row is in slot {one.slot}, which was not named"
        elif one.row in known[one.slot]:
            wrong = wrong or f"failed row {one.row} of slot {one.slot} is named twice"
        elif one.reason.error_class not in {ErrorClass.DATA, ErrorClass.UNSPECIFIED}:
            wrong = wrong or f"failed row {one.row} of slot {one.slot} is no error of its data"
        known.setdefault(one.slot, set()).add(one.row)
    if wrong:
        raise protocol_violation("failed_rows", wrong)


def check_prepared(message: pb.Prepared, txn_id: int, epoch: int, token: bytes) -> PreparedTxn:
    """Return the transaction that the sink prepared, with the token of the host.

    Raises:
        InternalError: `plugin.protocol.*`.
    """
    txn = message.txn
    if txn.epoch != epoch:
        raise protocol_violation(
            "epoch", f"transaction {txn_id} was prepared for epoch {txn.epoch}, not {epoch} (R11)"
        )
    if len(txn.state) > MAX_STATE_BYTES:
        raise protocol_violation(
            "state_size",
            f"the state of transaction {txn_id} has {len(txn.state)} bytes; at most "
            f"{MAX_STATE_BYTES} are allowed (R12)",
        )
    return PreparedTxn(txn_id, epoch, txn.state, token)


_RESERVED_TYPES: Final = {
    columns.OP: (pa.int8(),),
    columns.TS_US: (pa.int64(),),
    columns.HEADERS: (pa.map_(pa.string(), pa.binary()),),
    columns.OFFSET: (pa.binary(), pa.large_binary(), pa.int64()),
    columns.PARTITION: (pa.int32(),),
    columns.RAW_KEY: (pa.binary(), pa.large_binary()),
    columns.RAW_VALUE: (pa.binary(), pa.large_binary()),
}


def schema_from_proto(message: record_pb2.Schema) -> StreamSchema:
    """Return the schema in a frame.

    Raises:
        InternalError: `plugin.protocol.bad_schema`.
    """
    try:
        schema = decode_schema(message.arrow_schema)
    except InvalidSchemaError as error:
        raise _invalid_schema(message, escape_text(str(error), 200)) from None
    _check_columns(message, schema)
    return StreamSchema(message.schema_id, message.dataset, schema, tuple(message.key_columns))


class DatasetRules:
    """Checks the datasets of one list: each has a name of its own and acceptable columns."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def check(self, dataset: connector_pb.Dataset) -> StreamSchema | None:
        """Check a dataset. Return its schema; None when its columns are not known.

        Raises:
            InternalError: `plugin.protocol.dataset_name`, `plugin.protocol.bad_schema`.
        """
        name = dataset.name
        shown = escape_text(name, 200)
        if not name or max(len(name), len(dataset.dataset)) > MAX_DATASET_NAME:
            raise protocol_violation(
                "dataset_name",
                f"the dataset {shown!r} has no name, or one of more than {MAX_DATASET_NAME} "
                "characters",
            )
        if name in self._names:
            raise protocol_violation("dataset_name", f"the dataset {shown!r} was listed twice")
        self._names.add(name)
        if not dataset.arrow_schema:
            return None
        return schema_from_proto(
            record_pb2.Schema(
                dataset=name,
                arrow_schema=dataset.arrow_schema,
                key_columns=dataset.key_columns,
            )
        )


def schema_to_proto(schema: StreamSchema) -> record_pb2.Schema:
    """Return the frame for a schema."""
    return record_pb2.Schema(
        schema_id=schema.schema_id,
        dataset=schema.dataset,
        arrow_schema=schema.arrow.serialize().to_pybytes(),
        key_columns=schema.key_columns,
    )


def _check_columns(message: record_pb2.Schema, schema: pa.Schema) -> None:
    names: list[str] = schema.names
    for key in message.key_columns:
        if key not in names:
            raise _invalid_schema(
                message, f"lacks the column {escape_text(key, 100)!r}, which it names as a key"
            )
    for name, types in _RESERVED_TYPES.items():
        if name in names and schema.field(name).type not in types:
            raise _invalid_schema(
                message, f"has {name} as {schema.field(name).type}, not {types[0]} (R20)"
            )


def _invalid_schema(message: record_pb2.Schema, why: str) -> Exception:
    return protocol_violation(
        "bad_schema", f"schema {message.schema_id} of {escape_text(message.dataset, 200)!r} {why}"
    )
