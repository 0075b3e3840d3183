"""PostgreSQL's types as types of rows. Pure.

https://www.postgresql.org/docs/current/datatype.html
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from penstock_connector.tables.types import INSTANT, STAMP, decimal, field

_SHAPE: Final = re.compile(r"([^()\[\]]+?)(?:\((-?\d+)(?:,(-?\d+))?\))?( with(?:out)? time zone)?")

_PLAIN: Final = {
    "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64(), "oid": pa.int64(),
    "real": pa.float32(), "double precision": pa.float64(), "boolean": pa.bool_(),
    "date": pa.date32(), "bytea": pa.binary(),
}  # fmt: skip
_TEXTS: Final = {
    "json": "json", "jsonb": "json", "uuid": "uuid", "interval": "interval", "xml": "xml",
}  # fmt: skip


def row_field(name: str, native: str, *, is_enum: bool = False) -> pa.Field:
    """Return the field of a column's values in rows.

    Args:
        name: The column.
        native: Its type as `format_type` says it; of a domain, the type below it.
        is_enum: Whether it is an enumeration.
    """
    if native.endswith("[]"):
        item = row_field("item", native.removesuffix("[]"), is_enum=is_enum)
        return field(name, pa.list_(item))
    if native in {"geometry", "geography"} or native.startswith(("geometry(", "geography(")):
        return field(name, pa.binary(), "wkb")
    match = _SHAPE.fullmatch(native)
    base = match[1] if match else native
    zone = (match[4] or "") if match else ""
    if base == "numeric":
        return field(name, *_numeric(match))
    digits = int(match[2]) if match and match[2] else None
    if base == "timestamp":
        kind = STAMP if zone == " without time zone" else INSTANT
        return field(name, kind, digits=digits)
    if base == "time":
        meaning = "time" if zone == " without time zone" else "timetz"
        return field(name, pa.string(), meaning, digits=digits)
    if base in _PLAIN:
        return field(name, _PLAIN[base])
    return field(name, pa.string(), "enum" if is_enum else _TEXTS.get(base, ""))


def _numeric(match: re.Match[str] | None) -> tuple[pa.DataType, str]:
    if match is None or match[2] is None:
        return pa.string(), "decimal"  # any number of digits
    return decimal(int(match[2]), int(match[3] or 0))
