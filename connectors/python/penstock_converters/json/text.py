"""Arrow columns to JSON texts, all rows at once, byte by byte as Kafka and Jackson do. Pure.

Each value is a piece of text; a struct joins the pieces of its fields with what stands between
them, and a list those of its items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_converters.connect_schema import DECIMAL, ConnectSchema, logical_name
from penstock_converters.json.values import ESCAPES, JsonForm, format_float, format_json, quote
from penstock_converters.ragged import (
    Bools,
    Ints,
    from_offsets,
    join,
    regroup,
    repeat,
    rescale,
    spread,
    to_base64,
    to_offsets,
    unscaled_bytes,
    without_first,
)

_SPECIAL: Final = r'["\\\x00-\x1f]'
_TEXT: Final = pa.large_string()
_BYTES: Final = pa.large_binary()


class JsonWriter:
    """Writes values by Kafka Connect's schema of them."""

    def __init__(self, schema: ConnectSchema, form: JsonForm) -> None:
        self._schema, self._form = schema, form

    def encode(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """Return the texts of values that are not null, and why some have none: theirs mean
        nothing.
        """
        self._failed: dict[int, str] = {}
        return self._present(self._schema, values, np.arange(len(values))), self._failed

    def _fail(self, rows: Ints, wrong: Bools, why: str) -> None:
        for row in rows[wrong].tolist():
            self._failed.setdefault(row, why)

    def _texts(self, schema: ConnectSchema, values: pa.Array, rows: Ints) -> pa.Array:
        """Return the texts of values that may be null."""
        if not values.null_count:
            return self._present(schema, values, rows)
        present = np.asarray(values.is_valid())
        default = schema.get("default")
        if default is not None and self._form.defaults:
            replacement = format_json(default)
        else:
            replacement = "null"
            if not schema.get("optional"):
                self._fail(rows, ~present, "a field that is not optional is null")
        of_values = self._present(schema, values.drop_null(), rows[present])
        nulls = repeat(replacement.encode(), int((~present).sum()))
        return join([spread(of_values, present), spread(nulls, ~present)])

    def _present(self, schema: ConnectSchema, values: pa.Array, rows: Ints) -> pa.Array:
        """Return the texts of values that are not null."""
        logical, kind = logical_name(schema), schema["type"]
        if logical:
            is_decimal = logical == DECIMAL
            return self._decimals(values) if is_decimal else _as_text(self._times(values, rows))
        if kind in ("array", "map", "struct"):
            write = {"array": self._list, "map": self._map, "struct": self._struct}[kind]
            return write(schema, values, rows)
        return _SIMPLE.get(kind, _as_text)(values)

    def _decimals(self, values: pa.Array) -> pa.Array:
        if values.type == pa.uint64():
            values = values.cast(pa.decimal128(20, 0))
        if self._form.numeric:
            return _as_text(values)
        text = to_base64(without_first(*unscaled_bytes(values)))
        return join([_piece('"'), text, _piece('"')])

    def _times(self, values: pa.Array, rows: Ints) -> pa.Array:
        kind = values.type
        if pa.types.is_date(kind):
            return values.cast(pa.date32()).view(pa.int32())
        width = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        numbers = np.asarray(values.view(width), np.int64)
        millis, wrong = rescale(numbers, kind.unit, "ms")
        self._fail(rows, wrong, "it has microseconds; times of Kafka Connect have milliseconds")
        return pa.array(millis)

    def _struct(self, schema: ConnectSchema, values: pa.Array, rows: Ints) -> pa.Array:
        fields = schema["fields"]
        if self._form.union and schema.get("name") == self._form.union:
            return self._union(fields, values, rows)
        parts: list[Any] = []
        for at, one in enumerate(fields):
            parts.append(_piece(f"{',' if at else '{'}{quote(one['field'])}:"))
            parts.append(self._texts(one, values.field(at), rows))
        return join([*parts, _piece("}")]) if parts else repeat(b"{}", len(values))

    def _union(self, fields: Sequence[ConnectSchema], values: pa.Array, rows: Ints) -> pa.Array:
        """Return the text of the first field that is not null."""
        free = np.ones(len(values), bool)
        parts = []
        for at, one in enumerate(fields):
            column = values.field(at)
            present = free & np.asarray(column.is_valid())
            free &= ~present
            found = self._present(one, column.filter(pa.array(present)), rows[present])
            parts.append(spread(found, present))
        self._fail(rows, free, "no field of a union has a value")
        return join(parts)

    def _list(self, schema: ConnectSchema, values: pa.Array, rows: Ints) -> pa.Array:
        if not pa.types.is_list(values.type):
            values = values.cast(pa.list_(values.type.value_field))
        offsets, (items,) = _inner(values, values.values)
        owners = np.repeat(rows, np.diff(offsets))
        return _enclosed("[", self._texts(schema["items"], items, owners), offsets, "]")

    def _map(self, schema: ConnectSchema, values: pa.Array, rows: Ints) -> pa.Array:
        offsets, (keys, items) = _inner(values, values.keys, values.items)
        owners = np.repeat(rows, np.diff(offsets))
        key = self._texts(schema["keys"], keys, owners)
        item = self._texts(schema["values"], items, owners)
        if schema["keys"]["type"] == "string":
            return _enclosed("{", join([key, _piece(":"), item]), offsets, "}")
        begin, between, end = ('{"key":', ',"value":', "}") if self._form.named_entries else "[,]"
        entries = join([_piece(begin), key, _piece(between), item, _piece(end)])
        return _enclosed("[", entries, offsets, "]")


def _piece(text: str) -> pa.Scalar:
    return pa.scalar(text.encode(), _BYTES)


def _as_text(values: pa.Array) -> pa.Array:
    return values.cast(_TEXT).cast(_BYTES)


def _inner(values: pa.Array, *columns: pa.Array) -> tuple[Ints, list[pa.Array]]:
    """Return where the items of lists begin, and the columns of the items."""
    offsets = np.asarray(values.offsets).astype(np.int64)
    begin, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return offsets - begin, [column.slice(begin, count) for column in columns]


def _enclosed(begin: str, items: pa.Array, offsets: Ints, end: str) -> pa.Array:
    """Return lists of items, with commas between them."""
    is_last = np.zeros(len(items), np.int64)
    counts = np.diff(offsets)
    is_last[offsets[1:][counts > 0] - 1] = 1
    commas = from_offsets(to_offsets(1 - is_last), np.full(len(items), ord(","), np.uint8))
    return join([_piece(begin), regroup(join([items, commas]), offsets), _piece(end)])


def _quoted(values: pa.Array) -> pa.Array:
    """Return texts in quotes."""
    values = values.cast(_TEXT)
    special = pc.match_substring_regex(values, _SPECIAL)
    if pc.any(special).as_py():
        for char, escape in ESCAPES.items():  # the backslash is the first
            values = pc.replace_substring(values, char, escape)
    return join([_piece('"'), values.cast(_BYTES), _piece('"')])


def _floats(values: pa.Array, *, single: bool) -> pa.Array:
    """Return numbers as Java writes them. Those that Java writes without an exponent are most."""
    numbers = values.cast(pa.float32() if single else pa.float64())
    size = np.abs(numbers.to_numpy(zero_copy_only=False))
    plain = ((size >= 1e-3) & (size < 1e7)) | (size == 0)
    text = numbers.cast(_TEXT)
    whole = pc.match_substring_regex(text, r"^-?[0-9]+$")
    text = pc.binary_join_element_wise(
        text, pc.if_else(whole, pa.scalar(".0", _TEXT), pa.scalar("", _TEXT)), pa.scalar("", _TEXT)
    )
    if not plain.all():
        odd = numbers.filter(pa.array(~plain)).to_pylist()
        others = pa.array([format_float(one, single=single) for one in odd], _TEXT)
        text = pc.replace_with_mask(text, pa.array(~plain), others)
    return text.cast(_BYTES)


def _booleans(values: pa.Array) -> pa.Array:
    return pc.if_else(values, _piece("true"), _piece("false"))


def _base64(values: pa.Array) -> pa.Array:
    text = to_base64(values.cast(pa.binary()).cast(_BYTES))
    return join([_piece('"'), text, _piece('"')])


_SIMPLE: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = {
    "boolean": _booleans,
    "float": lambda values: _floats(values, single=True),
    "double": lambda values: _floats(values, single=False),
    "string": _quoted,
    "bytes": _base64,
}
"""What writes values of a type; whole numbers are written as Arrow writes them."""
