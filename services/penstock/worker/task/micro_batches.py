"""Micro-batches: the batches of a source are grouped into them, divided into slots, and their
outcomes. Pure.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from opentelemetry.trace import INVALID_SPAN, Span

from penstock.connector_config.settings import FlushRules
from penstock.model.dead_letter_queue import MAX_REJECTED_ROWS
from penstock.model.errors import DataError
from penstock.model.stream import BadRow, BatchReady, Checkpoint, Offsets, PutSlot
from penstock.wire.record import offsets_bytes

TARGET_SLOT_S: Final = 5.0
"""Longest time that a slot of a micro-batch should take. Longer hides the progress of a slow sink
for minutes, and a crash repeats as much work; shorter gains nothing.
"""

FIRST_BATCH_ROWS: Final = 100_000
"""Rows of the first micro-batch, while the speed of the sink is unknown: 0.1 s for a fast one."""


class BatchSizer:
    """Chooses the size of the next micro-batch from the duration of earlier ones, so that a slow
    sink commits often. Time in the engine's queue does not count: larger micro-batches help a busy
    engine.
    """

    def __init__(self, max_rows: int, first_rows: int = FIRST_BATCH_ROWS) -> None:
        """`max_rows` is the limit that the connector's configuration sets."""
        self._max_rows = max_rows
        self.rows = min(first_rows, max_rows)

    def record(self, rows: int, seconds: float) -> None:
        """Record a micro-batch: its rows, and the seconds of its slowest slot."""
        if seconds > TARGET_SLOT_S:
            self.rows = max(1, int(rows * TARGET_SLOT_S / seconds))
        elif seconds < TARGET_SLOT_S / 2 and 2 * rows >= self.rows:  # a small one is no evidence
            self.rows = min(self._max_rows, 2 * self.rows)


MIN_DIVIDED_ROWS = 20_000
"""A smaller micro-batch is one slot: a second Python worker costs more than it gains."""


def group_by_schema(batches: Sequence[BatchReady]) -> dict[int, list[BatchReady]]:
    """Return the batches of each schema, in order of first appearance. Each schema is one Spark
    job.

    A stream of many datasets interleaves them; grouping keeps the number of jobs low. The order of
    rows is kept within a dataset and partition, not between datasets.
    """
    jobs: dict[int, list[BatchReady]] = {}
    for batch in batches:
        jobs.setdefault(batch.schema_id, []).append(batch)
    return jobs


def divide_into_slots(batches: Sequence[BatchReady], slots: int) -> list[list[BatchReady]]:
    """Return at most `slots` contiguous runs of batches with about equal bytes; one when there are
    few rows.
    """
    rows = sum(batch.rows for batch in batches)
    if slots <= 1 or len(batches) <= 1 or rows < MIN_DIVIDED_ROWS:
        return [list(batches)]
    total = sum(batch.bytes for batch in batches) or 1
    parts: list[list[BatchReady]] = [[] for _ in range(min(slots, len(batches)))]
    before = 0
    for batch in batches:
        middle = before + batch.bytes / 2
        parts[min(int(middle * len(parts) / total), len(parts) - 1)].append(batch)
        before += batch.bytes
    return [part for part in parts if part]


MAX_OFFSET_BYTES: Final = 8 << 20
"""Bytes of offsets up to which checkpoints are merged. A commit is one message of at most 16 MiB,
and the offset service holds it several times.
"""


UNREADABLE_BYTE_WEIGHT: Final = 32
"""Weight of a byte of an unreadable row, compared with other rows, because it passes through the
driver. A micro-batch of such rows has about 2 MiB.
"""

_Event = TypeVar("_Event", BatchReady, BadRow)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The rows between two commits. `announced_at` is when the source announced its first batch, in
    monotonic seconds. `unreadable` are the rows that the source could not read.
    """

    batches: tuple[BatchReady, ...]
    offsets: Offsets
    checkpoint_id: int
    last_seq: int
    announced_at: float
    unreadable: tuple[BadRow, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows in all batches."""
        return sum(batch.rows for batch in self.batches)


@dataclass(frozen=True, slots=True)
class ExecutedBatch:
    """The outcome of a micro-batch: the attempts to commit, its row counts, and the seconds of its
    slowest slot.

    `rows_failed` counts rejected rows: they became dead letters or were discarded. `errors_logged`
    of them have a line in the log. `datasets` maps each dataset, by its name after the chain, to
    its rows read and rows written.
    """

    slots: tuple[PutSlot, ...]
    rows_read: int
    rows_written: int
    slowest_slot_s: float = 0.0
    rows_failed: int = 0
    rows_skipped: int = 0
    errors_logged: int = 0
    datasets: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """A micro-batch whose rows have reached the sink. `executed` is None when it had no rows.
    `trace` starts with the micro-batch and ends with its commit.
    """

    txn_id: int
    batch: MicroBatch
    executed: ExecutedBatch | None
    trace: Span = INVALID_SPAN


@dataclass(slots=True)
class _Group:
    """The batches up to one checkpoint."""

    batches: list[BatchReady]
    checkpoint: Checkpoint
    announced_at: float
    unreadable: list[BadRow]
    rows: int = field(init=False)
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows = sum(batch.rows for batch in self.batches) + len(self.unreadable)
        self.bytes = sum(batch.bytes for batch in self.batches)
        self.bytes += sum(UNREADABLE_BYTE_WEIGHT * len(row.raw) for row in self.unreadable)

    @property
    def offset_bytes(self) -> int:
        """Bytes of its offsets in a commit. Measured on demand: it costs as much as encoding the
        commit.
        """
        return offsets_bytes(self.checkpoint.offsets)


