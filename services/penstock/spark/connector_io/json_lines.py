"""Rows as JSON lines, one object a row: for plugins without an Arrow library, and in dead letters.

The schema comes separately. `proto/README.md` describes the form of each type.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.json
import pyarrow.types as kind

from penstock_values.decimals import MAX_DIGITS, at_scale, may_be_long


def format_rows(batch: pa.RecordBatch) -> list[str]:
    """Return each row as a JSON object on one line; nulls are left out."""
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for row, value in zip(rows, _values(column, field.type), strict=True):
            if value is not None:
                row[field.name] = value
    return [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]


def _values(column: pa.Array, type_: pa.DataType) -> list[Any]:
    """Return the values of a column in the form that they have in JSON."""
    if kind.is_temporal(type_) and not kind.is_duration(type_):
        # by Arrow: a datetime of Python ends with the year 9999, and has no nanoseconds
        return list(column.cast(pa.string()).to_pylist())
    if kind.is_duration(type_):
        return list(column.cast(pa.int64()).to_pylist())
    if kind.is_struct(type_):
        return _structs(column, type_)
    if kind.is_map(type_):
        return _maps(column, type_)
    if kind.is_list(type_):
        items = _values(column.flatten(), type_.value_type)
        return _regroup(column, items)
    convert = next((change for is_one, change in _CONVERSIONS if is_one(type_)), None)
    values = column.to_pylist()
    return values if convert is None else [v if v is None else convert(v) for v in values]


def _structs(column: pa.Array, type_: pa.DataType) -> list[Any]:
    children = [_values(child, type_.field(at).type) for at, child in enumerate(column.flatten())]
    names = [type_.field(at).name for at in range(type_.num_fields)]
    valid = column.is_valid().to_pylist()
    return [
        {n: values[at] for n, values in zip(names, children, strict=True)} if is_valid else None
        for at, is_valid in enumerate(valid)
    ]


def _maps(column: pa.Array, type_: pa.DataType) -> list[Any]:
    pairs = pa.struct([("key", type_.key_type), ("value", type_.item_type)])
    as_list = column.cast(pa.list_(pairs))
    return _regroup(as_list, _values(as_list.flatten(), pairs))


def _regroup(column: pa.Array, items: list[Any]) -> list[Any]:
    """Return the lists of a column, with `items` as their items."""
    lists, first = list[Any](), 0
    for length in column.value_lengths().to_pylist():
        if length is None:
            lists.append(None)
            continue
        lists.append(items[first : first + length])
        first += length
    return lists


def _number(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"


_CONVERSIONS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...]] = (
    (kind.is_floating, _number),
    (kind.is_decimal, str),
    (
        lambda t: kind.is_binary(t) or kind.is_large_binary(t),
        lambda v: base64.b64encode(v).decode(),
    ),
)


_READ_BY_ARROW: Final = (
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


class InvalidRowsError(ValueError):
    """A text is not rows of the schema; the message has the line, and why."""


def parse_rows(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a text. Arrow reads most types; the others are read row by row in Python.

    Raises:
        InvalidRowsError: it is not JSON lines of this schema.
    """
    has_decimals = any("decimal" in str(field.type) for field in schema)
    if (
        data
        and all(_arrow_reads(field.type) for field in schema)
        and not (has_decimals and may_be_long(data))
    ):
        try:
            return _parse_by_arrow(data, schema)
        except pa.ArrowInvalid:
            pass  # Python accepts it, or gives a better message
    return _parse_by_python(data, schema)


def _arrow_reads(type_: pa.DataType) -> bool:
    if kind.is_struct(type_):
        return all(_arrow_reads(type_.field(at).type) for at in range(type_.num_fields))
    if kind.is_list(type_):
        return _arrow_reads(type_.value_type)
    return any(is_one(type_) for is_one in _READ_BY_ARROW)


