"""The rows that the verifiable source gives and the verifiable sink knows: numbered, with a
checksum that follows from the numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

SCHEMA: Final = pa.schema(
    [
        ("pipeline", pa.string()),
        ("task", pa.int64()),
        ("seq", pa.int64()),
        ("checksum", pa.int64()),
    ]
)

_ODD: Final = 0x9E3779B97F4A7C15
_MIX: Final = 0xBF58476D1CE4E5B9
"""Constants of SplitMix64: neighbouring numbers get checksums that share no pattern."""


def checksums(pipeline: str, task: int, seq: pa.Array) -> pa.Array:
    """Return the checksums of rows of one task."""
    text = f"{pipeline}/{task}".encode()
    seed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    # Arithmetic wraps around, as it is meant to.
    mixed = pc.add(pc.multiply(seq.cast(pa.uint64()), _unsigned(_ODD)), _unsigned(seed))
    mixed = pc.multiply(_xor_shifted(mixed, 30), _unsigned(_MIX))
    return _xor_shifted(mixed, 27).view(pa.int64())


def _xor_shifted(values: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(values, pc.shift_right(values, _unsigned(bits)))


def _unsigned(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint64())


def make_rows(pipeline: str, task: int, first: int, count: int) -> pa.RecordBatch:
    """Return rows of a task, numbered from `first`."""
    seq = pa.array(range(first, first + count), pa.int64())
    columns = [
        pa.repeat(pa.scalar(pipeline), count),
        pa.repeat(pa.scalar(task, pa.int64()), count),
        seq,
        checksums(pipeline, task, seq),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


@dataclass(slots=True)
class Run:
    """Rows of one source task that stand together: ranges of numbers, in the order of the rows."""

    task: int
    ranges: list[list[int]]
    rows: int
    checksum_ok: bool

    def join(self, other: Run) -> None:
        """Add rows that follow."""
        for first, last in other.ranges:
            if self.ranges and self.ranges[-1][1] + 1 == first:
                self.ranges[-1][1] = last
            else:
                self.ranges.append([first, last])
        self.rows += other.rows
        self.checksum_ok = self.checksum_ok and other.checksum_ok


def runs_of(rows: pa.RecordBatch) -> Iterator[Run]:
    """Yield what rows there are, by pipeline and source task."""
    tasks, pipelines = rows.column("task"), rows.column("pipeline")
    for pipeline in pc.unique(pipelines).to_pylist():
        for task in pc.unique(tasks).to_pylist():
            mine = pc.and_(pc.equal(tasks, task), pc.equal(pipelines, pipeline))
            some = rows.filter(mine)
            if some.num_rows:
                seq = some.column("seq")
                wanted = checksums(pipeline, task, seq)
                right = pc.all(pc.equal(some.column("checksum"), wanted), skip_nulls=False)
                yield Run(task, ranges_of(seq), some.num_rows, right.as_py() is True)


def ranges_of(seq: pa.Array) -> list[list[int]]:
    """Return numbers as ranges [first, last], in their order."""
    if not len(seq):
        return []
    jumps = pc.not_equal(pc.pairwise_diff(seq), 1).fill_null(False)
    starts = [0, *pc.indices_nonzero(jumps).to_pylist()]
    ends = [*(start - 1 for start in starts[1:]), len(seq) - 1]
    return [[seq[a].as_py(), seq[b].as_py()] for a, b in zip(starts, ends, strict=True)]
