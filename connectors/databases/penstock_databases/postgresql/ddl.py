"""Columns of PostgreSQL for fields of rows, and what a column can hold. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock_connector.tables.casting import is_binary
from penstock_connector.tables.columns import Column
from penstock_connector.tables.evolution import NewColumn, create_table
from penstock_connector.tables.fitting import DAYS, NUMBER, STAMPS, UUID, Limit
from penstock_connector.tables.names import TableId
from penstock_databases.names import POSTGRESQL
from penstock_values.semantic_types import semantic_type

_PLAIN: Final = {
    pa.bool_(): "boolean", pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer",
    pa.int64(): "bigint", pa.uint8(): "smallint", pa.uint16(): "integer", pa.uint32(): "bigint",
    pa.uint64(): "numeric(20,0)", pa.float16(): "real", pa.float32(): "real",
    pa.float64(): "double precision", pa.date32(): "date", pa.date64(): "date",
}  # fmt: skip
_MEANT: Final = {
    "json": "json", "uuid": "uuid", "time": "time", "timetz": "time with time zone",
    "interval": "interval", "decimal": "numeric", "xml": "xml", "wkb": "bytea", "enum": "text",
}  # fmt: skip
_SIZED: Final = re.compile(r"(decimal|bit)\((-?\d+)(?:,(-?\d+))?\)")
_DECIMAL_MOST: Final = 1000
_SCALE: Final = range(-1000, 1001)

_TIME: Final = r"^(([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?|24:00(:00(\.0+)?)?)$"


def column_type(field: pa.Field) -> str:
    """Return the type of a column for a field of rows."""
    meant = semantic_type(field)
    if meant in _MEANT:
        return _MEANT[meant]
    sized = _SIZED.fullmatch(meant)
    if sized:
        return _sized(sized)
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind) and kind.tz:
        return "timestamp with time zone"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return column_type(kind.value_field).removesuffix("[]") + "[]"
    named = (name for is_one, name in _OTHERS if is_one(kind))
    return _PLAIN.get(kind) or next(named, "text")


_OTHERS: Final = (
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_time, "time"),
    (pa.types.is_duration, "bigint"),
    (is_binary, "bytea"),
    (pa.types.is_nested, "json"),
)


def _sized(match: re.Match[str]) -> str:
    size, scale = int(match[2]), int(match[3] or 0)
    if match[1] == "bit":
        return f"bit({size})"
    fits = 0 < size <= _DECIMAL_MOST and scale in _SCALE
    return f"numeric({size},{scale})" if fits else "numeric"


def create(table: TableId, columns: Sequence[NewColumn]) -> str:
    """Return the statement that makes a table."""
    return create_table(
        table, POSTGRESQL, columns, lambda one: _defined(one) + (" NOT NULL" if one.key else "")
    )


def add(table: TableId, columns: Sequence[NewColumn]) -> list[str]:
    """Return the statement that adds columns; all of them, or none."""
    added = ", ".join(f"ADD COLUMN {_defined(column)}" for column in columns)
    return [f"ALTER TABLE {table.sql(POSTGRESQL)} {added}"]


def _defined(column: NewColumn) -> str:
    return f"{POSTGRESQL.quoted(column.field.name)} {column_type(column.field)}"


_CHARS: Final = re.compile(r"character(?: varying)?\((\d+)\)")
_NUMERIC: Final = re.compile(r"numeric\((\d+),(-?\d+)\)")
_BITS: Final = re.compile(r"bit(?: varying)?\((\d+)\)")
_ARROW_DIGITS: Final = 76
_PATTERNS: Final = {
    "numeric": f"{NUMBER}|^(NaN|nan|[+-]?[Ii]nf(inity)?)$",
    "uuid": UUID,
    "time": _TIME,
    "time without time zone": _TIME,
}


def limit(column: Column) -> Limit:
    """Return what a column can hold."""
    native, kind = column.native, column.field.type
    nullable = column.nullable
    if pa.types.is_timestamp(kind):
        return Limit(native, kind, nullable, *STAMPS)
    if pa.types.is_date(kind):
        return Limit(native, pa.date32(), nullable, *DAYS)
    exact = _NUMERIC.fullmatch(native)
    if exact and 0 <= int(exact[2]) <= int(exact[1]) <= _ARROW_DIGITS:
        size = pa.decimal128 if int(exact[1]) <= pa.decimal128(38, 0).precision else pa.decimal256
        return Limit(native, size(int(exact[1]), int(exact[2])), nullable)
    if pa.types.is_list(kind):
        return Limit(native, pa.string(), nullable, nul=False, shape="array")
    if pa.types.is_string(kind):
        return _text(native, nullable=nullable)
    if native == "oid":
        return Limit(native, kind, nullable, 0, (1 << 32) - 1)
    return Limit(native, kind, nullable)


def _text(native: str, *, nullable: bool) -> Limit:
    chars, bits = _CHARS.fullmatch(native), _BITS.fullmatch(native)
    base = native.partition("(")[0]
    pattern, shape = _PATTERNS.get(base, ""), "json"
    if bits:
        varying = "varying" in native
        pattern = f"^[01]{{{0 if varying else bits[1]},{bits[1]}}}$"
        shape = "bits" if varying else f"bits{bits[1]}"
    if native.endswith("with time zone"):
        pattern = ""
    size = int(chars[1]) if chars else 0
    return Limit(native, pa.string(), nullable, chars=size, nul=False, pattern=pattern, shape=shape)
