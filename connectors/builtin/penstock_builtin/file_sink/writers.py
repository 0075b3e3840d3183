"""The port of formats: rows into a sheet. Implementations: lines, Parquet, Avro."""

from __future__ import annotations

import contextlib
import secrets
from typing import Any, Protocol

import pyarrow as pa

from penstock_builtin.avro.container import SYNC
from penstock_builtin.avro.writing import RecordWriter
from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.encode import Encoder
from penstock_builtin.file_sink.sheet import Sheet, SheetFile
from penstock_builtin.parquet import ParquetRows


class RowWriter(Protocol):
    """Writes rows of one schema to one sheet."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows, or keep them for a while."""

    def finish(self) -> None:
        """Write what is still kept, and the end of the file."""

    def drop(self) -> None:
        """Forget what is still kept."""


class LineWriter:
    """Lines as they are."""

    def __init__(self, sheet: Sheet, encoder: Encoder, head: bytes) -> None:
        self._sheet, self._encoder = sheet, encoder
        if head:
            sheet.write([head])

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows."""
        self._sheet.write(self._encoder.encode(rows))

    def finish(self) -> None:
        """Nothing is kept."""

    def drop(self) -> None:
        """Nothing is kept."""


class PackedLineWriter:
    """Lines in a compressed stream of their own: streams one after the other are one text."""

    def __init__(self, sheet: Sheet, encoder: Encoder, head: bytes, packing: str) -> None:
        self._encoder = encoder
        self._file = SheetFile(sheet)
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._file, "w"), packing)
        if head:
            self._stream.write(head)

    def add(self, rows: pa.RecordBatch) -> None:
        """Pack rows."""
        for buffer in self._encoder.encode(rows):
            self._stream.write(buffer)

    def finish(self) -> None:
        """End the stream."""
        self._stream.close()

    def drop(self) -> None:
        """Forget it."""
        self._file.cut_off()
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            self._stream.close()


class ParquetWriter:
    """One Parquet file."""

    def __init__(self, sheet: Sheet, schema: pa.Schema, packing: str) -> None:
        self._file = SheetFile(sheet)
        self._rows = ParquetRows(self._file, schema, packing)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows."""
        self._rows.add(rows)

    def finish(self) -> None:
        """Write the last row group and the footer."""
        self._rows.finish()

    def drop(self) -> None:
        """Forget it."""
        self._file.cut_off()
        self._rows.drop()


class AvroWriter:
    """One Avro file."""

    def __init__(self, sheet: Sheet, schema: pa.Schema, packing: str) -> None:
        codec = {"none": "null", "gzip": "deflate", "zstd": "zstandard"}.get(packing, packing)
        self._sheet = sheet
        self._records = RecordWriter(schema, codec, secrets.token_bytes(SYNC))
        sheet.write([self._records.header])

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows as blocks."""
        self._sheet.write(self._records.blocks(rows))

    def finish(self) -> None:
        """Blocks are whole."""

    def drop(self) -> None:
        """Nothing is kept."""


def packed_head(head: bytes, packing: str) -> bytes:
    """Return what begins a file of lines, as a stream of its own where they are compressed."""
    if packing == "none" or not head:
        return head
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, packing) as stream:
        stream.write(head)
    return bytes(out.getvalue())


def writer_for(
    config: FileSinkConfig, sheet: Sheet, schema: pa.Schema, encoder: Encoder | None, head: bytes
) -> RowWriter:
    """Return what writes rows of a schema, which has only the columns to write. `head` begins a
    sheet of lines that is a file of its own.
    """
    made: Any
    if config.format == "parquet":
        made = ParquetWriter(sheet, schema, config.packing)
    elif config.format == "avro":
        made = AvroWriter(sheet, schema, config.packing)
    else:
        assert encoder is not None  # noqa: S101 - lines have one
        if config.packing == "none":
            return LineWriter(sheet, encoder, head)
        return PackedLineWriter(sheet, encoder, head, config.packing)
    return made  # type: ignore[no-any-return] # either is one
