"""Types of rows as types of ClickHouse's columns, and back. Pure.

ClickHouse has one type for texts and bytes, and one for points in time and wall clocks. Columns
that we make for bytes and wall clocks say so in their comment, so that their rows are known again.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.types as is_kind

from penstock_analytics.clickhouse_sink.sql import quoted, unquoted
from penstock_connector import SchemaError
from penstock_connector.tables.casting import is_binary
from penstock_connector.tables.columns import Column
from penstock_connector.tables.types import DECIMAL_MOST, INSTANT, STAMP, field
from penstock_values.semantic_types import semantic_type

NO_ZONE: Final = "penstock: no time zone"
"""Comment of a column whose times are a wall clock's; they are stored as if it stood in UTC."""

BYTES: Final = "penstock: bytes"
"""Comment of a String whose values are no texts."""

DIGITS_MOST: Final = 76
"""Of a decimal in ClickHouse."""

_DDL: Final = {
    pa.int8(): "Int8", pa.int16(): "Int16", pa.int32(): "Int32", pa.int64(): "Int64",
    pa.uint8(): "UInt8", pa.uint16(): "UInt16", pa.uint32(): "UInt32", pa.uint64(): "UInt64",
    pa.bool_(): "Bool", pa.float16(): "Float32", pa.float32(): "Float32", pa.float64(): "Float64",
    pa.null(): "String", pa.date32(): "Date32", pa.date64(): "Date32", pa.string(): "String",
    pa.large_string(): "String", pa.string_view(): "String",
}  # fmt: skip

_FAMILIES: Final = (
    (is_binary, "String"),
    (is_kind.is_time, "String"),
    (is_kind.is_duration, "Int64"),
)

_TEXT: Final = pa.binary()
"""How texts travel: ClickHouse does not look into a String, so neither is it looked into here."""

_CARRIED: Final = {
    "Int8": pa.int8(), "Int16": pa.int16(), "Int32": pa.int32(), "Int64": pa.int64(),
    "UInt8": pa.uint8(), "UInt16": pa.uint16(), "UInt32": pa.uint32(), "UInt64": pa.uint64(),
    "Bool": pa.bool_(), "Float32": pa.float32(), "Float64": pa.float64(), "String": _TEXT,
    "FixedString": _TEXT, "UUID": pa.string(), "IPv4": pa.string(), "IPv6": pa.string(),
    "Enum8": pa.string(), "Enum16": pa.string(), "Date": pa.date32(), "Date32": pa.date32(),
    "DateTime": INSTANT, "JSON": pa.string(), "Int128": pa.string(), "Int256": pa.string(),
    "UInt128": pa.string(), "UInt256": pa.string(),
}  # fmt: skip

_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_MADE_OF: Final = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_NAMED: Final = re.compile(r"(`(?:[^`\\]|\\.|``)+`|\w+) (.*)", re.DOTALL)


def column_type(of: pa.Field, *, key: bool = False, structs_as_json: bool = False) -> str:
    """Return the type of a column for values of rows, as it stands in DDL.

    Raises:
        SchemaError: `clickhouse.type`: there is none.
    """
    means = semantic_type(of)
    exact = _DECIMAL.fullmatch(means)
    if means == "uuid" and is_kind.is_string(of.type):
        native = "UUID"
    elif exact and int(exact[2]) <= int(exact[1]) <= DIGITS_MOST:
        native = f"Decimal({exact[1]}, {exact[2]})"
    elif is_kind.is_struct(of.type) and structs_as_json:
        native = "JSON"
    else:
        native = _ddl(of.type, of.name)
    return native if key else _nullable(native)


def _ddl(kind: pa.DataType, name: str) -> str:
    if is_kind.is_dictionary(kind):
        return _ddl(kind.value_type, name)
    if is_kind.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= DIGITS_MOST:
        return f"Decimal({kind.precision}, {kind.scale})"
    if is_kind.is_timestamp(kind):
        return f"DateTime64({9 if kind.unit == 'ns' else 6}, 'UTC')"
    if is_kind.is_nested(kind) and kind.num_fields:
        return _ddl_of_parts(kind, name)
    found = _DDL.get(kind) or next((ddl for test, ddl in _FAMILIES if test(kind)), "")
    if not found:
        raise SchemaError(
            "clickhouse.type",
            f"column {name!r}: ClickHouse has no type for {kind}",
            fix="Bring it apart by the transform Flatten, or cast it to a text.",
        )
    return found


