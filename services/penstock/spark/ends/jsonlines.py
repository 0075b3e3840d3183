"""Rows as JSON lines, with the schema that was sent before: for plugins without an Arrow library.

Arrow's own reader takes the common types at its speed. What it has no word for (dates, times,
bytes, maps) goes value by value, and so does a batch that it refuses: then the error names the
line and the column. How a type stands in JSON is written down in `proto/README.md`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.json
import pyarrow.types as kind

from penstock.model.exact import DIGITS, at_scale, may_be_long

_QUICK: Final = (
    kind.is_integer,
    kind.is_boolean,
    kind.is_string,
    kind.is_large_string,
    kind.is_timestamp,
    lambda type_: kind.is_decimal128(type_) and type_.scale >= 0,
    kind.is_float32,
    kind.is_float64,
)
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class NotRows(ValueError):  # noqa: N818 - what it says is the line that is not one
    """A text that is not rows of the schema: which line and column, and why."""


def read(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a text.

    Raises:
        NotRows: it is not JSON lines of this schema.
    """
    has_decimals = any("decimal" in str(field.type) for field in schema)
    if (
        data
        and all(_is_quick(field.type) for field in schema)
        and not (has_decimals and may_be_long(data))
    ):
        try:
            return _quick(data, schema)
        except pa.ArrowInvalid:
            pass  # said better below, or taken
    return _one_by_one(data, schema)


def _is_quick(type_: pa.DataType) -> bool:
    if kind.is_struct(type_):
        return all(_is_quick(type_.field(at).type) for at in range(type_.num_fields))
    if kind.is_list(type_):
        return _is_quick(type_.value_type)
    return any(is_one(type_) for is_one in _QUICK)


def _roomy(type_: pa.DataType) -> pa.DataType:
    """Return the type to read values in. Arrow brings a number to the scale of its decimal without
    a look at what that holds, so it gets few enough digits that 256 bits hold them at that scale.
    """
    if kind.is_struct(type_):
        return pa.struct([field.with_type(_roomy(field.type)) for field in type_])
    if kind.is_list(type_):
        return pa.list_(type_.value_field.with_type(_roomy(type_.value_type)))
    if kind.is_decimal128(type_):
        return pa.decimal256(max(DIGITS - type_.scale, 1), type_.scale)
    return type_


def _quick(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    roomy = pa.schema([field.with_type(_roomy(field.type)) for field in schema])
    table = pyarrow.json.read_json(
        pa.BufferReader(data),
        # one block: a batch is one, and its size is bounded already
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pyarrow.json.ParseOptions(explicit_schema=roomy, unexpected_field_behavior="error"),
    )
    columns = [
        column.combine_chunks().cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _one_by_one(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    fields = {field.name: field.type for field in schema}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = _fields(json.loads(line), fields)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise NotRows(f"line {number}: {error}") from None
        for name, values in columns.items():
            values.append(row[name])
    try:
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise NotRows(str(error)) from None
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * data.count(b"\n"), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fields(row: Any, types: Mapping[str, pa.DataType]) -> dict[str, Any]:
    """Return the values of an object; those that are not there are null."""
    _want(isinstance(row, dict), "an object", row)
    for name in row.keys() - types.keys():
        raise ValueError(f"there is no column {name!r} in the schema")
    return {name: _value(row.get(name), type_) for name, type_ in types.items()}


def _value(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    for is_one, read_one in _READERS:
        if is_one(type_):
            return read_one(value, type_)
    raise ValueError(f"JSON lines have no form for {type_}")


def _integer(value: Any, _: pa.DataType) -> int:
    _want(isinstance(value, int) and not isinstance(value, bool), "an integer", value)
    return int(value)


def _floating(value: Any, _: pa.DataType) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    _want(is_number or value in _NOT_FINITE, "a number", value)
    return float(value)


def _boolean(value: Any, _: pa.DataType) -> bool:
    _want(isinstance(value, bool), "true or false", value)
    return bool(value)


def _text(value: Any, _: pa.DataType) -> str:
    _want(isinstance(value, str), "a string", value)
    return str(value)


def _decimal(value: Any, type_: pa.DataType) -> Decimal:
    return at_scale(Decimal(_text(value, type_)), type_.scale)


def _bytes(value: Any, type_: pa.DataType) -> bytes:
    return base64.b64decode(_text(value, type_), validate=True)


def _moment(value: Any, type_: pa.DataType) -> int:
    # by Arrow, because a datetime of Python has no nanoseconds
    return int(pa.scalar(_text(value, type_)).cast(type_).value)


def _list(value: Any, type_: pa.DataType) -> list[Any]:
    _want(isinstance(value, list), "a list", value)
    return [_value(item, type_.value_type) for item in value]


def _map(value: Any, type_: pa.DataType) -> list[tuple[Any, Any]]:
    _want(isinstance(value, list), "a list of objects with key and value", value)
    pair = {"key": type_.key_type, "value": type_.item_type}
    pairs = [_fields(item, pair) for item in value]
    return [(one["key"], one["value"]) for one in pairs]


def _struct(value: Any, type_: pa.DataType) -> dict[str, Any]:
    return _fields(
        value, {type_.field(i).name: type_.field(i).type for i in range(type_.num_fields)}
    )


def _want(is_so: bool, what: str, value: Any) -> None:
    if not is_so:
        raise ValueError(f"{str(value)[:100]!r} is not {what}")


_READERS: Final[
    tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...]
] = (
    (kind.is_integer, _integer),
    (kind.is_floating, _floating),
    (kind.is_boolean, _boolean),
    (lambda t: kind.is_string(t) or kind.is_large_string(t), _text),
    (kind.is_decimal, _decimal),
    (lambda t: kind.is_binary(t) or kind.is_large_binary(t), _bytes),
    (kind.is_timestamp, _moment),
    (kind.is_date, lambda value, type_: date.fromisoformat(_text(value, type_))),
    (kind.is_time, lambda value, type_: time.fromisoformat(_text(value, type_))),
    (kind.is_duration, _integer),
    (lambda t: kind.is_list(t) or kind.is_large_list(t), _list),
    (kind.is_map, _map),
    (kind.is_struct, _struct),
)
