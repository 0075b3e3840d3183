"""JSON lines as rows: the columns are the fields of the objects.

A block is read by Arrow as a whole. Only a block that Arrow refuses, or that may not be what it
seems, is looked at line by line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.json as pj

from penstock_builtin.file_source.chunk import Chunk, excerpt, spot
from penstock_builtin.file_source.declared import needs_care, wrong_type
from penstock_builtin.file_source.json_lines import (
    BLANK,
    MAX_LEVELS,
    JsonLine,
    count_objects,
    split_objects,
)
from penstock_builtin.file_source.json_numbers import INT64, inexact_field, may_lose_digits
from penstock_builtin.file_source.json_types import as_declared, read_schema
from penstock_builtin.file_source.shapes import Shapes, incompatible, settled
from penstock_builtin.file_source.text import BOM, BadRows, Decoded, clean_bytes
from penstock_connector import DataError

_MOST_BEHIND: Final = 38
"""Digits that a number may have behind its point more than its column: Arrow's tables end there."""

_NOTHING: Final = pa.schema([])

log = logging.getLogger(__name__)


class JsonDecoder:
    """Makes a row of every line. A line must be one JSON object."""

    def __init__(
        self,
        invalid_utf8: str,
        invalid_rows: str,
        types: Mapping[str, pa.DataType],
        shapes: Shapes,
    ) -> None:
        self._invalid_utf8 = invalid_utf8
        self._declared = pa.schema(list(types.items()))
        _refuse_types(types)
        self._tolerant = invalid_rows == "dead-letter"
        self._shapes = shapes
        self._warned: set[tuple[str, str]] = set()

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the objects of a chunk."""
        data, bad = clean_bytes(chunk, self._invalid_utf8)
        if not chunk.start:
            data = data.removeprefix(BOM)
        if not data.strip(BLANK):
            return Decoded(pa.record_batch([], schema=_NOTHING), bad)
        try:
            return Decoded(self._rows(data, dataset, chunk), bad)
        except pa.ArrowInvalid:
            rows, rejected = self._rows_by_line(data, dataset, chunk)
            return Decoded(rows, bad + rejected)

    def _rows(self, data: bytes, dataset: str, chunk: Chunk) -> pa.RecordBatch:
        """Return the rows of a block in which nothing is wrong.

        Raises:
            pa.ArrowInvalid: something is, or may be.
        """
        lines = count_objects(data)
        if needs_care(data, self._declared.types):
            raise pa.ArrowInvalid("a decimal may have too many digits")
        known = self._shapes.of(dataset)
        table = _parse(data, known or self._declared)
        if table.num_rows != lines:
            raise pa.ArrowInvalid("a line has several objects")
        if known is not None and _adds_nothing(table.schema, known):
            wanted, rows = known, _one(table.select(known.names))
        else:
            wanted = self._wanted(table.schema, dataset, chunk)
            rows = _one(_parse(data, wanted, unexpected="ignore"))
        if may_lose_digits(data, rows, self._declared):
            raise pa.ArrowInvalid("a whole number may lose digits")
        self._keep(wanted, table.schema, dataset, chunk)
        return rows

    def _rows_by_line(
        self, data: bytes, dataset: str, chunk: Chunk
    ) -> tuple[pa.RecordBatch, BadRows]:
        """Return the rows of a block without the lines that cannot be rows; or fail with the first
        of these.
        """
        rejected = _Rejected(chunk, tolerant=self._tolerant)
        lines, broken = split_objects(data)
        for number, raw, why in broken:
            rejected.add(number, raw, _Invalid(why))
        readable = self._without_unreadable(lines, rejected)
        if not readable:
            return pa.record_batch([], schema=_NOTHING), rejected.sorted_rows()
        try:
            return self._exact_rows(readable, dataset, rejected), rejected.sorted_rows()
        except pa.ArrowInvalid as error:
            raise incompatible(chunk.path, str(error)) from error

    def _exact_rows(
        self, lines: Sequence[JsonLine], dataset: str, rejected: _Rejected
    ) -> pa.RecordBatch:
        """Reject lines with numbers that would lose digits: first those that made a column one of
        fractions, by being beyond int64.
        """
        for least in (INT64, 0):
            seen = _parse(_joined(lines), self._declared).schema
            wanted = self._wanted(seen, dataset, rejected.chunk)
            lines = self._without_inexact(lines, wanted, rejected, least)
            if not lines:
                return pa.record_batch([], schema=_NOTHING)
        rows = _one(_parse(_joined(lines), wanted, unexpected="ignore"))
        self._keep(wanted, seen, dataset, rejected.chunk)
        return rows

    def _without_unreadable(
        self, lines: Sequence[JsonLine], rejected: _Rejected
    ) -> Sequence[JsonLine]:
        """Reject lines that Arrow does not read: above all values of another type than declared."""
        careful = needs_care(_joined(lines), self._declared.types)
        unfit = [line for line in lines if careful and not self._has_short_decimals(line.raw)]
        numbers = {line.number for line in unfit}
        unfit += self._unreadable([line for line in lines if line.number not in numbers])
        for line in sorted(unfit, key=lambda line: line.number):
            rejected.add(line.number, line.raw, _Invalid(self._why_unreadable(line)))
        numbers = {line.number for line in unfit}
        return [line for line in lines if line.number not in numbers]

    def _unreadable(self, lines: Sequence[JsonLine]) -> list[JsonLine]:
        """Return the lines that are refused also when they are alone: by halves, so that a few
        among many are found fast.
        """
        if not lines or not _why_refused(_joined(lines), self._declared):
            return []
        if len(lines) == 1:
            return list(lines)
        half = len(lines) // 2
        return self._unreadable(lines[:half]) + self._unreadable(lines[half:])

    def _why_unreadable(self, line: JsonLine) -> str:
        why = self._has_short_decimals(line.raw) and _why_refused(line.raw, _NOTHING)
        return f"JSON that is not a row ({why})" if why else "not of the declared types"

    def _has_short_decimals(self, line: bytes) -> bool:
        """Return whether Arrow can stand the decimals of a line, as they are written."""
        if not needs_care(line, self._declared.types):
            return True
        try:
            row = json.loads(line, parse_float=Decimal)
        except InvalidOperation:  # an exponent of 19 digits
            return False
        decimals = [field for field in self._declared if pa.types.is_decimal(field.type)]
        return all(_is_short(row.get(field.name), field.type.scale) for field in decimals)

    def _without_inexact(
        self, lines: Sequence[JsonLine], wanted: pa.Schema, rejected: _Rejected, least: int
    ) -> Sequence[JsonLine]:
        exact = []
        for line in lines:
            found = inexact_field(line.row, wanted, self._declared, least)
            if found is None:
                exact.append(line)
            else:
                rejected.add(line.number, line.raw, _Inexact(*found))
        return exact

    def _wanted(self, seen: pa.Schema, dataset: str, chunk: Chunk) -> pa.Schema:
        """Return the schema that rows get: what is known, and what was seen."""
        if _depth(pa.struct(list(seen))) > MAX_LEVELS:
            raise pa.ArrowInvalid(f"a line is nested deeper than {MAX_LEVELS} levels")
        types = settled(seen, times=False, declared=self._declared)
        if not types.names:
            raise DataError(
                "file.no_columns",
                f"{chunk.path}: no row from byte {chunk.start} on has a field",
                fix="Remove the empty objects.",
            )
        return self._shapes.joined(dataset, types, chunk.path)

    def _keep(self, wanted: pa.Schema, seen: pa.Schema, dataset: str, chunk: Chunk) -> None:
        self._shapes.keep(dataset, wanted)
        for field in seen:
            if not pa.types.is_null(field.type) and field.name not in wanted.names:
                self._warn(dataset, field, chunk)

    def _warn(self, dataset: str, field: pa.Field, chunk: Chunk) -> None:
        if (dataset, field.name) in self._warned:
            return
        self._warned.add((dataset, field.name))
        example = "list<int64>" if pa.types.is_list(field.type) else "struct<name:string>"
        log.warning(
            "file.untyped_column: %s, from byte %d on: %r has only empty lists or objects so far, "
            "and is left out until it has a value. Declare its type to keep them: types=%s:%s",
            chunk.path, chunk.start, field.name, field.name, example,
        )  # fmt: skip


class _Invalid:
    """What is wrong with a line that is not a row."""

    code, config_path = "file.invalid_json", "invalid.rows"
    fix = "Put one JSON object on each line, or set `invalid.rows` to `dead-letter`."

    def __init__(self, why: str) -> None:
        self.why = f"is {why}"


class _Inexact:
    """What is wrong with a line whose number its column cannot hold."""

    code, config_path = "file.inexact_number", "types"

    def __init__(self, place: str, value: int) -> None:
        column = place.partition(".")[0]
        kind = "decimal(38,0)" if column == place else "…"
        self.why = f"has a whole number in {place!r} that would lose digits: {str(value)[:80]}"
        self.fix = (
            f"Declare a type that holds it, `types={column}:{kind}`, or set `invalid.rows` to "
            "`dead-letter`."
        )


class _Rejected:
    """Lines of a chunk that cannot be rows. Where they must not be, the first is an error."""

    def __init__(self, chunk: Chunk, *, tolerant: bool) -> None:
        self.chunk, self._tolerant = chunk, tolerant
        self._rows: list[tuple[int, bytes, DataError]] = []

    def add(self, number: int, raw: bytes, fault: _Invalid | _Inexact) -> None:
        """Take a line, the one after so many of the chunk."""
        error = DataError(
            fault.code,
            f"{spot(self.chunk, number)} {fault.why}: {excerpt(raw)}",
            fix=fault.fix,
            config_path=fault.config_path,
        )
        if not self._tolerant:
            raise error
        self._rows.append((number, raw, error))

    def sorted_rows(self) -> BadRows:
        """Return the lines in their order, and why each is rejected."""
        return [(raw, error) for _, raw, error in sorted(self._rows, key=itemgetter(0))]


def _is_short(value: object, scale: int) -> bool:
    try:
        number = Decimal(value) if isinstance(value, str | int | Decimal) else Decimal(0)
    except InvalidOperation:
        return True  # it is none, which Arrow says
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and -exponent - scale <= _MOST_BEHIND


def _adds_nothing(seen: pa.Schema, known: pa.Schema) -> bool:
    """Return whether all values of a block were read with types that were known before."""
    more = seen.types[len(known) :]
    return bool(all(map(pa.types.is_null, more)) and seen.names[: len(known)] == known.names
                and seen.types[: len(known)] == known.types)  # fmt: skip


def _depth(kind: pa.DataType) -> int:
    inner = (_depth(kind.field(at).type) for at in range(kind.num_fields))
    return int(pa.types.is_nested(kind)) + max(inner, default=0)


def _joined(lines: Sequence[JsonLine]) -> bytes:
    return b"".join(line.raw for line in lines)


def _why_refused(data: bytes, schema: pa.Schema) -> str:
    """Return what Arrow says against objects; empty when it reads them."""
    try:
        _parse(data, schema)
    except pa.ArrowInvalid as error:
        return str(error).splitlines()[0].removeprefix("JSON parse error: ")[:200]
    return ""


def _parse(data: bytes, schema: pa.Schema, unexpected: str = "infer") -> pa.Table:
    """Return the objects of a block. What is read with inferred types serves for its schema alone:
    Arrow (26) breaks lists that begin with null.
    """
    read = read_schema(schema)
    table = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=read, unexpected_field_behavior=unexpected),
    )
    return table if read is schema else as_declared(table, schema)


def _refuse_types(types: Mapping[str, pa.DataType]) -> None:
    for name, kind in types.items():
        try:
            _parse(b"{}\n", pa.schema([(name, kind)]))
        except pa.ArrowNotImplementedError as error:
            raise wrong_type(f"column {name!r}: no JSON can be read as {kind}", "types") from error


def _one(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