def _wide_type(type_: pa.DataType) -> pa.DataType:
    """Return the type to read values in. Arrow rescales a decimal without a check for overflow, so
    the type has few enough digits that 256 bits hold them at that scale.
    """
    if kind.is_struct(type_):
        return pa.struct([field.with_type(_wide_type(field.type)) for field in type_])
    if kind.is_list(type_):
        return pa.list_(type_.value_field.with_type(_wide_type(type_.value_type)))
    if kind.is_decimal128(type_):
        return pa.decimal256(max(MAX_DIGITS - type_.scale, 1), type_.scale)
    return type_


def _parse_by_arrow(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    wide = pa.schema([field.with_type(_wide_type(field.type)) for field in schema])
    table = pyarrow.json.read_json(
        pa.BufferReader(data),
        # one block, so that the text becomes one batch; its size is bounded already
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pyarrow.json.ParseOptions(explicit_schema=wide, unexpected_field_behavior="error"),
    )
    columns = [
        column.combine_chunks().cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _parse_by_python(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    fields = {field.name: field.type for field in schema}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            row = _fields(json.loads(line), fields)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise InvalidRowsError(f"line {number}: {error}") from None
        for name, values in columns.items():
            values.append(row[name])
    try:
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InvalidRowsError(str(error)) from None
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * data.count(b"\n"), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fields(row: Any, types: Mapping[str, pa.DataType]) -> dict[str, Any]:
    """Return the values of an object; missing ones are null."""
    _require(isinstance(row, dict), "an object", row)
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
    _require(isinstance(value, int) and not isinstance(value, bool), "an integer", value)
    return int(value)


def _floating(value: Any, _: pa.DataType) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    _require(is_number or value in _NOT_FINITE, "a number", value)
    return float(value)


def _boolean(value: Any, _: pa.DataType) -> bool:
    _require(isinstance(value, bool), "true or false", value)
    return bool(value)


def _text(value: Any, _: pa.DataType) -> str:
    _require(isinstance(value, str), "a string", value)
    return str(value)


def _decimal(value: Any, type_: pa.DataType) -> Decimal:
    return at_scale(Decimal(_text(value, type_)), type_.scale)


def _bytes(value: Any, type_: pa.DataType) -> bytes:
    return base64.b64decode(_text(value, type_), validate=True)


def _timestamp(value: Any, type_: pa.DataType) -> int:
    # by Arrow: a datetime of Python has no nanoseconds
    return int(pa.scalar(_text(value, type_)).cast(type_).value)


def _list(value: Any, type_: pa.DataType) -> list[Any]:
    _require(isinstance(value, list), "a list", value)
    return [_value(item, type_.value_type) for item in value]


def _map(value: Any, type_: pa.DataType) -> list[tuple[Any, Any]]:
    _require(isinstance(value, list), "a list of objects with key and value", value)
    pair = {"key": type_.key_type, "value": type_.item_type}
    pairs = [_fields(item, pair) for item in value]
    return [(one["key"], one["value"]) for one in pairs]


def _struct(value: Any, type_: pa.DataType) -> dict[str, Any]:
    return _fields(
        value, {type_.field(i).name: type_.field(i).type for i in range(type_.num_fields)}
    )


def _require(condition: bool, expected: str, value: Any) -> None:
    if not condition:
        raise ValueError(f"{str(value)[:100]!r} is not {expected}")


_READERS: Final[
    tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...]
] = (
    (kind.is_integer, _integer),
    (kind.is_floating, _floating),
    (kind.is_boolean, _boolean),
    (lambda t: kind.is_string(t) or kind.is_large_string(t), _text),
    (kind.is_decimal, _decimal),
    (lambda t: kind.is_binary(t) or kind.is_large_binary(t), _bytes),
    (kind.is_timestamp, _timestamp),
    (kind.is_date, lambda value, type_: date.fromisoformat(_text(value, type_))),
    (kind.is_time, lambda value, type_: time.fromisoformat(_text(value, type_))),
    (kind.is_duration, _integer),
    (lambda t: kind.is_list(t) or kind.is_large_list(t), _list),
    (kind.is_map, _map),
    (kind.is_struct, _struct),
)
