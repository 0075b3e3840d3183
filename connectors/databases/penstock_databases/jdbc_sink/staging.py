"""Rows of one slot and attempt that do not count yet: encoded at once, in memory or in a file.

Encoding in `put` lets it run for several slots at a time, and lets the rows' Arrow memory go. What
is above the budget goes to a file without a name: a process that dies leaves nothing.
"""

from __future__ import annotations

import mmap
import tempfile
import threading
from typing import IO

import pyarrow as pa

from penstock_connector import Refused, RetriableError
from penstock_databases.jdbc_sink.route import Piece, Route

_FILES_MOST = 64 << 30
"""Bytes of all files together: a host that never prepares must not fill the disk."""


class Budget:
    """Bytes that stagings hold together, in memory and in files (invariant 12)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._memory = self._files = 0
        self._lock = threading.Lock()

    def fits(self, size: int) -> bool:
        """Take bytes of memory; False when there are not enough."""
        with self._lock:
            if self._memory + size > self._most:
                return False
            self._memory += size
            return True

    def take_file(self, size: int) -> None:
        """Take bytes of a file."""
        with self._lock:
            if self._files + size > _FILES_MOST:
                raise RetriableError(
                    "jdbc.staging_full",
                    f"more than {_FILES_MOST >> 30} GiB of rows wait to be written",
                    fix="Lower `batch.max.bytes` of the connector.",
                )
            self._files += size

    def give(self, memory: int, files: int) -> None:
        """Give bytes back."""
        with self._lock:
            self._memory -= memory
            self._files -= files


class JdbcStaging:
    """Rows on their way into one table."""

    def __init__(self, route: Route, budget: Budget) -> None:
        self._route, self._budget = route, budget
        self._pieces: list[Piece] = []
        self._spans: list[tuple[int, int]] = []  # where a piece's text is in the file
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._memory = self._size = 0

    def put(self, rows: pa.RecordBatch) -> Refused:
        """Stage rows; refused ones go to the dead letters."""
        refused, pieces = self._route.pieces(rows)
        for piece in pieces:
            size = len(piece.text)
            if self._budget.fits(size):
                self._memory += size
                self._pieces.append(piece)
                self._spans.append((0, -1))
            else:
                self._spill(piece, size)
        return refused

    def close(self) -> None:
        """End it: no more rows come."""
        if self._file is not None:
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)

    def pieces(self) -> list[Piece]:
        """Return what is to be done, in order. What is in the file is read as it is written."""
        found = []
        for piece, (start, end) in zip(self._pieces, self._spans, strict=True):
            if end >= 0 and self._map is not None:
                text = memoryview(self._map)[start:end]
                found.append(Piece(piece.verb, piece.layout, text, piece.rows))
            else:
                found.append(piece)
        return found

    def discard(self) -> None:
        """Remove it: it does not count, or is written."""
        self._pieces.clear()
        self._spans.clear()
        self._budget.give(self._memory, self._size)
        self._memory = self._size = 0
        self._map = None  # closed with its last reader
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self, piece: Piece, size: int) -> None:
        self._budget.take_file(size)
        start = self._size
        self._size += size
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in discard
            self._file.write(piece.text)
        except OSError as error:
            raise RetriableError(
                "jdbc.staging_failed",
                f"rows could not be kept in a file: {error.strerror or error}",
                fix="Make room in the temporary folder, or raise `staging.bytes`.",
            ) from error
        self._pieces.append(Piece(piece.verb, piece.layout, b"", piece.rows))
        self._spans.append((start, self._size))
