"""How many rows the next micro-batch may have, so that a slow sink commits often. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from penstock.model.errors import DataError, InternalError
from penstock.model.stream import BadRow, BatchReady, Checkpoint, Offsets
from penstock.wire.offset import offsets_bytes

SECONDS: Final = 5.0
"""Time that the slots of a micro-batch should take at most. Longer, and a slow sink shows nothing
for minutes, and a crash repeats as much work; shorter gains nothing that anyone waits for."""

FIRST: Final = 100_000
"""Rows of the first micro-batch, when nothing is known of the sink: 0.1 s for a fast one."""


class Pace:
    """Learns from what micro-batches took. Time spent in the engine's queue does not count: when
    the engine is busy, larger micro-batches are what helps.
    """

    def __init__(self, most: int) -> None:
        """`most` is the limit that the connector's owner has set, in rows."""
        self._most = most
        self.rows = min(FIRST, most)

    def took(self, rows: int, seconds: float) -> None:
        """Take note of a micro-batch: its rows, and the seconds that its slowest slot took."""
        if seconds > SECONDS:
            self.rows = max(1, int(rows * SECONDS / seconds))
        elif seconds < SECONDS / 2 and 2 * rows >= self.rows:  # a small one says nothing
            self.rows = min(self._most, 2 * self.rows)


SMALL_ROWS = 20_000
"""Below this a micro-batch is one slot: a second Python worker costs more than it gains."""


def by_schema(batches: Sequence[BatchReady]) -> dict[int, list[BatchReady]]:
    """Return the batches of each schema, in order of first appearance: each is one Spark job.

    A stream of many datasets interleaves them; gathering keeps the jobs few. The order of rows is
    kept within a dataset and partition, not between datasets.
    """
    jobs: dict[int, list[BatchReady]] = {}
    for batch in batches:
        jobs.setdefault(batch.schema_id, []).append(batch)
    return jobs


def divide(batches: Sequence[BatchReady], slots: int) -> list[list[BatchReady]]:
    """Return contiguous runs of about equal bytes: one when the batches are small, at most
    `slots`.
    """
    rows = sum(batch.rows for batch in batches)
    if slots <= 1 or len(batches) <= 1 or rows < SMALL_ROWS:
        return [list(batches)]
    total = sum(batch.bytes for batch in batches) or 1
    parts: list[list[BatchReady]] = [[] for _ in range(min(slots, len(batches)))]
    before = 0
    for batch in batches:
        middle = before + batch.bytes / 2
        parts[min(int(middle * len(parts) / total), len(parts) - 1)].append(batch)
        before += batch.bytes
    return [part for part in parts if part]


MOST_OFFSET_BYTES: Final = 8 << 20
"""Bytes of offsets that checkpoints are merged up to. A commit is one message of at most 16 MiB,
and its offset service holds it several times over."""


BAD_WEIGHT: Final = 32
"""What a byte of a row that could not be read counts, compared with those of others: it passes the
driver. So a micro-batch of them has some 2 MiB."""

MOST_BAD: Final = 10_000
"""Rows that could not be read, between two checkpoints (invariant 12)."""

_Event = TypeVar("_Event", BatchReady, BadRow)


