"""JSON objects to a struct column, many messages at once. Pure.

Arrow's own parser reads what it reads as Python's does; everything else is left to the parser that
takes messages one by one, and knows which of them is at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

_OBJECT: Final = r"^[ \t\r]*\{.*\}[ \t\r]*$"
_BRACKET: Final = r"[{\[]"
_MAX_BRACKETS: Final = 100
"""Brackets of a message that Arrow reads: deeper ones would overflow the stack of the process."""

_ODD_NUMBER: Final = r"(^|[^0-9.])[0-9]{16,}|NaN|Inf"
"""A whole number that a double may not hold exactly, and what is no number in JSON."""


class ObjectReader:
    """Reads objects. It remembers the columns of those before, so that it need not look for them
    again, and a row has all that an earlier one had.
    """

    def __init__(self) -> None:
        self._columns: pa.Schema | None = None

    def read(self, data: pa.Array) -> pa.Array | None:
        """Return the objects of messages as structs; null for a null message. None: they are not
        all objects that Arrow reads as Python does.
        """
        texts = pc.drop_null(data.cast(pa.binary()))
        if not len(texts) or not are_one_line_objects(texts):
            return None
        lines = pa.py_buffer(b"\n".join(texts.to_pylist()))
        found = self._read(lines)
        if found is None or found.num_rows != len(texts):
            return None
        if not found.num_columns or any(map(_is_misread, found.schema.types)):
            return None
        if any(map(_has_fraction, found.schema.types)) and _have_odd_numbers(texts):
            return None  # Arrow would cut their digits, or take them for numbers
        self._columns = found.schema
        (chunk,) = found.to_batches()  # of one block
        rows = pa.StructArray.from_arrays(chunk.columns, fields=list(found.schema))
        return rows if not data.null_count else rows.take(_places(data))

    def _read(self, lines: pa.Buffer) -> pa.Table | None:
        for known in (self._columns, None):
            try:
                found = _parse(lines, known)
                plain = pa.schema([f.with_type(_without_times(f.type)) for f in found.schema])
                is_new = found.schema != known and any(map(_has_list, plain.types))
                # a text that looks like a time is a text; and a list that begins with a null is
                # read right only by Arrow when its type is known before
                return _parse(lines, plain) if plain != found.schema or is_new else found
            except pa.ArrowInvalid:
                continue
        return None


def _places(data: pa.Array) -> pa.Array:
    """Return the index of each value among those that are not null."""
    counts = pc.cumulative_sum(data.is_valid().cast(pa.int64()))
    return pc.if_else(data.is_valid(), pc.subtract(counts, 1), pa.scalar(None, pa.int64()))


def are_one_line_objects(texts: pa.Array) -> bool:
    """Return whether texts are objects of one line each that Arrow's parser may be given."""
    try:
        as_text = texts.cast(pa.string())  # also checks that they are UTF-8
    except pa.ArrowInvalid:
        return False
    if pc.max(pc.count_substring_regex(as_text, _BRACKET)).as_py() > _MAX_BRACKETS:
        return False
    has_lines = pc.any(pc.match_substring(as_text, "\n")).as_py()
    are_objects = pc.all(pc.match_substring_regex(as_text, _OBJECT)).as_py()
    return bool(are_objects and not has_lines)


def _have_odd_numbers(texts: pa.Array) -> bool:
    found = pc.match_substring_regex(texts.cast(pa.string()), _ODD_NUMBER)
    return bool(pc.any(found).as_py())


def _parse(lines: pa.Buffer, schema: pa.Schema | None) -> pa.Table:
    size = max(lines.size + 1, 1 << 20)  # one block: types are those of all rows
    with pa.BufferReader(lines) as source:
        return pj.read_json(
            source,
            read_options=pj.ReadOptions(use_threads=False, block_size=size),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="infer"
            ),
        )


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_times(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_without_times(f.type)) for f in kind.fields])
    return kind


def _has_fraction(kind: pa.DataType) -> bool:
    return _has(kind, pa.types.is_floating)


def _has_list(kind: pa.DataType) -> bool:
    return _has(kind, pa.types.is_list)


def _is_misread(kind: pa.DataType) -> bool:
    """Return whether a struct without fields, or a list of nulls, is in a type: Arrow miscounts
    them.
    """
    return _has(kind, _is_empty)


def _is_empty(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return bool(pa.types.is_null(kind.value_type))
    return bool(pa.types.is_struct(kind) and not kind.num_fields)


def _has(kind: pa.DataType, is_it: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type is of a kind, or one inside of it."""
    if is_it(kind):
        return True
    if pa.types.is_list(kind):
        return _has(kind.value_type, is_it)
    return bool(pa.types.is_struct(kind)) and any(_has(f.type, is_it) for f in kind.fields)
