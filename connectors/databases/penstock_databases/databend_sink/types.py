"""Types of rows as types of Databend's columns, and back. Pure.

Databend has one kind of timestamp, a point in time. Columns that we make for times without a zone
say so in their comment, so that their rows are known again.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.types as is_kind

from penstock_connector import SchemaError
from penstock_connector.tables.columns import Column
from penstock_connector.tables.types import DECIMAL_MOST, INSTANT, STAMP, field
from penstock_values.semantic_types import semantic_type

NO_ZONE: Final = "penstock: no time zone"
"""Comment of a column whose times are a wall clock's; they are stored as if it stood in UTC."""

DIGITS_MOST: Final = 76
"""Of a decimal in Databend."""

_DDL: Final = {
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
    pa.uint8(): "TINYINT UNSIGNED", pa.uint16(): "SMALLINT UNSIGNED",
    pa.uint32(): "INT UNSIGNED", pa.uint64(): "BIGINT UNSIGNED", pa.bool_(): "BOOLEAN",
    pa.float16(): "FLOAT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.null(): "STRING",
    pa.date32(): "DATE", pa.date64(): "DATE", pa.string(): "STRING", pa.large_string(): "STRING",
    pa.string_view(): "STRING", pa.binary(): "BINARY", pa.large_binary(): "BINARY",
    pa.binary_view(): "BINARY",
}  # fmt: skip

_FAMILIES: Final = (
    (is_kind.is_timestamp, "TIMESTAMP"),
    (is_kind.is_time, "STRING"),
    (is_kind.is_duration, "BIGINT"),
    (is_kind.is_fixed_size_binary, "BINARY"),
)

_CARRIED: Final = {
    "tinyint": pa.int8(), "int8": pa.int8(), "smallint": pa.int16(), "int16": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(), "int32": pa.int32(), "bigint": pa.int64(),
    "int64": pa.int64(), "tinyint unsigned": pa.uint8(), "uint8": pa.uint8(),
    "smallint unsigned": pa.uint16(), "uint16": pa.uint16(), "int unsigned": pa.uint32(),
    "uint32": pa.uint32(), "bigint unsigned": pa.uint64(), "uint64": pa.uint64(),
    "float": pa.float32(), "float32": pa.float32(), "double": pa.float64(),
    "float64": pa.float64(), "boolean": pa.bool_(), "varchar": pa.string(),
    "string": pa.string(), "text": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": INSTANT, "variant": pa.string(), "json": pa.string(),
}  # fmt: skip

_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_NESTED: Final = re.compile(r"(array|map)\((.*)\)", re.DOTALL)


def column_type(of: pa.Field) -> str:
    """Return the type of a column for values of rows, as it stands in DDL.

    Raises:
        SchemaError: `databend.type`: there is none.
    """
    means = semantic_type(of)
    exact = _DECIMAL.fullmatch(means)
    if means == "json" and _is_text(of.type):
        return "VARIANT"
    if exact and int(exact[2]) <= int(exact[1]) <= DIGITS_MOST:
        return f"DECIMAL({exact[1]}, {exact[2]})"
    return _ddl(of.type, of.name)


def _ddl(kind: pa.DataType, name: str) -> str:
    if is_kind.is_dictionary(kind):
        return _ddl(kind.value_type, name)
    if is_kind.is_decimal(kind) and 0 <= kind.scale <= kind.precision:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if _is_list(kind):
        return f"ARRAY({_ddl(kind.value_type, name)} NULL)"
    if is_kind.is_map(kind):
        return f"MAP({_ddl(kind.key_type, name)}, {_ddl(kind.item_type, name)} NULL)"
    found = _DDL.get(kind) or next((ddl for test, ddl in _FAMILIES if test(kind)), "")
    if not found:
        raise SchemaError(
            "databend.type",
            f"column {name!r}: Databend has no type for {kind}",
            fix="Bring it apart by the transform Flatten, or cast it to a text.",
        )
    return found


def comment(of: pa.Field) -> str:
    """Return the comment of a column that is made; empty for none."""
    return NO_ZONE if is_kind.is_timestamp(of.type) and of.type.tz is None else ""


def carried(native: str) -> pa.DataType | None:
    """Return the type in which values travel to a column; None: as they are in the rows."""
    text = native.strip().lower().removesuffix(" null")
    exact = _DECIMAL.fullmatch(text)
    if exact:
        make = pa.decimal128 if int(exact[1]) <= DECIMAL_MOST else pa.decimal256
        return make(int(exact[1]), int(exact[2]))
    nested = _NESTED.fullmatch(text)
    if nested is None:
        return _CARRIED.get(text)
    parts = [carried(part) for part in _parted(nested[2])]
    if None in parts or len(parts) != (1 if nested[1] == "array" else 2):
        return None
    return pa.list_(*parts) if nested[1] == "array" else pa.map_(*parts)


def is_json(native: str) -> bool:
    """Return whether a column takes texts of JSON."""
    return native in {"variant", "json"}


def column(name: str, native: str, comments: str, *, nullable: bool, default: bool) -> Column:
    """Return a column of a table, as the server tells of it."""
    kind = carried(native) or pa.string()
    means = ""
    if is_json(native):
        means = "json"
    elif is_kind.is_timestamp(kind):
        kind = STAMP if NO_ZONE in comments else INSTANT
    elif is_kind.is_decimal256(kind):
        kind, means = pa.string(), f"decimal({kind.precision},{kind.scale})"
    return Column(name, native, field(name, kind, means), nullable=nullable, default=default)


def _parted(text: str) -> list[str]:
    """Split at the commas that are not in parentheses."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _is_text(kind: pa.DataType) -> bool:
    return bool(is_kind.is_string(kind) or is_kind.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        is_kind.is_list(kind) or is_kind.is_large_list(kind) or is_kind.is_fixed_size_list(kind)
    )
