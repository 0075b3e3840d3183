"""Rows of a slot that do not count yet: in memory, and beyond a budget in a file.

- `Budget`          bytes that all stagings of a task hold together
- `MemoryStaging`   batches in memory; what does not fit is an error
- `SpillStaging`    parts of any kind; what does not fit goes to a file without a name, so that a
                    process that dies leaves nothing
"""

from __future__ import annotations

import contextlib
import mmap
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import IO, Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector._errors import RetriableError
from penstock_connector._sink import Refused

T = TypeVar("T")

_MAX_FILE_BYTES: Final = 64 << 30
"""Bytes of all files of a task together: a host that never prepares must not fill the disk."""


class Budget:
    """Bytes that the stagings of a task hold together (invariant 12)."""

    def __init__(self, max_bytes: int, code: str, fix: str) -> None:
        """`code` and `fix` are those of the error when there is no room."""
        self._max_bytes, self._code, self._fix = max_bytes, code, fix
        self._used = 0
        self._lock = threading.Lock()

    def fits(self, size: int) -> bool:
        """Take bytes, or return False: there are not enough."""
        with self._lock:
            if self._used + size > self._max_bytes:
                return False
            self._used += size
            return True

    def take(self, size: int) -> None:
        """Take bytes; the first ones are always taken.

        Raises:
            RetriableError: there are not enough.
        """
        with self._lock:
            if self._used and self._used + size > self._max_bytes:
                raise RetriableError(
                    self._code,
                    f"more than {self._max_bytes} bytes of rows wait to be written",
                    fix=self._fix,
                )
            self._used += size

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self._used -= size


