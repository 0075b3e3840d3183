"""Which rows of a partition become one batch. Pure.

A batch is a range of offsets: many small files or a part of a large one. Executors are told files
only when they are about to read them, so that a compaction in between changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.topic.embedded.state import TopicFile
from penstock.topic_files.parquet import GROUP_ROWS

SLICE_ROWS: Final = GROUP_ROWS
"""Most rows announced as one batch. Fewer spread better over slots, more cost fewer messages; this
is also what is decoded at once."""

SLICE_BYTES: Final = 16 << 20
"""Most bytes of files announced as one batch, for wide rows."""

SLICE_FILES: Final = 64
"""Most files of one batch: their names travel in the ticket."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets `first` to `first + rows - 1` of a partition. `bytes` of them in files, `files` that
    hold them.
    """

    first: int
    rows: int
    bytes: int
    files: int

    @property
    def end(self) -> int:
        """Offset after the last row."""
        return self.first + self.rows


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows are: `rows` rows of a file of so many bytes from number `first` on."""

    path: str
    first: int
    rows: int
    bytes: int


def next_slice(files: Sequence[TopicFile], offset: int) -> Slice | None:
    """Return the next rows to announce, from `offset` on; None when no file has them.

    A part of one file, or several files as a whole.
    """
    rows = size = count = 0
    begin = bisect_right(files, offset, key=lambda file: file.end)
    for file in files[begin:]:
        if file.base > offset + rows:
            break  # a hole: whoever looks next meets it
        first = offset + rows - file.base
        left = _most_rows(file, first)
        bytes_ = max(1, file.bytes * left // file.rows)
        if count and (rows + left > SLICE_ROWS or size + bytes_ > SLICE_BYTES):
            break
        rows, size, count = rows + left, size + bytes_, count + 1
        if first + left < file.rows or count == SLICE_FILES:
            break
    return Slice(offset, rows, size, count) if rows else None


def places_of(files: Sequence[TopicFile], first: int, rows: int) -> list[Place] | None:
    """Return where a range of offsets is in the files that begin at it; None when some are gone."""
    found = []
    end = first + rows
    for file in files:
        if file.base > first or first == end:
            break
        part = min(file.end, end) - first
        found.append(Place(file.path, first - file.base, part, file.bytes))
        first += part
    return found if first == end else None


def _most_rows(file: TopicFile, first: int) -> int:
    """Return how many rows of a file from `first` on fit a slice. Cuts are where row groups end."""
    fitting = file.rows * SLICE_BYTES // max(file.bytes, 1)
    step = max(1, min(SLICE_ROWS, fitting))
    return min(file.rows - first, step - first % step)