def _ddl_of_parts(kind: pa.DataType, name: str) -> str:
    if is_list(kind):
        return f"Array({_nullable(_ddl(kind.value_type, name))})"
    if is_kind.is_map(kind):
        return f"Map({_ddl(kind.key_type, name)}, {_nullable(_ddl(kind.item_type, name))})"
    parts = [f"{quoted(one.name)} {_nullable(_ddl(one.type, name))}" for one in kind]
    return f"Tuple({', '.join(parts)})"


def _nullable(native: str) -> str:
    made_of = native.startswith(("Array(", "Map(", "Tuple(", "JSON"))
    return native if made_of else f"Nullable({native})"


def comment(of: pa.Field) -> str:
    """Return the comment of a column that is made; empty for none."""
    if is_kind.is_timestamp(of.type) and of.type.tz is None:
        return NO_ZONE
    return BYTES if is_binary(of.type) else ""


def bare(native: str) -> str:
    """Return a type without `Nullable` and `LowCardinality` around it."""
    name, inside = made_of(native)
    while name in {"Nullable", "LowCardinality"}:
        native = inside
        name, inside = made_of(native)
    return native


def made_of(native: str) -> tuple[str, str]:
    """Return the name of a type, and what stands in its parentheses."""
    match = _MADE_OF.fullmatch(native.strip())
    return (match[1], match[2]) if match else (native.strip(), "")


def is_nullable(native: str) -> bool:
    """Return whether a column can be null."""
    return native.startswith(("Nullable(", "LowCardinality(Nullable("))


def precision(inside: str) -> int:
    """Return the digits of a second in `DateTime64(6, 'UTC')`, of what is in its parentheses."""
    return int(parted(inside)[0] or 3)


def carried(native: str) -> pa.DataType | None:
    """Return the type in which values travel to a column; None: none do."""
    name, inside = made_of(bare(native))
    parts = parted(inside)
    match name:
        case "Decimal":
            make = pa.decimal128 if int(parts[0]) <= DECIMAL_MOST else pa.decimal256
            return make(int(parts[0]), int(parts[1]))
        case "DateTime64":
            return pa.timestamp("us" if precision(inside) <= 6 else "ns", "UTC")
        case "Array":
            item = carried(inside)
            return pa.list_(item) if item is not None else None
        case "Map":
            both = [carried(part) for part in parts]
            return pa.map_(*both) if None not in both else None
        case "Tuple":
            named = [named_part(part) for part in parts]
            fields = [(one, carried(kind)) for one, kind in named]
            known = all(one and kind is not None for one, kind in fields)
            return pa.struct(fields) if known else None
    return _CARRIED.get(name)


def column(
    name: str, native: str, comments: str, *, key: int, default: bool, generated: bool
) -> Column:
    """Return a column of a table, as the server tells of it."""
    kind = carried(native) or pa.string()
    means = ""
    match made_of(bare(native))[0]:
        case "JSON":
            means = "json"
        case "UUID":
            means = "uuid"
    if kind == _TEXT and comments != BYTES:
        kind = pa.string()
    elif is_kind.is_timestamp(kind) and comments == NO_ZONE:
        kind = STAMP if kind.unit == "us" else pa.timestamp("ns")
    elif is_kind.is_decimal256(kind):
        kind, means = pa.string(), f"decimal({kind.precision},{kind.scale})"
    nullable = is_nullable(native)
    told = field(name, kind, means)
    return Column(name, native, told, nullable, key=key, default=default, generated=generated)


def parted(text: str) -> list[str]:
    """Split at the commas that are in no parentheses and no quotes."""
    parts, depth, start, quote, at = [], 0, 0, "", 0
    while at < len(text):
        sign = text[at]
        if quote:
            at += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "'`":
            quote = sign
        elif sign == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
        else:
            depth += (sign == "(") - (sign == ")")
        at += 1
    return [*parts, text[start:].strip()]


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of a type are lists."""
    return bool(
        is_kind.is_list(kind) or is_kind.is_large_list(kind) or is_kind.is_fixed_size_list(kind)
    )


def named_part(part: str) -> tuple[str, str]:
    """Return the name and the type of a part of a Tuple; no name where it has none."""
    match = _NAMED.fullmatch(part)
    return (unquoted(match[1]), match[2]) if match else ("", part)