class Batcher:
    """Collects the events of a source and yields micro-batches."""

    def __init__(self, rules: FlushRules) -> None:
        self.rules = rules
        self._open: list[BatchReady] = []
        self._unreadable: list[BadRow] = []
        self._open_since = 0.0
        self._groups: deque[_Group] = deque()
        self._rows = 0
        self._bytes = 0
        self._taken_at = self._limited_until = -math.inf
        self._awaited = 0  # groups whose commit the source waits for

    def add_batch(self, batch: BatchReady, now: float) -> None:
        """Add a batch that the source announced at `now`."""
        if not self._open:
            self._open_since = now
        self._open.append(batch)

    def add_unreadable_row(self, row: BadRow) -> None:
        """Add a row that the source could not read. It belongs to the micro-batch of the batches
        around it.

        Raises:
            DataError: `errors.too_many`.
        """
        self._unreadable.append(row)
        if len(self._unreadable) > MAX_REJECTED_ROWS:
            raise DataError(
                "errors.too_many",
                f"the source could not read more than {MAX_REJECTED_ROWS} rows between two "
                f"checkpoints. The last error: {row.reason.message}",
                fix="Check the configured format: so many errors rarely have separate causes.",
                dataset=row.dataset,
            )

    def add_checkpoint(self, checkpoint: Checkpoint, now: float) -> None:
        """Close the batches so far. The plugin host has checked that their rows add up to the count
        of the checkpoint (rule R5).
        """
        since = self._open_since if self._open else now
        batches = [_at_checkpoint(batch, checkpoint) for batch in self._open]
        unreadable = [
            row if row.offset else _at_checkpoint(row, checkpoint) for row in self._unreadable
        ]
        group = _Group(batches, checkpoint, since, unreadable)
        self._open, self._unreadable = [], []
        self._groups.append(group)
        self._awaited += checkpoint.await_commit
        self._rows += group.rows
        self._bytes += group.bytes

    def due_in_s(self, now: float, *, ended: bool = False) -> float | None:
        """Return the seconds until the next micro-batch is due: 0 for now, None when nothing is
        ready. When the source has `ended`, nothing waits for more rows.
        """
        if not self._groups:
            return None
        rules = self.rules
        if now < self._limited_until:
            return self._limited_until - now
        if self._awaited:
            return 0.0  # rule R4: the source cannot go on before this is committed
        if ended:
            return 0.0
        if (rules.rows and self._rows >= rules.rows) or (
            rules.bytes and self._bytes >= rules.bytes
        ):
            return 0.0
        if self._bytes >= rules.max_bytes or self._rows >= rules.max_rows:
            return 0.0
        due_at = max(
            self._groups[0].announced_at + (rules.interval_s or 0.0),
            self._taken_at + rules.busy_interval_s,
        )
        return max(0.0, due_at - now)

    def take(self, max_rows: int | None = None, now: float = -math.inf) -> MicroBatch:
        """Return the next micro-batch, at `now`: at least one checkpoint, and more while they fit
        the limits and `max_rows`.
        """
        self._taken_at = now
        max_rows = min(self.rules.max_rows, max_rows or self.rules.max_rows)
        first = self._pop_group()
        batches, offsets = list(first.batches), dict(first.checkpoint.offsets)
        unreadable = list(first.unreadable)
        rows, size, last, weight = first.rows, first.bytes, first.checkpoint, 0
        while self._groups and self._fits(rows, size, self._groups[0], max_rows):
            weight = (weight or first.offset_bytes) + self._groups[0].offset_bytes
            if weight > MAX_OFFSET_BYTES:
                break
            group = self._pop_group()
            batches += group.batches
            unreadable += group.unreadable
            offsets.update(group.checkpoint.offsets)
            rows, size, last = rows + group.rows, size + group.bytes, group.checkpoint
        self._rows -= rows
        self._bytes -= size
        self._limited_until = max(now, self._limited_until) + self._rated_s(rows, size)
        return MicroBatch(
            tuple(batches),
            _frozen(offsets),
            last.checkpoint_id,
            last.last_seq,
            first.announced_at,
            tuple(unreadable),
        )

    def _rated_s(self, rows: int, size: int) -> float:
        """Return the time that so much may take at least."""
        rules = self.rules
        rated = ((rows, rules.rate_rows), (size, rules.rate_bytes))
        return max((amount / rate for amount, rate in rated if rate), default=0.0)

    def _pop_group(self) -> _Group:
        group = self._groups.popleft()
        self._awaited -= group.checkpoint.await_commit
        return group

    def _fits(self, rows: int, size: int, group: _Group, max_rows: int) -> bool:
        rules = self.rules
        # what is limited comes in parts of a second
        most_rows, most_bytes = rules.rate_rows or max_rows, rules.rate_bytes or rules.max_bytes
        return rows + group.rows <= min(max_rows, most_rows) and size + group.bytes <= min(
            rules.max_bytes, most_bytes
        )


def _at_checkpoint(event: _Event, checkpoint: Checkpoint) -> _Event:
    """Return an announced event with the offset of its partition at the checkpoint."""
    return replace(event, offset=checkpoint.offsets.get(event.partition_id))


def _frozen(offsets: dict[str, Mapping[str, Any]]) -> Offsets:
    return {id_: dict(fields) for id_, fields in offsets.items()}
