"""Rows as the bytes of a text file. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.jsontext import base64_texts, duration_texts, json_lines
from penstock_builtin.onevalue import one_list, one_text
from penstock_builtin.rowcolumns import row_names
from penstock_connector import SchemaError


class Encoder(Protocol):
    """Encodes rows of one schema. `head` begins every file."""

    head: bytes

    def encode(self, rows: pa.RecordBatch) -> Sequence[Any]:
        """Return buffers to be written one after the other."""


class TextEncoder:
    """One column, one line a row. A missing value is an empty line."""

    head = b""

    def __init__(self, column: str) -> None:
        self._column = column

    def encode(self, rows: pa.RecordBatch) -> Sequence[Any]:
        """Return the lines."""
        return joined_lines(rows.column(self._column))


class JsonEncoder:
    """One JSON object a line."""

    head = b""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)

    def encode(self, rows: pa.RecordBatch) -> Sequence[Any]:
        """Return the objects."""
        lines = json_lines(rows.select(self._names))
        return _joined(lines, b"")


class CsvEncoder:
    """Delimited values, quoted where needed."""

    def __init__(self, names: Sequence[str], delimiter: str, *, header: bool) -> None:
        self._names = list(names)
        self._options = pa_csv.WriteOptions(include_header=False, delimiter=delimiter)
        text = io.StringIO()
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(names)
        self.head = text.getvalue().encode() if header else b""

    def encode(self, rows: pa.RecordBatch) -> Sequence[Any]:
        """Return the records."""
        columns = [_for_csv(rows.column(name)) for name in self._names]
        sink = pa.BufferOutputStream()
        pa_csv.write_csv(pa.record_batch(columns, names=self._names), sink, self._options)
        return [sink.getvalue()]


_BYTES: Final = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    lambda kind: kind == pa.binary_view(),
)


def _for_csv(column: pa.Array) -> pa.Array:
    """Return a column as Arrow can write it to CSV: bytes and durations have the texts that they
    have in JSON. Bytes need not be text in any encoding.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_duration(column.type):
        return duration_texts(column)
    if column.type == pa.binary_view():
        column = column.cast(pa.binary())
    if any(is_one(column.type) for is_one in _BYTES):
        return base64_texts(column)
    return column.cast(pa.string()) if column.type == pa.string_view() else column


def encoder_for(config: FileSinkConfig, schema: pa.Schema) -> Encoder:
    """Return the encoder of a text format for a schema.

    Raises:
        SchemaError: the format cannot hold rows of it.
    """
    names = row_names(schema, reserved=config.reserved_columns)
    match config.format:
        case "text":
            return TextEncoder(text_column(config.text_column, schema, names))
        case "csv":
            return _csv_encoder(config, schema, names)
    return JsonEncoder(names)


def text_column(wanted: str, schema: pa.Schema, names: Sequence[str]) -> str:
    """Return the column that is the text.

    Raises:
        SchemaError: `file.text_column`: there is none, or no telling which.
    """
    name = wanted or ("line" if "line" in names else names[0] if len(names) == 1 else "")
    if name not in schema.names:
        raise SchemaError(
            "file.text_column",
            f"there is no column {name!r}" if name else f"which column is the text: {names}?",
            fix="Set `text.column` to one of them, or another `format`.",
        )
    if pa.types.is_nested(schema.field(name).type):
        raise SchemaError(
            "file.text_column",
            f"column {name!r} has parts and is no text",
            fix="Set `format` to `jsonl`.",
        )
    return name


def _csv_encoder(config: FileSinkConfig, schema: pa.Schema, names: Sequence[str]) -> CsvEncoder:
    nested = [name for name in names if pa.types.is_nested(schema.field(name).type)]
    if nested:
        raise SchemaError(
            "file.csv_nested",
            f"columns have parts, and CSV cannot hold them: {', '.join(nested)}",
            fix="Set `format` to `jsonl` or `parquet`, or leave them out with a transform.",
        )
    for name in names:
        kind = schema.field(name).type
        try:
            CsvEncoder([name], config.delimiter, header=False).encode(
                pa.record_batch([pa.nulls(1, kind)], names=[name])
            )
        except pa.ArrowException as error:
            raise SchemaError(
                "file.csv_type",
                f"column {name!r} is {kind}, which CSV cannot hold",
                fix="Set `format` to `jsonl`, or cast or leave out the column with a transform.",
            ) from error
    return CsvEncoder(names, config.delimiter, header=config.csv_header)


def joined_lines(column: pa.Array) -> Sequence[Any]:
    """Return values as lines. The whole column is one text to Arrow: nothing is done per value."""
    if pa.types.is_duration(column.type):
        column = duration_texts(column)
    if not pa.types.is_string(column.type):
        is_bytes = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
        column = column.cast(pa.binary() if is_bytes else pa.string())
    return [*_joined(column, b"\n"), b"\n"] if len(column) else []


def _joined(column: pa.Array, between: bytes) -> Sequence[Any]:
    if not len(column):
        return []
    if column.null_count:
        column = column.fill_null("")
    end = one_text(between, len(between), column.type)[0]
    text = pc.binary_join(one_list(column), end)
    return [text.buffers()[2]] if text.buffers()[2] is not None else []
