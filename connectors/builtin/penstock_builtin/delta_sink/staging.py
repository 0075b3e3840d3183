"""Parquet files in a table's folder that the table does not know yet."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from penstock_builtin.opening import telling
from penstock_builtin.parquet import ParquetRows


class DeltaStaging:
    """Rows of one attempt at a slot. An attempt without rows leaves no file.

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
        self._parquet: ParquetRows | None = None
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
        with telling(str(self._path)):
            self._opened().add(batch)

    def close(self) -> None:
        """Finish the file and wait until it is on the disk (invariant 1)."""
        if self._parquet is None:
            return
        with telling(str(self._path)):
            self._parquet.finish()
            self._parquet = None
            os.fdatasync(self._fd)
            self.size = os.fstat(self._fd).st_size
            self._close_file()

    def discard(self) -> None:
        """Remove the file."""
        if self._parquet is not None:
            self._parquet.drop()
            self._parquet = None
        self._close_file()
        self._path.unlink(missing_ok=True)

    def _opened(self) -> ParquetRows:
        if self._parquet is None:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o666)
            self._parquet = ParquetRows.at(self._fd, self._schema, self._compression)
        return self._parquet

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
