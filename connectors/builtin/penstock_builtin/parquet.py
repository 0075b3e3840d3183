"""Rows into an open file as Parquet, in row groups of a good size."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Final, Self

import pyarrow as pa

_GROUP_BYTES: Final = 64 << 20
"""Bytes of rows that are gathered for a row group. Fewer makes files that are slow to read; more is
memory for every slot at once."""


class ParquetRows:
    """A Parquet file that is being written."""

    def __init__(self, file: Any, schema: pa.Schema, compression: str) -> None:
        """`file` is one of Python: what the system says when the disk is full arrives as it was
        said. It is closed at the end.
        """
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - slow to import, seldom needed

        self._schema = schema
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._file = file
        self._writer: Any = ParquetWriter(
            pa.PythonFile(self._file, "w"), schema, compression=compression
        )

    @classmethod
    def at(cls, fd: int, schema: pa.Schema, compression: str) -> Self:
        """Return one that is written to a descriptor, which stays its owner's."""
        return cls(os.fdopen(fd, "wb", buffering=0, closefd=False), schema, compression)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows of the schema."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= _GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Write what is left, and the end of the file."""
        if self._held:
            self._write_group()
        self._writer.close()
        self._file.close()

    def drop(self) -> None:
        """Give up: the file is of no use. The writer would else end it later, when the number of
        its descriptor may be another file's.
        """
        self._held.clear()
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            self._writer.close()
        self._file.close()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._held, self._schema)
        self._held, self._held_bytes = [], 0
        self._writer.write_table(table)
