"""CSV as rows: the columns come from the header of each file, or from the configuration."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.csv as pc

from penstock_builtin.file_source.chunk import Chunk, excerpt, spot
from penstock_builtin.file_source.cutting import first_record
from penstock_builtin.file_source.declared import (
    cast_texts,
    declared_types,
    needs_care,
    parse_columns,
)
from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.shapes import Shapes, settled
from penstock_builtin.file_source.text import BOM, BadRows, Decoded, clean_bytes
from penstock_connector import ConfigError, DataError

_CONVERSION: Final = "CSV conversion error"
"""What Arrow says about a value that is not of its column's type."""

_COLUMN: Final = re.compile(r"In CSV column #(\d+)")
_ROW: Final = re.compile(r"Row #(\d+)")


class CsvDecoder:
    """Makes a row of every record; types are inferred from the first block."""

    def __init__(self, config: ReadingKeys) -> None:
        self._config = config
        self._tolerant = config.invalid_rows == "dead-letter"
        self._quote = config.csv_quote
        self._named, self._fixed = parse_columns(config.csv_columns, "csv.columns")
        self._fixed |= declared_types(config.types)
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
        head = 0
        if not chunk.start:
            head = len(BOM) if data.startswith(BOM) else 0
            if self._config.csv_header:
                head = self._first(data) or len(data)
        if not data[head:].strip(b"\r\n"):
            return Decoded(pa.record_batch([], schema=pa.schema([])), bad)
        block = _Block(chunk, data[head:], data[:head].count(b"\n"))
        return Decoded(self._rows(block, dataset, bad), bad)

    def _first(self, data: bytes) -> int:
        return first_record(data, self._quote.encode(), self._config.csv_escape.encode())

    def _rows(self, block: _Block, dataset: str, bad: BadRows) -> pa.RecordBatch:
        names = self._names(block.chunk)
        known = self._shapes.of(dataset)
        try:
            table, broken = self._read(block, names, known)
        except pa.ArrowInvalid as error:
            if known is None or _CONVERSION not in str(error):
                raise _invalid(block, str(error)) from error
            table, broken = self._guess(block, names)
        declared = pa.schema(list(self._fixed.items()))
        seen = settled(_strings_for_nulls(table.schema), times=True, declared=declared)
        wanted = self._shapes.grow(dataset, seen, block.chunk.path)
        if any(field.type != wanted.field(field.name).type for field in table.schema):
            table, broken = self._read(block, names, wanted)
        bad += broken
        return _one(table)

    def _guess(self, block: _Block, names: Sequence[str]) -> tuple[pa.Table, BadRows]:
        try:
            return self._read(block, names, None)
        except pa.ArrowInvalid as error:
            raise _invalid(block, str(error)) from error

    def _read(
        self, block: _Block, names: Sequence[str], schema: pa.Schema | None
    ) -> tuple[pa.Table, BadRows]:
        if needs_care(block.data, self._fixed.values()):
            return self._set_apart(block, names, schema)
        try:
            return self._parse(block, names, schema)
        except pa.ArrowInvalid as error:
            match = _COLUMN.search(str(error))
            if match is None or names[int(match[1])] not in self._fixed:
                raise
            return self._set_apart(block, names, schema)

    def _set_apart(
        self, block: _Block, names: Sequence[str], schema: pa.Schema | None
    ) -> tuple[pa.Table, BadRows]:
        """Read once more, without the rows whose values are not of the declared types; or fail
        with the first of them.
        """
        texts = {name: pa.string() for name in names if name in self._fixed}
        table, bad = self._parse(block, names, schema, texts)
        wrong: dict[int, str] = {}
        for name in texts:
            kind = self._fixed[name]
            values, misfits = cast_texts(table.column(name).combine_chunks(), kind)
            table = table.set_column(table.schema.get_field_index(name), name, values)
            wrong |= {at: f"{name!r} is no {kind}" for at in misfits if at not in wrong}
        records = self._records(block, len(names)) if wrong else []
        for at in sorted(wrong):
            line, raw = records[at]
            error = _broken(spot(block.chunk, block.lines + line), wrong[at], raw)
            if not self._tolerant:
                raise error
            bad.append((raw, error))
        return table.filter(pa.array([at not in wrong for at in range(len(table))])), bad

    def _parse(
        self,
        block: _Block,
        names: Sequence[str],
        schema: pa.Schema | None,
        instead: dict[str, pa.DataType] | None = None,
    ) -> tuple[pa.Table, BadRows]:
        bad: BadRows = []
        config, data = self._config, block.data

        def skip(row: pc.InvalidRow) -> str:
            raw = row.text.encode()
            line = data[: max(data.find(raw), 0)].count(b"\n")
            where = spot(block.chunk, block.lines + line)
            bad.append((raw, _broken(where, f"{row.actual_columns} columns", raw)))
            return "skip"

        types = {field.name: field.type for field in schema or ()} | self._fixed | (instead or {})
        nulls = {} if config.csv_null is None else {"null_values": [config.csv_null]}
        table = pc.read_csv(
            pa.BufferReader(data),
            read_options=pc.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=list(names)
            ),
            parse_options=pc.ParseOptions(
                delimiter=config.delimiter,
                quote_char=self._quote or False,
                escape_char=config.csv_escape or False,
                newlines_in_values=self._may_have_newlines(data),
                invalid_row_handler=skip if self._tolerant else None,
            ),
            convert_options=pc.ConvertOptions(
                column_types={name: types[name] for name in names if name in types},
                check_utf8=False,  # `clean_bytes` did
                strings_can_be_null=bool(nulls),
                quoted_strings_can_be_null=not nulls,
                **nulls,
            ),
        )
        return table, bad

    def _may_have_newlines(self, data: bytes) -> bool:
        marks = (self._quote, self._config.csv_escape)
        return any(mark and mark.encode() in data for mark in marks)

    def _names(self, chunk: Chunk) -> tuple[str, ...]:
        if self._named:
            return self._named
        if chunk.start and chunk.path in self._headers:
            return self._headers[chunk.path]
        begin = chunk.beginning().removeprefix(BOM)
        line = begin[: self._first(begin) or len(begin)].decode("utf-8", "replace")
        names = tuple(next(self._reader([line]), ()))
        if len(set(names)) < len(names) or not names:
            raise DataError(
                "file.invalid_header",
                f"{chunk.path}: the header names a column twice or none at all",
                fix="Correct the header, or name the columns with `csv.columns`.",
                config_path="csv.columns",
            )
        self._headers[chunk.path] = names
        return names

    def _reader(self, lines: Sequence[str]) -> Iterator[list[str]]:
        config = self._config
        return csv.reader(
            [piece for line in lines for piece in line.splitlines(keepends=True)],
            delimiter=config.delimiter,
            quotechar=self._quote or None,
            quoting=csv.QUOTE_MINIMAL if self._quote else csv.QUOTE_NONE,
            escapechar=config.csv_escape or None,
        )

    def _records(self, block: _Block, width: int) -> list[tuple[int, bytes]]:
        """Return the line and the bytes of each record that is a row: only for errors."""
        quote, escape = self._quote.encode(), self._config.csv_escape.encode()
        records, at, line = [], 0, 0
        while at < len(block.data):
            size = first_record(block.data[at:], quote, escape) or len(block.data) - at
            raw = block.data[at : at + size]
            columns = len(next(self._reader([raw.decode("utf-8", "replace")]), ()))
            if raw.strip(b"\r\n") and columns == width:
                records.append((line, raw))
            at, line = at + size, line + raw.count(b"\n")
        return records


