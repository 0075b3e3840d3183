"""One Parquet file of a topic: rows with their numbers, durable when it is closed.

No dictionary (it costs a third of the speed and rarely helps), lz4 (a third of the CPU of zstd when
read), no statistics (`__index` is the only column anyone would ask for, and it is the row's
number).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.topic_files.folder import Folder
from penstock.topic_files.layout import INDEX

GROUP_ROWS: Final = 131_072
"""Most rows of a row group, which is what a reader decodes at least. Readers cut files at its
multiples."""

GROUP_BYTES: Final = 16 << 20
"""Bytes of rows that are collected before they become a row group: small batches must not become
small groups, and wide rows must not become huge ones."""


class RowFile:
    """A file that is being written."""

    def __init__(self, folder: Folder, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.rows = 0
        self.buffered = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._schema = schema.append(pa.field(INDEX, pa.int64()))
        self._file = folder.create(name)
        self._writer = pq.ParquetWriter(
            self._file.sink,
            self._schema,
            compression="lz4",
            use_dictionary=False,
            write_statistics=False,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows, and give them their numbers."""
        first = self.rows
        numbers = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
        self.rows += rows.num_rows
        self._waiting.append(
            pa.RecordBatch.from_arrays([*rows.columns, numbers], schema=self._schema)
        )
        self._waiting_rows += rows.num_rows
        self.buffered += rows.nbytes
        if self._waiting_rows >= GROUP_ROWS or self.buffered >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was collected."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self._schema)
        fitting = self._waiting_rows * GROUP_BYTES // max(self.buffered, 1)
        self._writer.write_table(table, row_group_size=max(1, min(GROUP_ROWS, fitting)))
        self._waiting, self._waiting_rows, self.buffered = [], 0, 0

    def close(self) -> int:
        """Write the rest and make the content durable; returns its bytes."""
        self.flush()
        self._writer.close()
        return self._file.finish()

    def discard(self) -> None:
        """Remove the file, whatever state it is in."""
        with suppress(Exception):
            self._writer.close()
        self._file.discard()
