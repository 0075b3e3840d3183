"""Finds rows of a topic by their offsets: the next batch for a reader, and single rows for
lookups.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

import pyarrow as pa

from penstock.model.errors import ConfigError
from penstock.topic.embedded.table_state import TopicFile, TopicState
from penstock.topic.embedded.topic_table import TopicTable, TopicThreads
from penstock.topic_files.file_reader import read_files, with_position_columns
from penstock.topic_files.file_writer import MAX_GROUP_ROWS

MAX_BATCH_ROWS: Final = MAX_GROUP_ROWS
"""Rows announced as one batch. Smaller batches distribute better over slots, larger ones cost fewer
messages. These rows are also decoded together."""

MAX_BATCH_BYTES: Final = 16 << 20
"""Bytes of files announced as one batch, for wide rows."""

MAX_BATCH_FILES: Final = 64
"""Files of one batch: their names travel in the ticket."""

_P = ParamSpec("_P")
_T = TypeVar("_T")

OffsetRange: TypeAlias = tuple[int, int, int]
"""Neighbouring rows: partition, offset of the first, and their number."""


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Offsets `first` to `first + rows - 1` of a partition; they have `bytes` in `files` files."""

    first: int
    rows: int
    bytes: int
    files: int

    @property
    def end(self) -> int:
        """Offset after the last row."""
        return self.first + self.rows


@dataclass(frozen=True, slots=True)
class FileRange:
    """`rows` rows of a file of `bytes` bytes, from number `first` on."""

    path: str
    first: int
    rows: int
    bytes: int

    def to_ticket(self) -> list[Any]:
        """Return the range for a ticket (`read_files`)."""
        return [self.path, self.first, self.rows, self.bytes]


def next_batch(files: Sequence[TopicFile], offset: int) -> BatchRange | None:
    """Return the next rows to announce, from `offset` on; None when no file has them.

    A batch is a part of one file, or several whole files.
    """
    rows = size = count = 0
    begin = bisect_right(files, offset, key=lambda file: file.end)
    for file in files[begin:]:
        if file.base > offset + rows:
            break  # a gap, which the next call meets
        first = offset + rows - file.base
        taken = _rows_that_fit(file, first)
        bytes_ = max(1, file.bytes * taken // file.rows)
        if count and (rows + taken > MAX_BATCH_ROWS or size + bytes_ > MAX_BATCH_BYTES):
            break
        rows, size, count = rows + taken, size + bytes_, count + 1
        if first + taken < file.rows or count == MAX_BATCH_FILES:
            break
    return BatchRange(offset, rows, size, count) if rows else None


def locate_rows(files: Sequence[TopicFile], first: int, rows: int) -> list[FileRange] | None:
    """Return where a range of offsets is in the files that begin at it; None when some of it no
    longer exists.
    """
    ranges = []
    end = first + rows
    for file in files:
        if file.base > first or first == end:
            break
        part = min(file.end, end) - first
        ranges.append(FileRange(file.path, first - file.base, part, file.bytes))
        first += part
    return ranges if first == end else None


def _rows_that_fit(file: TopicFile, first: int) -> int:
    """Return how many rows of a file from `first` on fit into a batch. Batches end at row
    groups.
    """
    rows_by_bytes = file.rows * MAX_BATCH_BYTES // max(file.bytes, 1)
    step = max(1, min(MAX_BATCH_ROWS, rows_by_bytes))
    return min(file.rows - first, step - first % step)


class TopicRows:
    """Reads single rows of one topic. All methods but `run` block: call them by `run`."""

    def __init__(self, table: TopicTable, threads: TopicThreads) -> None:
        self._table, self._threads = table, threads

    async def run(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function that reads rows, in a thread."""
        return await self._threads.run(work, *args, **kwargs)

    def offset_ranges(self) -> Mapping[int, tuple[int, int]]:
        """Refresh the topic, and return the first and the next offset of each partition with rows;
        empty when the topic does not exist.
        """

        def read(state: TopicState) -> dict[int, tuple[int, int]]:
            return {n: (state.first_offset(n), state.next_offset(n)) for n in state.files}

        self._table.refresh()
        return self._table.inspect(read)

    def ticket(self, ranges: Iterable[OffsetRange], columns: pa.Schema) -> dict[str, Any]:
        """Return the ticket to read these columns of these rows, in this order (`read_files`).

        Raises:
            ConfigError: `topic.no_row`.
        """
        files = [part.to_ticket() for wanted in ranges for part in self._locate(*wanted)]
        return {**self._table.folder.to_ticket(), "files": files, "schema": _encode(columns)}

    def read(self, ranges: Iterable[OffsetRange], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield these columns of these rows, with `__partition` and `__offset`.

        Raises:
            ConfigError: `topic.no_row`.
            RetriableError: `topic.file_gone`, `topic.read_failed`.
        """
        files, positions = list[list[Any]](), list[list[int]]()
        for partition, first, rows in ranges:
            offset = first
            for part in self._locate(partition, first, rows):
                files.append(part.to_ticket())
                positions.append([partition, offset])
                offset += part.rows
        schema = _encode(with_position_columns(columns))
        folder = self._table.folder.to_ticket()
        return read_files({**folder, "files": files, "positions": positions, "schema": schema})

    def _locate(self, partition: int, first: int, rows: int) -> list[FileRange]:
        ranges = self._table.inspect(
            # each file has a row, so there are at most as many files as rows
            lambda state: locate_rows(state.files_from(partition, first, rows), first, rows)
        )
        if ranges is None:
            raise ConfigError(
                "topic.no_row",
                f"topic {self._table.topic} has no row {partition}/{first}"
                + (f" to {first + rows - 1}" if rows > 1 else ""),
                fix="It never existed, or retention removed it. Use an offset from the first to "
                "the last of the partition.",
                dataset=self._table.topic,
            )
        return ranges


def _encode(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()
