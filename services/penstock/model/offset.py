"""Answers of the offset service: claims of tasks, history of offsets, progress of rewinds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from penstock.model.stream import PreparedTxn

TIMESTAMP: Final = "timestamp"
"""Field of an offset that is a time instead, which the plugin of a broker resolves."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The state of a claimed task.

    `recover`: the sink must apply `last_prepared` again. `floor`: tokens of epochs up to this one
    are no longer valid, because a user has altered offsets since. `number` identifies the claim in
    its commits.
    """

    last_prepared: PreparedTxn | None
    recover: bool
    floor: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class OffsetVersion:
    """An offset of a partition since a time. None: the offset was removed at that time."""

    offset: dict[str, Any] | None
    epoch: int
    written_at: datetime


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A partition with its offset before and after a rewind; None for no offset."""

    partition_id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class RewindProgress:
    """The progress of a rewind. Only a dry run has `changes`. With a `revision` it is complete."""

    seen: int
    changed: int
    removed: int
    changes: tuple[OffsetChange, ...] = ()
    revision: int = 0
