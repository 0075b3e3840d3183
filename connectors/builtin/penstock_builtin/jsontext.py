"""Columns as JSON text, a column at a time. A value has one form, wherever it stands.

Numbers, texts, times, lists, structs and maps never become Python objects. Bytes do: they are rare,
and Arrow has no base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.nested import Offsets, is_list, list_items, map_entries

_ESCAPES: Final = {
    "\\": "\\\\",
    '"': '\\"',
    **{chr(code): json.dumps(chr(code))[1:-1] for code in range(0x20)},
}

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits behind the point of seconds."""


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


def base64_texts(column: pa.Array) -> pa.Array:
    """Return bytes as text."""
    encoded = (None if v is None else base64.b64encode(v).decode() for v in column.to_pylist())
    return pa.array(encoded, pa.string())


def duration_texts(column: pa.Array) -> pa.Array:
    """Return durations as ISO 8601 has them, in seconds: `PT-1.500000S`."""
    digits = _DIGITS[column.type.unit]
    whole = column.cast(pa.int64()).cast(pa.decimal128(19, 0))
    seconds = pc.multiply(whole, pa.scalar(Decimal(1).scaleb(-digits))) if digits else whole
    if digits == _DIGITS["ns"]:  # Arrow writes so small ones with an exponent
        plain = (None if v is None else format(v, "f") for v in seconds.to_pylist())
        return _between("PT", pa.array(plain, pa.string()), "S")
    return _between("PT", seconds.cast(pa.string()), "S")


def _values(column: pa.Array) -> tuple[pa.Array, bool]:
    """Return each value as text, and whether it goes between quotes in JSON."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _values(column.storage)
    return next(write for is_kind, write in _FORMS if is_kind(kind))(column)


def _element_texts(column: pa.Array) -> pa.Array:
    """Return each value as it stands in a list, a missing one as `null`."""
    text, is_quoted = _values(column)
    return (_quoted(text) if is_quoted else text).fill_null("null")


def _list_texts(column: pa.Array) -> tuple[pa.Array, bool]:
    offsets, items = list_items(column)
    return _joined(column, offsets, _element_texts(items), "[]"), False


def _map_texts(column: pa.Array) -> tuple[pa.Array, bool]:
    """Maps are objects. A key that is no text is the text of its JSON."""
    offsets, keys, values = map_entries(column)
    names, is_quoted = _values(keys)
    names = _quoted(names if is_quoted else _escaped(names.fill_null("null")))
    entries = pc.binary_join_element_wise(names, _element_texts(values), ":")
    return _joined(column, offsets, entries, "{}"), False


def _struct_texts(column: pa.Array) -> tuple[pa.Array, bool]:
    names = [json.dumps(field.name, ensure_ascii=False) for field in column.type]
    pieces: list[Any] = [pa.array(["{"] * len(column), pa.string())]
    for at, (name, child) in enumerate(zip(names, column.flatten(), strict=True)):
        pieces += [f"{',' if at else ''}{name}:", _element_texts(child)]
    return _where_valid(column, pc.binary_join_element_wise(*pieces, "}", "")), False


def _joined(column: pa.Array, offsets: Offsets, items: pa.Array, around: str) -> pa.Array:
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)
    return _where_valid(column, _between(around[0], pc.binary_join(lists, ","), around[1]))


def _where_valid(column: pa.Array, text: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string()))


def _timestamp_texts(column: pa.Array) -> tuple[pa.Array, bool]:
    text = column.cast(pa.string())
    return pc.replace_substring(text, " ", "T", max_replacements=1), True


def _other_texts(column: pa.Array) -> tuple[pa.Array, bool]:
    texts = (None if value is None else str(value) for value in column.to_pylist())
    return _escaped(pa.array(texts, pa.string())), True


def _finite(column: pa.Array) -> pa.Array:
    """JSON has no infinity and no NaN."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    nothing = pa.scalar(None, pa.string())
    return pc.if_else(pc.is_finite(column), column.cast(pa.string()), nothing)


def _quoted(text: pa.Array) -> pa.Array:
    return _between('"', text, '"')


def _between(before: str, text: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, text, after, "")


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


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in texts)


def _is_bytes(kind: pa.DataType) -> bool:
    kinds = (
        pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )  # fmt: skip
    return any(is_kind(kind) for is_kind in kinds)


def _is_plain(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_decimal, pa.types.is_null)
    return any(is_kind(kind) for is_kind in kinds)


def _is_day_or_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind))


_Form = tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], tuple[pa.Array, bool]]]

_FORMS: Final[Sequence[_Form]] = (
    (_is_text, lambda column: (_escaped(column.cast(pa.string())), True)),
    (_is_plain, lambda column: (column.cast(pa.string()), False)),
    (pa.types.is_floating, lambda column: (_finite(column), False)),
    (pa.types.is_timestamp, _timestamp_texts),
    (_is_day_or_time, lambda column: (column.cast(pa.string()), True)),
    (pa.types.is_duration, lambda column: (duration_texts(column), True)),
    (_is_bytes, lambda column: (base64_texts(column), True)),
    (pa.types.is_dictionary, lambda column: _values(column.dictionary_decode())),
    (pa.types.is_struct, _struct_texts),
    (pa.types.is_map, _map_texts),
    (is_list, _list_texts),
    (lambda _: True, _other_texts),
)
"""How values of a type are written; the first that applies."""