class MemoryStaging:
    """Batches of one slot and attempt, in memory.

    Attributes:
        dataset: Their dataset.
        batches: The rows that were taken, in order.
        numbers: Those of the rows of each batch among all rows that were put, where asked for.
        rows: How many were put, also of those that are left out, where numbers are asked for.
    """

    def __init__(
        self,
        dataset: str,
        reject: Callable[[pa.RecordBatch], Refused],
        budget: Budget,
        *,
        numbered: bool = False,
    ) -> None:
        self.dataset = dataset
        self.batches: deque[pa.RecordBatch] = deque()
        self.numbers: deque[pa.UInt64Array] = deque()
        self._reject, self._budget, self._size = reject, budget, 0
        self._numbered, self.rows = numbered, 0

    def put(self, rows: pa.RecordBatch) -> Refused:
        """Keep rows, but for those that are rejected."""
        rejected = self._reject(rows)
        kept = without_rejected(rows, rejected)
        self._budget.take(kept.nbytes)
        self._size += kept.nbytes
        self.batches.append(kept)
        if self._numbered:
            self.numbers.append(_numbers(self.rows, rows.num_rows, rejected))
            self.rows += rows.num_rows
        return rejected

    def leave_out(self, rows: AbstractSet[int]) -> None:
        """Remove rows, by their numbers among all rows that were put."""
        gone = pa.array(sorted(rows), pa.uint64())
        for at, numbers in enumerate(self.numbers):
            kept = pc.invert(pc.is_in(numbers, gone))
            self.batches[at] = self.batches[at].filter(kept)
            self.numbers[at] = numbers.filter(kept)

    def close(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        """Let the rows go."""
        self.batches.clear()
        self.numbers.clear()
        self._budget.give(self._size)
        self._size = 0


def placed_rows(
    staged: Sequence[MemoryStaging],
) -> Iterator[tuple[int, MemoryStaging, int, tuple[Any, ...]]]:
    """Yield the rows of numbered stagings, each with its place in the transaction, its staging and
    its number there. A row that is left out keeps its place: those behind it have theirs again.
    """
    before = 0
    for staging in staged:
        for batch, numbers in zip(staging.batches, staging.numbers, strict=True):
            columns = [column.to_pylist() for column in batch.columns]
            rows = zip(*columns, strict=True)
            for number, row in zip(numbers.to_pylist(), rows, strict=True):
                yield before + number, staging, number, row
        before += staging.rows


def _numbers(first: int, count: int, rejected: Refused) -> pa.UInt64Array:
    """Return the numbers of rows but for the rejected ones."""
    numbers = pc.add(pc.indices_nonzero(pa.repeat(True, count)), pa.scalar(first, pa.uint64()))
    return without_rejected(pa.record_batch([numbers], ["n"]), rejected).column(0)


def without_rejected(rows: pa.RecordBatch, rejected: Refused) -> pa.RecordBatch:
    """Return rows but for the rejected ones."""
    if not rejected:
        return rows
    bad = {row for row, _ in rejected}
    return rows.filter(pa.array([row not in bad for row in range(rows.num_rows)]))


class Spill:
    """Where the stagings of a task keep their parts.

    Attributes:
        memory: Bytes in memory.
        files: Bytes in files.
        failed_code: The code when a file could not be written.
    """

    def __init__(self, memory_bytes: int, full_code: str, failed_code: str) -> None:
        """`full_code` is that of the error when files have no room."""
        fix = "Lower `batch.max.bytes` of the connector."
        self.memory = Budget(memory_bytes, full_code, fix)
        self.files = Budget(_MAX_FILE_BYTES, full_code, fix)
        self.failed_code = failed_code

    @contextlib.contextmanager
    def disk(self) -> Iterator[None]:
        """Say what is to be done when a temporary file cannot be written.

        Raises:
            RetriableError: `failed_code`.
        """
        try:
            yield
        except OSError as error:
            raise RetriableError(
                self.failed_code,
                f"{tempfile.gettempdir()}: {error.strerror or error}",
                fix="Free some space there, or set TMPDIR.",
            ) from error


@dataclass(frozen=True, slots=True)
class _Spilled(Generic[T]):
    """A part in the file: where it is, and what makes it of its bytes."""

    start: int
    end: int
    load: Callable[[memoryview], T]


class SpillStaging(Generic[T]):
    """Parts of one slot and attempt, in their order. A subclass has `put`, which adds them."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._parts: list[T | _Spilled[T]] = []
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._memory_bytes = self._file_bytes = 0

    def add(
        self, part: T, size: int, dump: Callable[[T], Any], load: Callable[[memoryview], T]
    ) -> None:
        """Keep a part of some bytes. `dump` and `load` are used when it goes to the file."""
        if self._spill.memory.fits(size):
            self._memory_bytes += size
            self._parts.append(part)
            return
        data = memoryview(dump(part))
        self._spill.files.take(data.nbytes)
        start = self._file_bytes
        self._file_bytes += data.nbytes
        with self._spill.disk():
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `discard`
            self._file.write(data)
        self._parts.append(_Spilled(start, self._file_bytes, load))

    def add_batch(self: SpillStaging[pa.RecordBatch], rows: pa.RecordBatch) -> None:
        """Keep a batch of rows."""
        self.add(rows, rows.nbytes, _dump_batch, _load_batch)

    def close(self) -> None:
        """End it: no more rows come."""
        if self._file is not None:
            with self._spill.disk():
                self._file.flush()
                self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)

    def parts(self) -> list[T]:
        """Return the parts, once it is closed. Those in the file are read as they are used."""
        return [self._loaded(part) if isinstance(part, _Spilled) else part for part in self._parts]

    def _loaded(self, part: _Spilled[T]) -> T:
        assert self._map is not None  # noqa: S101 - `close` came before
        return part.load(memoryview(self._map)[part.start : part.end])

    def discard(self) -> None:
        """Remove it: it does not count, or is written."""
        self._parts.clear()
        self._spill.memory.give(self._memory_bytes)
        self._spill.files.give(self._file_bytes)
        self._memory_bytes = self._file_bytes = 0
        self._map = None  # closed with its last reader
        if self._file is not None:
            self._file.close()
            self._file = None


def _dump_batch(rows: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue()


def _load_batch(data: memoryview) -> pa.RecordBatch:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