class _Block:
    """Records of a chunk without its header, of which there were so many lines."""

    def __init__(self, chunk: Chunk, data: bytes, lines: int) -> None:
        self.chunk, self.data, self.lines = chunk, data, lines


def _strings_for_nulls(schema: pa.Schema) -> pa.Schema:
    """A CSV column that has no value yet is a string: every later value is one too."""
    kinds = [pa.string() if pa.types.is_null(field.type) else field.type for field in schema]
    return pa.schema(list(zip(schema.names, kinds, strict=True)))


def _invalid(block: _Block, why: str) -> DataError:
    """Return what Arrow says of a row. It counts rows: a line is exact where no value has two."""
    row = _ROW.search(why)
    lines = block.data.split(b"\n")
    line = min(int(row[1]) - 1, len(lines) - 1) if row else 0
    where = spot(block.chunk, block.lines + line)
    text = why.splitlines()[0][:200].removeprefix("CSV parse error: ")
    return _broken(where if row else f"{where} or after it", text, lines[line])


def _broken(where: str, why: str, row: bytes) -> DataError:
    return DataError(
        "file.invalid_csv",
        f"{where} cannot be read: {why}: {excerpt(row)}",
        fix="Correct the row, or set `invalid.rows` to `dead-letter`.",
        config_path="invalid.rows",
    )


def _one(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
