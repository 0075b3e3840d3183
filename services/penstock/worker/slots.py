"""How a micro-batch is divided among Spark's slots. Pure.

The rows of a transaction are ordered by slot, then by arrival in the slot. So slots take contiguous
runs of batches, and order within every partition of a dataset is kept (invariant 6), however many
slots there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.stream import BatchReady

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
