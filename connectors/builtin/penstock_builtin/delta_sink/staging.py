"""Parquet files in a table's folder that the table does not know yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock_builtin.opening import telling

_GROUP_BYTES: Final = 64 << 20
"""Bytes of rows that are gathered for a row group: fewer makes files that are slow to read, more
is memory for every slot at once."""


class DeltaStaging:
    """Rows of one attempt at a slot. The file is made when the first row group is full, or at the
    end; an attempt without rows leaves none.

    Attributes:
        table: Path of the table.
        name: The file in it.
        size: Its bytes, after `close`.
        rows: Rows in it.
    """

    def __init__(self, table: str, name: str, schema: pa.Schema, compression: str) -> None:
        self.table, self.name = table, name
        self.size = self.rows = 0
        self._path = Path(table, name)
        self._schema = schema
        self._compression = compression
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._writer: Any = None
        self._fd = -1

    def put(self, rows: pa.RecordBatch) -> None:
        """Stage rows."""
        columns = [
            rows.column(field.name).cast(field.type) if field.name in rows.schema.names else None
            for field in self._schema
        ]
        nulls = [pa.nulls(rows.num_rows, field.type) for field in self._schema]
        arrays = [c if c is not None else n for c, n in zip(columns, nulls, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.rows += batch.num_rows
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= _GROUP_BYTES:
            with telling(str(self._path)):
                self._write_group()

    def close(self) -> None:
        """Finish the file and wait until it is on the disk (invariant 1)."""
        if not self.rows:
            return
        with telling(str(self._path)):
            if self._held:
                self._write_group()
            assert self._writer is not None  # noqa: S101 - there were rows
            self._writer.close()
            self._writer = None
            os.fdatasync(self._fd)
            self.size = os.fstat(self._fd).st_size
            self._close_file()

    def discard(self) -> None:
        """Remove the file."""
        self._held.clear()
        self._writer = None
        self._close_file()
        self._path.unlink(missing_ok=True)

    def _write_group(self) -> None:
        if self._writer is None:
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - slow to import

            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o666)
            self._raw = os.fdopen(self._fd, "wb", buffering=0, closefd=False)
            self._writer = ParquetWriter(
                pa.PythonFile(self._raw, "w"), self._schema, compression=self._compression
            )
        table = pa.Table.from_batches(self._held, self._schema)
        self._held, self._held_bytes = [], 0
        self._writer.write_table(table)

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
