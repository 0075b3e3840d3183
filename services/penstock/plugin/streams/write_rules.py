"""What a write stream may answer: rules R11, R12, R13 of the protocol, as plain functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.record.v1 import record_pb2
from penstock.model.connector import CommitMode
from penstock.model.errors import ConfigError, FencedError
from penstock.model.stream import PreparedTxn, WriteOpened
from penstock.plugin.describe import commit_mode
from penstock.plugin.errors import violation
from penstock.wire import connector as connector_wire

READ_ENCODINGS: Final = (record_pb2.ENCODING_ARROW_IPC, record_pb2.ENCODING_JSON_LINES)
"""What the executors read, best first."""

WRITE_ENCODINGS: Final = (record_pb2.ENCODING_ARROW_IPC,)
"""What the executors write."""

GRPC_DEFAULT_BYTES: Final = 4 << 20
"""Largest message that a gRPC server takes unless it was told otherwise."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of one stream."""

    credit_bytes: int = 64 << 20
    """Bytes that a source may hold ready. More hides a slow sink for longer and costs memory in the
    plugin; less leaves Spark waiting for a source between two micro-batches."""
    max_message_bytes: int = GRPC_DEFAULT_BYTES
    """Largest gRPC message with rows."""
    target_batch_bytes: int = 4 << 20
    """Wanted size of a batch."""
    max_batch_rows: int = 131_072
    """Most rows in a batch."""
    linger: float = 0.005
    """Seconds that a part-filled batch may wait for more rows. It is latency for every trickling
    source; zero makes a batch of each row."""

    def to_proto(self) -> types_pb2.Limits:
        """Return the message."""
        return types_pb2.Limits(
            max_message_bytes=self.max_message_bytes,
            target_batch_bytes=self.target_batch_bytes,
            max_batch_rows=self.max_batch_rows,
            linger=duration(self.linger),
        )


def duration(seconds: float) -> Duration:
    """Return the message for a time in seconds."""
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message


MOST_STATE_BYTES: Final = 64 * 1024
"""Prepared state is stored with the offsets at each commit (R12)."""

_STRENGTH: Final = {
    CommitMode.UNSPECIFIED: 0,
    CommitMode.HOST: 1,
    CommitMode.IDEMPOTENT: 2,
    CommitMode.SINK: 3,
    CommitMode.TWO_PHASE: 3,
}


def opened(message: pb.WriteOpened, asked: CommitMode, epoch: int) -> WriteOpened:
    """Return how the sink will work.

    Raises:
        ConfigError: `plugin.weaker_commit_mode`: never a quiet downgrade (R13).
        FencedError: `plugin.stale_epoch`: the sink has a transaction of a newer owner (R11).
        InternalError: `plugin.protocol.*`.
    """
    mode = commit_mode(message.commit_mode)
    if mode is CommitMode.UNSPECIFIED:
        raise violation("commit_mode", f"WriteOpened has commit mode {message.commit_mode}")
    if _STRENGTH[mode] < _STRENGTH[asked]:
        raise ConfigError(
            "plugin.weaker_commit_mode",
            f"the sink was asked to commit as {asked.name}, it can only as {mode.name} (R13)",
            suggestion=mode.name.lower(),
            fix="Ask for a weaker commit mode, or choose a sink or a setting of it that has more.",
        )
    if message.encoding not in WRITE_ENCODINGS:
        raise violation("encoding", f"encoding {message.encoding} was not offered")
    committed = None
    if message.HasField("committed"):
        committed = connector_wire.prepared_from_proto(message.committed)
        if committed.epoch > epoch:
            raise FencedError(
                "plugin.stale_epoch",
                f"the sink has a transaction of epoch {committed.epoch}; this task has {epoch}",
                fix="A newer task writes there: this one ends by itself. If none does, the sink "
                "belongs to another connector.",
            )
    every = message.commit_every.ToTimedelta().total_seconds()
    return WriteOpened(mode, committed, max(0.0, every))


def prepared(message: pb.Prepared, txn_id: int, epoch: int, token: bytes) -> PreparedTxn:
    """Return what the sink prepared, with the host's own token.

    Raises:
        InternalError: `plugin.protocol.*`.
    """
    txn = message.txn
    if txn.epoch != epoch:
        raise violation(
            "epoch", f"transaction {txn_id} was prepared for epoch {txn.epoch}, not {epoch} (R11)"
        )
    if len(txn.state) > MOST_STATE_BYTES:
        raise violation(
            "state_size",
            f"the state of transaction {txn_id} has {len(txn.state)} bytes, "
            f"{MOST_STATE_BYTES} are allowed (R12)",
        )
    if message.safe_offsets:
        # Fewer rows are safe than the offsets say: to ignore it would lose rows (invariant 1).
        raise violation(
            "feature_not_agreed", "Prepared.safe_offsets needs a feature that this host has not"
        )
    return PreparedTxn(txn_id, epoch, txn.state, token)
