"""The rules of claims and commits: which epoch may commit, and the task record after it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.model import faults
from penstock.model.errors import ConfigError, FencedError, InternalError, RetriableError

MAX_STATE_BYTES: Final = 64 << 10
"""Bytes of the prepared state of a sink (rule R12)."""

MAX_OFFSET_BYTES: Final = 64 << 10
"""Bytes of one offset."""

MAX_PARTITION_ID_BYTES: Final = 8 << 10
"""Bytes of a partition id."""

_GENERATION: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TASK: Final = re.compile(r"[A-Za-z0-9_.:-]{1,255}")


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that a sink prepared at an epoch. `body` is stored and returned unchanged."""

    txn_id: int
    body: bytes
    state_bytes: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """The commit state of a task.

    `applied`: the last prepared transaction is visible in the sink. `claim` counts the claims: a
    task that restarts at the same epoch has one more.
    """

    epoch: int
    prepared: PreparedTransaction | None = None
    applied: bool = True
    claim: int = 1

    @property
    def needs_recovery(self) -> bool:
        """Whether the sink must apply the last transaction again."""
        return self.prepared is not None and not self.applied


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a task.

    `offsets` are the encoded offsets by partition id. `claim` is the number of the claim that the
    commit belongs to; 0 means unknown, and is not compared.
    """

    generation: str
    task_id: str
    epoch: int
    offsets: Mapping[str, bytes]
    prepared: PreparedTransaction | None = None
    applied_txn_id: int = 0
    claim: int = 0


def apply_claim(record: TaskRecord | None, floor: int, epoch: int) -> TaskRecord:
    """Return the record of a task that `epoch` claims.

    An epoch may claim a task that it owns already. After an error a task restarts at its epoch; the
    new claim fences a commit of the run before that may still be under way.

    Raises:
        FencedError: `offset.stale_epoch`.
    """
    known = max(floor + 1, record.epoch if record else 0)
    if is_stale(epoch, known):
        raise stale_epoch("the task", epoch, known)
    if record is None:
        return TaskRecord(epoch)
    return replace(record, epoch=max(record.epoch, epoch), claim=record.claim + 1)


def apply_commit(record: TaskRecord | None, floor: int, commit: Commit) -> TaskRecord | None:
    """Return the record after a commit; None when this same commit is already stored.

    Raises:
        FencedError: `offset.stale_epoch`.
        InternalError: `offset.not_claimed`, `offset.not_applied`.
        RetriableError: `offset.claimed_again`; `offset.txn_superseded`: claim again, and read what
            was stored.
    """
    if record is None or (commit.epoch > record.epoch and commit.epoch > floor):
        raise InternalError(
            "offset.not_claimed",
            f"epoch {commit.epoch} of task {commit.task_id} commits without a claim",
            fix="Claim the task before its first commit.",
        )
    known = max(floor + 1, record.epoch)
    if is_stale(commit.epoch, known):
        raise stale_epoch(f"task {commit.task_id}", commit.epoch, known)
    if is_old_claim(commit, record):
        raise _claimed_again(commit.task_id, commit.claim, record.claim)
    old, new = record.prepared, commit.prepared
    applied = record.applied or (old is not None and commit.applied_txn_id >= old.txn_id)
    if new is None:
        return replace(record, applied=applied)
    if old is not None and new.txn_id <= old.txn_id:
        if new == old:
            return None
        raise _superseded(commit.task_id, new.txn_id, old.txn_id)
    if not applied:  # the state of the old transaction would be lost, and its rows with it
        raise InternalError(
            "offset.not_applied",
            f"task {commit.task_id} prepared transaction {new.txn_id} before transaction "
            f"{old.txn_id if old else 0} was applied",
            fix="Commit transactions in order, and send the id of the last one that was applied.",
        )
    return replace(record, prepared=new, applied=commit.applied_txn_id >= new.txn_id)


def check_partition_epoch(partition_id: str, written_by: int, epoch: int) -> None:
    """Refuse to overwrite an offset of a newer epoch: partitions move between tasks.

    Raises:
        FencedError: `offset.stale_epoch`.
    """
    if is_stale(epoch, written_by):
        raise stale_epoch(f"partition {partition_id[:200]}", epoch, written_by)


def is_stale(epoch: int, known: int) -> bool:
    """Return whether an epoch is older than a known one (invariant 4)."""
    return epoch < known and not faults.hit("offset.epoch_check")


def is_old_claim(commit: Commit, record: TaskRecord) -> bool:
    """Return whether a commit belongs to an earlier claim of the same epoch.

    The run that claimed later may have deleted what this commit prepared, so its offsets must not
    count (invariant 1).
    """
    if not commit.claim or commit.epoch != record.epoch or commit.claim == record.claim:
        return False
    return not faults.hit("offset.claim_check")


def _claimed_again(task_id: str, claim: int, newest: int) -> RetriableError:
    return RetriableError(
        "offset.claimed_again",
        f"a commit of task {task_id} belongs to claim {claim}, the newest claim is {newest}",
        fix="Claim the task again before its next commit.",
    )


def stale_epoch(subject: str, epoch: int, known: int) -> FencedError:
    """Return the error for a fenced epoch."""
    return FencedError(
        "offset.stale_epoch",
        f"{subject} is at epoch {known}, {epoch} is older",
        fix="Stop the task: another owner has claimed it, or an operator altered the offsets.",
    )


def check_task(generation: str, task_id: str, epoch: int) -> None:
    """Refuse a generation or task id that cannot be part of a key, and an epoch below 1.

    Raises:
        ConfigError: `offset.invalid`.
    """
    check_generation(generation)
    if not _TASK.fullmatch(task_id):
        raise _invalid(f"{task_id[:100]!r} is not a task id")
    if epoch < 1:
        raise _invalid(f"epoch {epoch} is less than 1")


def check_generation(generation: str) -> None:
    """Refuse a generation that cannot be part of a key.

    Raises:
        ConfigError: `offset.invalid`.
    """
    if not _GENERATION.fullmatch(generation):
        raise _invalid(f"{generation[:100]!r} is not a generation")


def check_sizes(
    offsets: Mapping[str, bytes | None], prepared: PreparedTransaction | None = None
) -> None:
    """Refuse what is over a limit (invariant 12).

    Raises:
        ConfigError: `offset.invalid`, `offset.state_too_large`.
    """
    for id_, body in offsets.items():
        if not id_ or len(id_.encode()) > MAX_PARTITION_ID_BYTES:
            raise _invalid(
                f"partition id {id_[:100]!r} has {len(id_.encode())} bytes, expected 1 to "
                f"{MAX_PARTITION_ID_BYTES}"
            )
        if len(body or b"") > MAX_OFFSET_BYTES:
            raise _invalid(
                f"the offset of {id_[:100]} has {len(body or b'')} bytes, the limit is "
                f"{MAX_OFFSET_BYTES}"
            )
    if prepared is not None and prepared.state_bytes > MAX_STATE_BYTES:
        raise ConfigError(
            "offset.state_too_large",
            f"the sink prepared {prepared.state_bytes} bytes of state, the limit is "
            f"{MAX_STATE_BYTES}",
            fix="Commit smaller transactions, or store the list of parts in the sink.",
        )


def check_count(number: int, limit: int, fix: str) -> None:
    """Refuse more partitions than one call may have (invariant 12).

    Raises:
        ConfigError: `offset.too_many`.
    """
    if number > limit:
        raise ConfigError(
            "offset.too_many", f"the call names {number} partitions, the limit is {limit}", fix=fix
        )


def rewind_time_ms(nanoseconds: int) -> int:
    """Return the time to rewind to, in milliseconds since the Unix epoch.

    Raises:
        ConfigError: `offset.time`: it is not set.
    """
    if nanoseconds <= 0:
        raise ConfigError(
            "offset.time",
            "the time to rewind to is not set",
            fix="Set a time after 1970; to start from the beginning, reset the offsets.",
        )
    return nanoseconds // 1_000_000


def _superseded(task_id: str, txn_id: int, last: int) -> RetriableError:
    return RetriableError(
        "offset.txn_superseded",
        f"transaction {txn_id} of task {task_id} came after transaction {last} was stored, or "
        "differs from it",
        fix="Claim the task again, and continue after what was stored.",
    )


def _invalid(message: str) -> ConfigError:
    return ConfigError("offset.invalid", message, fix="Use the ids of the plan of the task.")
