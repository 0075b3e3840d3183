"""Who may commit what, and what a task's record becomes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.model import faults
from penstock.model.errors import ConfigError, FencedError, InternalError, RetriableError

MOST_STATE: Final = 64 << 10
"""Bytes of a sink's prepared state (rule R12)."""

MOST_OFFSET: Final = 64 << 10
"""Bytes of one offset."""

MOST_ID: Final = 8 << 10
"""Bytes of a partition id."""

_GENERATION: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TASK: Final = re.compile(r"[A-Za-z0-9_.:-]{1,255}")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a sink prepared at an epoch, as it came: this service stores it and gives it back."""

    txn_id: int
    body: bytes
    state_bytes: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """Where a task stands. `applied`: what was prepared last is visible in the sink. `claim` counts
    the claims: a task that starts again at its epoch has one more.
    """

    epoch: int
    prepared: Prepared | None = None
    applied: bool = True
    claim: int = 1

    @property
    def recover(self) -> bool:
        """Whether the sink must apply the last transaction again."""
        return self.prepared is not None and not self.applied


@dataclass(frozen=True, slots=True)
class Commit:
    """A step forward of a task. `offsets` are as they came, by partition id. `claim` is the number
    of the claim that it belongs to; 0: not known, and not compared.
    """

    generation: str
    task_id: str
    epoch: int
    offsets: Mapping[str, bytes]
    prepared: Prepared | None = None
    applied_txn_id: int = 0
    claim: int = 0


def claimed(record: TaskRecord | None, floor: int, epoch: int) -> TaskRecord:
    """Return the record of a task that `epoch` takes over, also from itself: a task that starts
    again after an error has a commit on its way perhaps, and would not know of it.

    Raises:
        FencedError: `offset.stale_epoch`.
    """
    known = max(floor + 1, record.epoch if record else 0)
    if is_stale(epoch, known):
        raise stale("the task", epoch, known)
    if record is None:
        return TaskRecord(epoch)
    return replace(record, epoch=max(record.epoch, epoch), claim=record.claim + 1)


def committed(record: TaskRecord | None, floor: int, commit: Commit) -> TaskRecord | None:
    """Return the record after a commit; None when this very commit was stored already.

    Raises:
        FencedError: `offset.stale_epoch`.
        InternalError: `offset.not_claimed`, `offset.not_applied`.
        RetriableError: `offset.claimed_again`; `offset.txn_superseded`: claim again, and see what
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
        raise stale(f"task {commit.task_id}", commit.epoch, known)
    if is_ended(commit, record):
        raise _claimed_again(commit.task_id, commit.claim, record.claim)
    old, new = record.prepared, commit.prepared
    applied = record.applied or (old is not None and commit.applied_txn_id >= old.txn_id)
    if new is None:
        return replace(record, applied=applied)
    if old is not None and new.txn_id <= old.txn_id:
        if new == old:
            return None
        raise _superseded(commit.task_id, new.txn_id, old.txn_id)
    if not applied:  # its state would be lost, and its rows with it
        raise InternalError(
            "offset.not_applied",
            f"task {commit.task_id} prepared transaction {new.txn_id} before the one before it was "
            "applied",
            fix="Commit transactions in order, and tell the last one that was applied.",
        )
    return replace(record, prepared=new, applied=commit.applied_txn_id >= new.txn_id)


def check_owner(partition_id: str, written_by: int, epoch: int) -> None:
    """Refuse to overwrite an offset of a newer epoch: partitions move between tasks.

    Raises:
        FencedError: `offset.stale_epoch`.
    """
    if is_stale(epoch, written_by):
        raise stale(f"partition {partition_id[:200]}", epoch, written_by)


def is_stale(epoch: int, known: int) -> bool:
    """Tell whether an epoch is older than a known one (invariant 4)."""
    return epoch < known and not faults.hit("offset.epoch_check")


def is_ended(commit: Commit, record: TaskRecord) -> bool:
    """Tell whether a commit is of an earlier life of its owner. What it prepared may be swept by
    the life that followed, so its offsets must not count (invariant 1).
    """
    if not commit.claim or commit.epoch != record.epoch or commit.claim == record.claim:
        return False
    return not faults.hit("offset.claim_check")


def _claimed_again(task_id: str, claim: int, newest: int) -> RetriableError:
    return RetriableError(
        "offset.claimed_again",
        f"task {task_id} was claimed again: this commit belongs to claim {claim}, {newest} is the "
        "newest",
        fix="Claim the task again before its next commit.",
    )


def stale(what: str, epoch: int, known: int) -> FencedError:
    """Return the error for an epoch that is fenced."""
    return FencedError(
        "offset.stale_epoch",
        f"{what} is at epoch {known}, {epoch} is older",
        fix="Stop: another owner has taken over, or a person altered the offsets.",
    )


def check_task(generation: str, task_id: str, epoch: int) -> None:
    """Refuse names that cannot be part of a key.

    Raises:
        ConfigError: `offset.invalid`.
    """
    check_generation(generation)
    if not _TASK.fullmatch(task_id):
        raise _invalid(f"{task_id[:100]!r} is not a task id")
    if epoch < 1:
        raise _invalid("an epoch is at least 1")


def check_generation(generation: str) -> None:
    """Refuse what is not a generation.

    Raises:
        ConfigError: `offset.invalid`.
    """
    if not _GENERATION.fullmatch(generation):
        raise _invalid(f"{generation[:100]!r} is not a generation")


def check_sizes(offsets: Mapping[str, bytes | None], prepared: Prepared | None = None) -> None:
    """Refuse what is over a limit (invariant 12).

    Raises:
        ConfigError: `offset.invalid`, `offset.state_too_large`.
    """
    for id_, body in offsets.items():
        if not id_ or len(id_.encode()) > MOST_ID:
            raise _invalid(f"a partition id has 1 to {MOST_ID} bytes: {id_[:100]!r}")
        if len(body or b"") > MOST_OFFSET:
            raise _invalid(f"the offset of {id_[:100]} has more than {MOST_OFFSET} bytes")
    if prepared is not None and prepared.state_bytes > MOST_STATE:
        raise ConfigError(
            "offset.state_too_large",
            f"the sink prepared {prepared.state_bytes} bytes of state, {MOST_STATE} is the limit",
            fix="Commit smaller transactions, or let the sink keep a list of its own.",
        )


def check_count(number: int, most: int, fix: str) -> None:
    """Refuse more partitions than one call may name (invariant 12).

    Raises:
        ConfigError: `offset.too_many`.
    """
    if number > most:
        raise ConfigError(
            "offset.too_many", f"{number} partitions in one call, {most} is the limit", fix=fix
        )


def milliseconds(nanoseconds: int) -> int:
    """Return the time to rewind to, in milliseconds since the epoch.

    Raises:
        ConfigError: `offset.time`: it is not set.
    """
    if nanoseconds <= 0:
        raise ConfigError(
            "offset.time",
            "the time to rewind to is not set",
            fix="Name a time after 1970; to go back to the beginning, reset the offsets.",
        )
    return nanoseconds // 1_000_000


def _superseded(task_id: str, txn_id: int, last: int) -> RetriableError:
    return RetriableError(
        "offset.txn_superseded",
        f"task {task_id} has stored transaction {last}; {txn_id} came late or differs",
        fix="Claim the task again, and go on after what was stored.",
    )


def _invalid(message: str) -> ConfigError:
    return ConfigError("offset.invalid", message, fix="Take ids from the task's plan.")
