"""Rows of one attempt at a slot, in the final encoding, in files that nobody looks at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock_builtin.file_sink import disk
from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.encode import Encoder
from penstock_builtin.file_sink.place import Place
from penstock_builtin.opening import telling
from penstock_builtin.parquet import ParquetRows
from penstock_builtin.rowcolumns import row_names


@dataclass(frozen=True, slots=True)
class Part:
    """A staged file: its name, what is in it, and what has to stand before it in a new file."""

    name: str
    size: int
    rows: int
    head: bytes = b""


class FileStaging:
    """The parts of one attempt. Subclasses encode.

    Attributes:
        place: Where they belong.
        slot: The slot, for names.
        parts: What was staged, in order; complete after `close`.
    """

    def __init__(self, place: Place, slot: int, prefix: str, config: FileSinkConfig) -> None:
        self.place, self.slot = place, slot
        self.parts: list[Part] = []
        self._prefix = prefix
        self._config = config
        self._most = config.rotate_rows if config.path else 0
        self._fd: int | None = None
        self._rows = 0

    def put(self, rows: pa.RecordBatch) -> None:
        """Stage rows, in parts of the rows that a file may have."""
        with telling(self.place.path):
            while rows.num_rows:
                room = self._most - self._rows if self._most else rows.num_rows
                self._write(rows.slice(0, room))
                self._rows += min(room, rows.num_rows)
                rows = rows.slice(room)
                if self._rows == self._most:
                    self._end_part()

    def close(self) -> None:
        """End the last part. What is on disk then stays there, as invariant 1 wants it."""
        with telling(self.place.path):
            self._end_part()

    def discard(self) -> None:
        """Remove everything."""
        names = [part.name for part in self.parts]
        if self._fd is not None:
            self._drop_writer()
            os.close(self._fd)
            self._fd = None
            names.append(self._name)
        for name in names:
            disk.unlink(self.place.staging, name)
        self.parts.clear()

    @property
    def _name(self) -> str:
        return f"{self._prefix}-{len(self.parts)}.part"

    def _file(self) -> int:
        if self._fd is None:
            self._fd = disk.create(self.place.staging, self._name)
        return self._fd

    def _end_part(self) -> None:
        if self._fd is None and not self._rows:
            return
        self._flush()
        fd = self._file()
        if self._config.fsync:
            disk.sync(fd)
        part = Part(self._name, os.fstat(fd).st_size, self._rows, self._head())
        os.close(fd)
        self._fd, self._rows = None, 0
        self.parts.append(part)

    def _head(self) -> bytes:
        return b""

    def _write(self, rows: pa.RecordBatch) -> None:
        raise NotImplementedError

    def _flush(self) -> None:
        """Write what is still held."""

    def _drop_writer(self) -> None:
        """Forget what is still held."""


class TextStaging(FileStaging):
    """Lines: text, JSON, CSV."""

    def __init__(
        self, place: Place, slot: int, prefix: str, config: FileSinkConfig, encoder: Encoder
    ) -> None:
        super().__init__(place, slot, prefix, config)
        self._encoder = encoder

    def _write(self, rows: pa.RecordBatch) -> None:
        buffers: Sequence[Any] = self._encoder.encode(rows)
        disk.write(self._file(), buffers)

    def _head(self) -> bytes:
        return self._encoder.head


class ParquetStaging(FileStaging):
    """Parquet: a file a part."""

    def __init__(
        self, place: Place, slot: int, prefix: str, config: FileSinkConfig, schema: pa.Schema
    ) -> None:
        super().__init__(place, slot, prefix, config)
        self._names = row_names(schema, reserved=config.reserved_columns)
        self._schema = pa.schema([schema.field(name) for name in self._names])
        self._parquet: ParquetRows | None = None

    def _write(self, rows: pa.RecordBatch) -> None:
        if self._parquet is None:
            self._parquet = ParquetRows(self._file(), self._schema, self._config.compression)
        self._parquet.add(rows.select(self._names))

    def _flush(self) -> None:
        if self._parquet is not None:
            self._parquet.finish()
            self._parquet = None

    def _drop_writer(self) -> None:
        if self._parquet is not None:
            self._parquet.drop()
            self._parquet = None
