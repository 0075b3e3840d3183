"""The places where the host may commit: numbered, counted, and acknowledged in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from penstock_connector._errors import ConnectorError

Offsets: TypeAlias = "dict[str, Mapping[str, Any]]"

_OPEN_MOST: Final = 10_000
"""Checkpoints that may wait for Committed. Credit bounds those with rows; this bounds a source that
moves its offset without any."""


class Checkpoints:
    """The checkpoints of a task. Not thread-safe: the owner has a lock."""

    def __init__(self) -> None:
        self.last_id = 0
        self._rows = 0
        self._moved: set[str] = set()
        self._waiting: deque[tuple[int, Offsets]] = deque()
        self._committed = 0

    def announced(self, partition_id: str, rows: int) -> None:
        """Count rows that the next checkpoint covers."""
        self._rows += rows
        self._moved.add(partition_id)

    def add(self, partition_id: str, offsets: Offsets) -> int:
        """Take the next checkpoint, after rows of a partition; return those since the last one."""
        self._refuse_uncovered(self._moved - offsets.keys() - {partition_id})
        rows, self._rows = self._rows, 0
        self._moved.clear()
        self.last_id += 1
        self._waiting.append((self.last_id, offsets))
        return rows

    def finish(self) -> None:
        """Refuse an end after rows that no checkpoint covers."""
        self._refuse_uncovered(self._moved)

    def _refuse_uncovered(self, partitions: set[str]) -> None:
        # A commit would make such rows visible and not move their offset: they would come twice.
        if partitions:
            raise ConnectorError(
                "source.rows_without_offset",
                f"rows of {', '.join(sorted(partitions))} were given that no offset of their "
                "partition follows",
                fix="Set Batch.offset on the last batch before another partition's, or the end.",
            )

    def commit(self, checkpoint_id: int) -> None:
        """Take note that all up to this are durable; cumulative (rule R2)."""
        self._committed = max(self._committed, min(checkpoint_id, self.last_id))

    def take_acks(self) -> Offsets:
        """Return the offsets that became durable since the last call, the latest of each."""
        offsets: Offsets = {}
        while self._waiting and self._waiting[0][0] <= self._committed:
            offsets |= self._waiting.popleft()[1]
        return offsets

    @property
    def committed(self) -> int:
        """The newest checkpoint that is known to be durable; 0 for none."""
        return self._committed

    @property
    def has_acks(self) -> bool:
        """Whether `take_acks` would return any."""
        return bool(self._waiting) and self._waiting[0][0] <= self._committed

    @property
    def all_acked(self) -> bool:
        """Whether everything was committed and taken."""
        return not self._waiting

    def has_room(self) -> bool:
        """Return whether one more may wait."""
        return len(self._waiting) < _OPEN_MOST
