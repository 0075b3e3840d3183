"""CSV as rows: the columns come from the header of each file, or from the configuration."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as pc

from penstock_builtin.file_source.config import FileSourceConfig
from penstock_builtin.file_source.reader import Chunk
from penstock_builtin.file_source.shapes import Shapes, settled
from penstock_builtin.file_source.text import BOM, BadRows, Decoded, clean_bytes
from penstock_connector import ConfigError, DataError

_CONVERSION = "CSV conversion error"
"""What Arrow says about a value that is not of its column's type."""


class CsvDecoder:
    """Makes a row of every record; types are inferred from the first block."""

    def __init__(self, config: FileSourceConfig) -> None:
        self._config = config
        self._tolerant = config.invalid_rows == "dead-letter"
        self._quote = config.csv_quote
        self._named, self._fixed = parse_columns(config.csv_columns)
        self._headers: dict[str, tuple[str, ...]] = {}
        self._shapes = Shapes()
        if not config.csv_header and not self._named:
            raise ConfigError(
                "config.missing",
                "the columns have no names",
                fix="Set `csv.columns`, or `csv.header` when the first line names them.",
                config_path="csv.columns",
            )

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the records of a chunk."""
        data, bad = clean_bytes(chunk, self._config.invalid_utf8)
        if self._config.csv_header and not chunk.start:
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
        elif not chunk.start:
            data = data.removeprefix(BOM)
        if not data.strip(b"\r\n"):
            return Decoded(pa.record_batch([], schema=pa.schema([])), bad)
        return Decoded(self._rows(data, dataset, chunk, bad), bad)

    def _rows(self, data: bytes, dataset: str, chunk: Chunk, bad: BadRows) -> pa.RecordBatch:
        names = self._names(chunk)
        known = self._shapes.of(dataset)
        try:
            table, broken = self._parse(data, names, known, chunk)
        except pa.ArrowInvalid as error:
            if known is None or _CONVERSION not in str(error):
                raise _invalid(chunk, str(error)) from error
            table, broken = self._guess(data, names, chunk)
        seen = settled(_strings_for_nulls(table.schema), times=True)
        wanted = self._shapes.grow(dataset, seen, chunk.path)
        if any(field.type != wanted.field(field.name).type for field in table.schema):
            table, broken = self._parse(data, names, wanted, chunk)
        bad += broken
        return _one(table)

    def _guess(self, data: bytes, names: Sequence[str], chunk: Chunk) -> tuple[pa.Table, BadRows]:
        try:
            return self._parse(data, names, None, chunk)
        except pa.ArrowInvalid as error:
            raise _invalid(chunk, str(error)) from error

    def _parse(
        self, data: bytes, names: Sequence[str], schema: pa.Schema | None, chunk: Chunk
    ) -> tuple[pa.Table, BadRows]:
        bad: BadRows = []

        def skip(row: pc.InvalidRow) -> str:
            bad.append((row.text.encode(), _invalid(chunk, f"{row.actual_columns} columns")))
            return "skip"

        types = {field.name: field.type for field in schema or ()} | self._fixed
        table = pc.read_csv(
            pa.BufferReader(data),
            read_options=pc.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=list(names)
            ),
            parse_options=pc.ParseOptions(
                delimiter=self._config.delimiter,
                quote_char=self._quote or False,
                newlines_in_values=bool(self._quote) and self._quote.encode() in data,
                invalid_row_handler=skip if self._tolerant else None,
            ),
            convert_options=pc.ConvertOptions(
                column_types={name: types[name] for name in names if name in types},
                check_utf8=False,  # `clean_bytes` did
            ),
        )
        return table, bad

    def _names(self, chunk: Chunk) -> tuple[str, ...]:
        if self._named:
            return self._named
        if chunk.start and chunk.path in self._headers:
            return self._headers[chunk.path]
        line = chunk.first_line().removeprefix(BOM).decode("utf-8", "replace")
        reader = csv.reader([line], delimiter=self._config.delimiter, quotechar=self._quote or None)
        names = tuple(next(reader, ()))
        if len(set(names)) < len(names) or not names:
            raise DataError(
                "file.invalid_header",
                f"{chunk.path}: the header names a column twice or none at all",
                fix="Correct the header, or name the columns with `csv.columns`.",
                config_path="csv.columns",
            )
        self._headers[chunk.path] = names
        return names


def parse_columns(columns: Sequence[str]) -> tuple[tuple[str, ...], dict[str, pa.DataType]]:
    """Return the names of `name` or `name:type`, and the types that are given.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    names, types = [], {}
    for column in columns:
        name, _, kind = column.partition(":")
        names.append(name)
        if kind:
            try:
                types[name] = pa.type_for_alias(kind)
            except ValueError as error:
                raise ConfigError(
                    "config.invalid_value",
                    f"column {name!r}: there is no type {kind!r}",
                    fix="Use string, int64, double, bool, date32 or timestamp[us].",
                    config_path="csv.columns",
                ) from error
    return tuple(names), types


def _strings_for_nulls(schema: pa.Schema) -> pa.Schema:
    """A CSV column that has no value yet is a string: every later value is one too."""
    kinds = [pa.string() if pa.types.is_null(field.type) else field.type for field in schema]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


def _invalid(chunk: Chunk, why: str) -> DataError:
    return DataError(
        "file.invalid_csv",
        f"{chunk.path}: a row after byte {chunk.start} cannot be read: {why.splitlines()[0][:200]}",
        fix="Correct the row, or set `invalid.rows` to `dead-letter`.",
        config_path="invalid.rows",
    )


def _one(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
