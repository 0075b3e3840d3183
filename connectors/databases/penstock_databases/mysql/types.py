"""MariaDB's and MySQL's types as types of rows. Pure.

https://mariadb.com/kb/en/data-types/, https://dev.mysql.com/doc/refman/8.4/en/data-types.html
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from penstock_connector.tables.types import INSTANT, STAMP, decimal, field

_SHAPE: Final = re.compile(r"([a-z ]+?)(?:\((\d+)(?:,(\d+))?\))?((?: unsigned| zerofill)*)(?: .*)?")

_SIGNED: Final = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "mediumint": pa.int32(), "int": pa.int32(),
    "integer": pa.int32(), "bigint": pa.int64(), "year": pa.int32(),
}  # fmt: skip
_UNSIGNED: Final = {
    "tinyint": pa.int16(), "smallint": pa.int32(), "mediumint": pa.int32(), "int": pa.int64(),
    "integer": pa.int64(), "bigint": pa.decimal128(20, 0),
}  # fmt: skip
_BYTES: Final = frozenset({
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob",
})  # fmt: skip
GEOMETRY: Final = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
    "multipolygon", "geometrycollection", "geomcollection",
})  # fmt: skip
_MOMENTS: Final = frozenset({"datetime", "timestamp", "time"})
"""Types whose size is that of fractions of seconds."""

_TEXTS: Final = {"json": "json", "uuid": "uuid", "enum": "enum", "time": "time"}


def row_field(name: str, native: str) -> pa.Field:
    """Return the field of a column's values in rows.

    Args:
        name: The column.
        native: Its type as information_schema's COLUMN_TYPE says it, lower case.
    """
    match = _SHAPE.fullmatch(native)
    base = match[1] if match else native.split("(", maxsplit=1)[0].strip()
    size = int(match[2]) if match and match[2] else None
    scale = int(match[3]) if match and match[3] else 0
    unsigned = bool(match and match[4])
    if base in _SIGNED:
        kinds = _UNSIGNED if unsigned and base in _UNSIGNED else _SIGNED
        return field(name, kinds[base], "year" if base == "year" else "")
    if base in {"decimal", "numeric"}:
        return field(name, *decimal(size or 10, scale))
    if base == "bit":
        return field(name, *_bits(size or 1))
    if base in GEOMETRY:
        return field(name, pa.binary(), "wkb")
    if base in _BYTES or base.startswith("vector"):
        return field(name, pa.binary())
    digits = size if base in _MOMENTS else None
    plain = _PLAIN.get(base)
    if plain:
        return field(name, plain, digits=digits)
    return field(name, pa.string(), _TEXTS.get(base, ""), digits=digits)


def _bits(size: int) -> tuple[pa.DataType, str]:
    if size == 1:
        return pa.bool_(), ""
    return (pa.int64() if size < 64 else pa.decimal128(20, 0)), f"bit({size})"


_PLAIN: Final = {
    "float": pa.float32(), "double": pa.float64(), "date": pa.date32(), "datetime": STAMP,
    "timestamp": INSTANT,
}  # fmt: skip
