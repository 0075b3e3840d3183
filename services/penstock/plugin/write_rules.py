"""What a write stream may answer: rules R11, R12, R13 of the protocol, as plain functions."""

from __future__ import annotations

from typing import Final

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.model.connector import CommitMode
from penstock.model.errors import ConfigError, FencedError
from penstock.model.stream import PreparedTxn, WriteOpened
from penstock.plugin.describe import commit_mode
from penstock.plugin.failures import violation
from penstock.plugin.limits import WRITE_ENCODINGS
from penstock.wire import connector as connector_wire

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
