"""Single rows of a topic, by their offsets: for those who look something up, not for those who read
on.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

import pyarrow as pa

from penstock.model.errors import ConfigError
from penstock.topic.embedded.table import TopicTable
from penstock.topic.embedded.table_state import TopicFile, TopicState
from penstock.topic.embedded.threads import Threads
from penstock.topic_files import placed_schema, read_files
from penstock.topic_files.writing import GROUP_ROWS

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


_P = ParamSpec("_P")
_T = TypeVar("_T")

Run: TypeAlias = tuple[int, int, int]
"""Neighbours: partition, offset of the first, how many."""


class TopicRows:
    """Rows of one topic. All but `run` block: call them in the thread that it gives."""

    def __init__(self, table: TopicTable, threads: Threads) -> None:
        self._table, self._threads = table, threads

    async def run(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Do work that reads rows in a thread."""
        return await self._threads.run(work, *args, **kwargs)

    def windows(self) -> Mapping[int, tuple[int, int]]:
        """Return the first and the next offset of each partition that has rows, as they are now;
        of a topic that is not there, nothing.
        """

        def look(state: TopicState) -> dict[int, tuple[int, int]]:
            return {n: (state.low_offset(n), state.next_offset(n)) for n in state.files}

        self._table.refresh()
        return self._table.inspect(look)

    def ticket(self, runs: Iterable[Run], columns: pa.Schema) -> dict[str, Any]:
        """Say what it takes to read these rows, of these columns, in this order (`read_files`).

        Raises:
            ConfigError: `topic.no_row`.
        """
        files = list[list[Any]]()
        for run in runs:
            files += [[one.path, one.first, one.rows, one.bytes] for one in self._places(*run)]
        return {**self._table.folder.place(), "files": files, "schema": _text(columns)}

    def read(self, runs: Iterable[Run], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield these rows, of these columns, with `__partition` and `__offset`.

        Raises:
            ConfigError: `topic.no_row`.
            RetriableError: `topic.file_gone`, `topic.read_failed`.
        """
        files, places = list[list[Any]](), list[list[int]]()
        for partition, first, rows in runs:
            offset = first
            for one in self._places(partition, first, rows):
                files.append([one.path, one.first, one.rows, one.bytes])
                places.append([partition, offset])
                offset += one.rows
        place = {"files": files, "places": places, "schema": _text(placed_schema(columns))}
        return read_files({**self._table.folder.place(), **place})

    def _places(self, partition: int, first: int, rows: int) -> list[Place]:
        found = self._table.inspect(
            # each file has a row, so there are no more files than rows
            lambda state: places_of(state.from_offset(partition, first, rows), first, rows)
        )
        if found is None:
            raise ConfigError(
                "topic.no_row",
                f"topic {self._table.topic} has no row {partition}/{first}"
                + (f" to {first + rows - 1}" if rows > 1 else ""),
                fix="It was never there, or its retention ended.",
                dataset=self._table.topic,
            )
        return found


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()
