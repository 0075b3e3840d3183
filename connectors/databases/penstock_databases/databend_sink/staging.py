"""Rows of one attempt at a slot that do not count yet: in memory, and more than that in a file.

The file has no name: it is gone with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa

from penstock_connector import RetriableError
from penstock_databases.databend_sink.route import Refused, Route

_HELD_MOST: Final = 8 << 20
"""Bytes of rows in memory for a staging. There are as many stagings as slots and datasets."""


class DatabendStaging:
    """Rows on one route.

    Attributes:
        route: Where they go.
    """

    def __init__(self, route: Route) -> None:
        self.route = route
        self._held: list[pa.RecordBatch] = []
        self._size = 0
        self._file: BinaryIO | None = None
        self._writer: Any = None

    def put(self, rows: pa.RecordBatch) -> Refused:
        """Stage rows, but for those that the table cannot hold."""
        taken, refused = self.route.taken(rows)
        self._held.append(taken)
        self._size += taken.nbytes
        if self._size > _HELD_MOST:
            self._spill(taken.schema)
        return refused

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            with disk():
                self._writer.close()
            self._writer = None

    def discard(self) -> None:
        """Let the rows go."""
        self._held, self._size = [], 0
        if self._writer is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
            self._writer = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def rows(self) -> pa.Table | None:
        """Return all rows, once it is closed; those in the file are read when they are used."""
        batches = list(self._held)
        if self._file is not None:
            with disk():
                source = pa.memory_map(f"/proc/self/fd/{self._file.fileno()}")
                batches = [*pa.ipc.open_stream(source), *batches]
        return pa.Table.from_batches(batches) if batches else None

    def _spill(self, schema: pa.Schema) -> None:
        with disk():
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `discard`
                self._writer = pa.ipc.new_stream(self._file, schema)
            for batch in self._held:
                self._writer.write_batch(batch)
        self._held, self._size = [], 0


@contextlib.contextmanager
def disk() -> Iterator[None]:
    """Translate what the system says about temporary files."""
    try:
        yield
    except OSError as error:
        raise RetriableError(
            "databend.spool",
            f"{tempfile.gettempdir()}: {error.strerror or error}",
            fix="Free some space there, or set TMPDIR; it is tried again.",
        ) from error
