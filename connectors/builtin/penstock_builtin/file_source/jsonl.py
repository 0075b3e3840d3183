"""JSON lines as rows: the columns are the fields of the objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
import pyarrow.json as pj

from penstock_builtin.file_source.chunk import Chunk, excerpt, spot
from penstock_builtin.file_source.declared import needs_care
from penstock_builtin.file_source.shapes import Shapes, incompatible, settled
from penstock_builtin.file_source.text import BOM, BadRows, Decoded, clean_bytes, lines_of
from penstock_connector import DataError

_MOST_BEHIND: Final = 38
"""Digits that a number may have behind its point more than its column: Arrow's tables end there."""


class JsonDecoder:
    """Makes a row of every line that is a JSON object."""

    def __init__(
        self, invalid_utf8: str, invalid_rows: str, types: Mapping[str, pa.DataType]
    ) -> None:
        self._invalid_utf8 = invalid_utf8
        self._declared = pa.schema(list(types.items()))
        self._tolerant = invalid_rows == "dead-letter"
        self._shapes = Shapes()

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the objects of a chunk."""
        data, bad = clean_bytes(chunk, self._invalid_utf8)
        if not chunk.start:
            data = data.removeprefix(BOM)
        try:
            if needs_care(data, self._declared.types):
                raise pa.ArrowInvalid("a decimal may have too many digits")
            rows = self._rows(data, dataset, chunk)
        except pa.ArrowInvalid:
            data, broken = self._without_broken(data, chunk)
            bad += broken
            try:
                rows = self._rows(data, dataset, chunk)
            except pa.ArrowInvalid as error:
                raise incompatible(chunk.path, str(error)) from error
        return Decoded(rows, bad)

    def _rows(self, data: bytes, dataset: str, chunk: Chunk) -> pa.RecordBatch:
        if not data.strip():
            return pa.record_batch([], schema=pa.schema([]))
        known = self._shapes.of(dataset)
        try:
            table = _parse(data, known or self._declared)
        except pa.ArrowInvalid:
            if known is None:
                raise
            table = _parse(data, self._declared)
        if known is not None and table.schema.equals(known):
            return _one(table)
        seen = settled(table.schema, times=False, declared=self._declared)
        if not seen.names:
            raise DataError(
                "file.no_columns",
                f"{chunk.path}: no row from byte {chunk.start} on has a field",
                fix="Remove the empty objects.",
            )
        wanted = self._shapes.grow(dataset, seen, chunk.path)
        if table.schema.equals(wanted):
            return _one(table)
        # Again, with the types that were decided: a text that looks like a time stays a text.
        return _one(_parse(data, wanted, unexpected="ignore"))

    def _why_undeclared(self, line: bytes) -> str:
        """A value that is not of its declared type is a broken row; of an inferred one, it is a
        change of the schema.
        """
        if not self._declared.names or not line.strip():
            return ""
        try:
            if needs_care(line, self._declared.types) and not self._can_be_read(line):
                return "not of the declared types"
            _parse(line, self._declared, unexpected="ignore")
        except pa.ArrowInvalid:
            return "not of the declared types"
        return ""

    def _can_be_read(self, line: bytes) -> bool:
        """Tell whether Arrow can stand the decimals of a line, as they are written."""
        try:
            row = json.loads(line, parse_float=Decimal)
        except InvalidOperation:  # an exponent of 19 digits
            return False
        decimals = [field for field in self._declared if pa.types.is_decimal(field.type)]
        return all(_is_short(row.get(field.name), field.type.scale) for field in decimals)

    def _without_broken(self, data: bytes, chunk: Chunk) -> tuple[bytes, BadRows]:
        """Find the lines that are no objects: only when a block was refused, one by one."""
        good: list[bytes] = []
        bad: BadRows = []
        for number, line in enumerate(lines_of(data)):
            why = _why_broken(line) or self._why_undeclared(line)
            if not why:
                good.append(line)
                continue
            error = DataError(
                "file.invalid_json",
                f"{spot(chunk, number)} is {why}: {excerpt(line)}",
                fix="Correct the line, or set `invalid.rows` to `dead-letter`.",
                config_path="invalid.rows",
            )
            if not self._tolerant:
                raise error
            bad.append((line, error))
        return b"".join(good), bad


def _is_short(value: object, scale: int) -> bool:
    try:
        number = Decimal(value) if isinstance(value, str | int | Decimal) else Decimal(0)
    except InvalidOperation:
        return True  # it is none, which Arrow says
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and -exponent - scale <= _MOST_BEHIND


def _parse(data: bytes, schema: pa.Schema | None, unexpected: str = "infer") -> pa.Table:
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
    )


def _one(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _why_broken(line: bytes) -> str:
    if not line.strip():
        return ""
    try:
        value = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return "not JSON"
    return "" if isinstance(value, dict) else "no object"


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is there twice")
    return fields
