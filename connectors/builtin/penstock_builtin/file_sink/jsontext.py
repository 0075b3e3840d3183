"""Columns as JSON text, a column at a time.

Numbers, texts, times and truth values never become Python objects. Nested values do: they are rare,
and Arrow has no writer for them.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_ESCAPES: Final = {
    "\\": "\\\\",
    '"': '\\"',
    **{chr(code): json.dumps(chr(code))[1:-1] for code in range(0x20)},
}


def json_lines(rows: pa.RecordBatch) -> pa.Array:
    """Return each row as the text of a JSON object with a newline."""
    if not rows.num_columns:
        return pa.array(["{}\n"] * rows.num_rows, pa.string())
    pieces: list[Any] = []
    before = "{"
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        text, is_quoted = _values(column)
        quote = '"' if is_quoted else ""
        if is_quoted and column.null_count:
            # A missing value has no quotes: they cannot stand between the columns.
            text, quote = _quoted(text), ""
        pieces += [
            f"{before}{json.dumps(name, ensure_ascii=False)}:{quote}",
            text.fill_null("null"),
        ]
        before = f"{quote},"
    return pc.binary_join_element_wise(*pieces, f"{quote}}}\n", "")


def _values(column: pa.Array) -> tuple[pa.Array, bool]:
    """Return each value as text, and whether it goes between quotes in JSON."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return _escaped(column.cast(pa.string())), True
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string()), False
    if pa.types.is_floating(kind):
        return _finite(column), False
    if pa.types.is_timestamp(kind):
        text = column.cast(pa.string())
        return pc.replace_substring(text, " ", "T", max_replacements=1), True
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return column.cast(pa.string()), True
    return pa.array([_text(value) for value in column.to_pylist()], pa.string()), False


def _finite(column: pa.Array) -> pa.Array:
    """JSON has no infinity and no NaN."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    nothing = pa.scalar(None, pa.string())
    return pc.if_else(pc.is_finite(column), column.cast(pa.string()), nothing)


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(text: pa.Array) -> pa.Array:
    """Escape what JSON wants escaped. Most columns have none of it, and are only searched,
    which for a single byte runs at the speed of memory.
    """
    data = _bytes_of(text)
    for character, escape in _ESCAPES.items():  # the backslash comes first
        if character.encode() in data:
            text = pc.replace_substring(text, character, escape)
    return text


def _bytes_of(text: pa.Array) -> bytes:
    """Return the bytes of all values. Those of missing ones may be among them: it does no harm."""
    buffer = text.buffers()[2]
    if buffer is None or not len(text):
        return b""
    offsets = memoryview(text.buffers()[1]).cast("i")
    first, last = offsets[text.offset], offsets[text.offset + len(text)]
    return bytes(memoryview(buffer)[first:last])


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return value if value - value == 0 else None
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return str(value)