@dataclass(frozen=True, slots=True)
class FlushRules:
    """When a micro-batch is due. A rule of 0 does not hold anything back.

    `interval`: seconds that rows may wait for company; None leaves it to the sink. `rows`,
    `bytes`: enough company.
    `max_rows`, `max_bytes`: a micro-batch takes no further checkpoint beyond these.
    """

    interval: float | None = None
    rows: int = 0
    bytes: int = 0
    max_rows: int = 1_000_000
    max_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The rows between two commits. `since` is when its first batch was announced (monotonic
    seconds); `bad` are rows that the source could not read.
    """

    batches: tuple[BatchReady, ...]
    offsets: Offsets
    checkpoint_id: int
    last_seq: int
    since: float
    bad: tuple[BadRow, ...] = ()

    @property
    def rows(self) -> int:
        """Rows in all batches."""
        return sum(batch.rows for batch in self.batches)


@dataclass(slots=True)
class _Group:
    """The batches up to one checkpoint."""

    batches: list[BatchReady]
    checkpoint: Checkpoint
    since: float
    bad: list[BadRow]
    rows: int = field(init=False)
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.rows = sum(batch.rows for batch in self.batches) + len(self.bad)
        self.bytes = sum(batch.bytes for batch in self.batches)
        self.bytes += sum(BAD_WEIGHT * len(row.raw) for row in self.bad)

    @property
    def offset_bytes(self) -> int:
        """Bytes that its offsets take in a commit. Measured when asked for: it takes as long as to
        make the commit.
        """
        return offsets_bytes(self.checkpoint.offsets)


class Batcher:
    """Collects events of a read end and yields micro-batches."""

    def __init__(self, rules: FlushRules) -> None:
        self.rules = rules
        self._open: list[BatchReady] = []
        self._bad: list[BadRow] = []
        self._open_since = 0.0
        self._groups: deque[_Group] = deque()
        self._rows = 0
        self._bytes = 0

    def ready(self, batch: BatchReady, now: float) -> None:
        """Take note of an announced batch."""
        if not self._open:
            self._open_since = now
        self._open.append(batch)

    def bad(self, row: BadRow) -> None:
        """Take note of a row that could not be read; it goes with the batches around it.

        Raises:
            DataError: `errors.too_many`.
        """
        self._bad.append(row)
        if len(self._bad) > MOST_BAD:
            raise DataError(
                "errors.too_many",
                f"more than {MOST_BAD} rows between two checkpoints could not be read, the last: "
                f"{row.reason.message}",
                fix="So many rows are rarely bad one by one: see whether the format is right.",
                dataset=row.dataset,
            )

    def checkpoint(self, checkpoint: Checkpoint, now: float) -> None:
        """Close the batches so far. Their rows must be what the source says (rule R5)."""
        counted = sum(batch.rows for batch in self._open)
        if counted != checkpoint.rows:
            raise InternalError(
                "plugin.protocol.row_count",
                f"checkpoint {checkpoint.checkpoint_id} claims {checkpoint.rows} rows, "
                f"the batches before it have {counted}",
                fix="Report this to the author of the source.",
            )
        since = self._open_since if self._open else now
        batches = [_behind(batch, checkpoint) for batch in self._open]
        bad = [row if row.offset else _behind(row, checkpoint) for row in self._bad]
        group = _Group(batches, checkpoint, since, bad)
        self._open, self._bad = [], []
        self._groups.append(group)
        self._rows += group.rows
        self._bytes += group.bytes

    def due_in(self, now: float) -> float | None:
        """Return the seconds until the next micro-batch is due: 0 for now, None when nothing is
        ready.
        """
        if not self._groups:
            return None
        rules = self.rules
        if any(group.checkpoint.await_commit for group in self._groups):
            return 0.0  # rule R4: the source cannot go on before this is committed
        if (rules.rows and self._rows >= rules.rows) or (
            rules.bytes and self._bytes >= rules.bytes
        ):
            return 0.0
        if self._bytes >= rules.max_bytes or self._rows >= rules.max_rows:
            return 0.0
        return max(0.0, self._groups[0].since + (rules.interval or 0.0) - now)

    def take(self, most: int | None = None) -> MicroBatch:
        """Return the next micro-batch: at least one checkpoint, more while they fit the limits, and
        `most` rows.
        """
        most = min(self.rules.max_rows, most or self.rules.max_rows)
        first = self._groups.popleft()
        batches, offsets = list(first.batches), dict(first.checkpoint.offsets)
        bad = list(first.bad)
        rows, size, last, weight = first.rows, first.bytes, first.checkpoint, 0
        while self._groups and self._fits(rows, size, self._groups[0], most):
            weight = (weight or first.offset_bytes) + self._groups[0].offset_bytes
            if weight > MOST_OFFSET_BYTES:
                break
            group = self._groups.popleft()
            batches += group.batches
            bad += group.bad
            offsets.update(group.checkpoint.offsets)
            rows, size, last = rows + group.rows, size + group.bytes, group.checkpoint
        self._rows -= rows
        self._bytes -= size
        return MicroBatch(
            tuple(batches),
            _frozen(offsets),
            last.checkpoint_id,
            last.last_seq,
            first.since,
            tuple(bad),
        )

    def _fits(self, rows: int, size: int, group: _Group, most: int) -> bool:
        return rows + group.rows <= most and size + group.bytes <= self.rules.max_bytes

    @property
    def waiting(self) -> bool:
        """Whether anything was announced that is in no micro-batch yet."""
        return bool(self._groups or self._open)


def _behind(event: _Event, checkpoint: Checkpoint) -> _Event:
    """Return what was announced with the offset that holds behind it."""
    return replace(event, offset=checkpoint.offsets.get(event.partition_id))


def _frozen(offsets: dict[str, Mapping[str, Any]]) -> Offsets:
    return {id_: dict(fields) for id_, fields in offsets.items()}
