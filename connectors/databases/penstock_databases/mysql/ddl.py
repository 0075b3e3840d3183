"""Columns of MariaDB and MySQL for fields of rows, and what a column can hold. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock_connector.tables.casting import is_binary
from penstock_connector.tables.columns import Column
from penstock_connector.tables.evolution import NewColumn, create_table
from penstock_connector.tables.fitting import DAYS, STAMPS, UUID, Limit
from penstock_connector.tables.names import TableId
from penstock_databases.mysql.types import GEOMETRY
from penstock_databases.names import MYSQL
from penstock_values.semantic_types import semantic_type

_PLAIN: Final = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int",
    pa.int64(): "bigint", pa.uint8(): "tinyint unsigned", pa.uint16(): "smallint unsigned",
    pa.uint32(): "int unsigned", pa.uint64(): "bigint unsigned", pa.float16(): "float",
    pa.float32(): "float", pa.float64(): "double", pa.date32(): "date", pa.date64(): "date",
}  # fmt: skip
_MEANT: Final = {
    "json": "json", "uuid": "char(36) CHARACTER SET ascii", "time": "time(6)", "year": "year",
    "enum": "varchar(255)", "wkb": "geometry", "timetz": "varchar(32)",
}  # fmt: skip
_SIZED: Final = re.compile(r"(decimal|bit)\((-?\d+)(?:,(-?\d+))?\)")
_DIGITS_MOST: Final = 65
_SCALE_MOST: Final = 30
_KEY_TEXT: Final = "varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
"""A text that is a key: `a` and `A` are two, as they are where they come from."""


def column_type(field: pa.Field, *, key: bool = False) -> str:
    """Return the type of a column for a field of rows."""
    meant = semantic_type(field)
    if meant in _MEANT and not (key and meant in {"json", "wkb"}):
        return _MEANT[meant]
    sized = _SIZED.fullmatch(meant)
    if sized and sized[1] == "bit":
        return f"bit({sized[2]})"
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    text = _KEY_TEXT if key else "longtext"
    if sized:
        return _decimal(int(sized[2]), int(sized[3] or 0)) or text
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale) or text
    if key and is_binary(kind):
        return "varbinary(255)"
    named = (name for is_one, name in _OTHERS if is_one(kind))
    return _PLAIN.get(kind) or next(named, text)


_OTHERS: Final = (
    (pa.types.is_timestamp, "datetime(6)"),  # TIMESTAMP ends in 2038
    (pa.types.is_time, "time(6)"),
    (pa.types.is_duration, "bigint"),
    (is_binary, "longblob"),
    (pa.types.is_nested, "json"),
)


def _decimal(digits: int, scale: int) -> str:
    if scale < 0:
        digits, scale = digits - scale, 0
    fits = 0 < digits <= _DIGITS_MOST and scale <= min(digits, _SCALE_MOST)
    return f"decimal({digits},{scale})" if fits else ""


def create(table: TableId, columns: Sequence[NewColumn]) -> str:
    """Return the statement that makes a table."""
    made = create_table(table, MYSQL, columns, _defined)
    return f"{made} ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4"


def add(table: TableId, columns: Sequence[NewColumn]) -> list[str]:
    """Return the statement that adds columns; all of them, or none."""
    added = ", ".join(f"ADD COLUMN {_defined(column)}" for column in columns)
    return [f"ALTER TABLE {table.sql(MYSQL)} {added}"]


def _defined(column: NewColumn) -> str:
    kind = column_type(column.field, key=column.key)
    return f"{MYSQL.quoted(column.field.name)} {kind} {'NOT NULL' if column.key else 'NULL'}"


_SHAPE: Final = re.compile(r"([a-z0-9 ]+?)(?:\((\d+)(?:,(\d+))?\))?(?: .*)?")
_INTS: Final = {
    "tinyint": (pa.int8(), pa.uint8()),
    "smallint": (pa.int16(), pa.uint16()),
    "mediumint": (pa.int32(), pa.uint32()),
    "int": (pa.int32(), pa.uint32()),
    "integer": (pa.int32(), pa.uint32()),
    "bigint": (pa.int64(), pa.uint64()),
}
_BYTES_OF_TEXT: Final = {
    "tinytext": 255, "text": (1 << 16) - 1, "mediumtext": (1 << 24) - 1, "tinyblob": 255,
    "blob": (1 << 16) - 1, "mediumblob": (1 << 24) - 1,
}  # fmt: skip
_MEDIUM: Final = 1 << 23
_TIMESTAMP: Final = (1_000_000, 2_147_483_647_999_999)
_TIME: Final = r"^-?(\d{1,2}|[1-7]\d\d|8[0-2]\d|83[0-8]):[0-5]?\d(:[0-5]?\d(\.\d+)?)?$"


def limit(column: Column) -> Limit:
    """Return what a column can hold."""
    native, kind = column.native, column.field.type
    match = _SHAPE.fullmatch(native)
    base = match[1] if match else native
    size = int(match[2]) if match and match[2] else 0
    nullable = column.nullable or column.auto  # null in a column that is numbered asks for a number
    if base in _INTS:
        return _integer(native, base, nullable=nullable)
    if base in {"decimal", "numeric"}:
        digits, scale = size or 10, int(match[3] or 0) if match else 0
        wide = digits > pa.decimal128(38, 0).precision
        exact = (pa.decimal256 if wide else pa.decimal128)(digits, scale)
        return Limit(native, exact, nullable, low=0 if "unsigned" in native else None)
    if base == "bit":
        bits = pa.bool_() if size <= 1 else pa.uint64()
        return Limit(native, bits, nullable, high=(1 << size) - 1 if size > 1 else None)
    if base == "timestamp":
        return Limit(native, kind, nullable, *_TIMESTAMP)
    if base == "datetime":
        return Limit(native, kind, nullable, *STAMPS)
    if pa.types.is_date(kind):
        return Limit(native, kind, nullable, *DAYS)
    return _other(native, base, size, kind, nullable=nullable)


def _integer(native: str, base: str, *, nullable: bool) -> Limit:
    signed, unsigned = _INTS[base]
    if "unsigned" in native:
        high = 2 * _MEDIUM - 1 if base == "mediumint" else None
        return Limit(native, unsigned, nullable, high=high)
    if base == "mediumint":
        return Limit(native, signed, nullable, -_MEDIUM, _MEDIUM - 1)
    return Limit(native, signed, nullable)


def _other(native: str, base: str, size: int, kind: pa.DataType, *, nullable: bool) -> Limit:
    if pa.types.is_floating(kind):
        return Limit(native, kind, nullable, specials=False)
    if pa.types.is_binary(kind):
        limited = size if base in {"binary", "varbinary"} else _BYTES_OF_TEXT.get(base, 0)
        return Limit(native, kind, nullable, bytes=limited)
    if not pa.types.is_string(kind):
        return Limit(native, kind, nullable)
    pattern = {"uuid": UUID, "time": _TIME}.get(base, "")
    chars = size if base in {"char", "varchar"} else 0
    most = _BYTES_OF_TEXT.get(base, 0)
    return Limit(native, kind, nullable, chars=chars, bytes=most, pattern=pattern)


def wrapped(column: Column) -> tuple[str, str]:
    """Return what stands around the text of a value in SQL."""
    base = column.native.split("(")[0].split(" ")[0]
    if base in GEOMETRY:
        return "ST_GeomFromWKB(UNHEX(", "))"
    if pa.types.is_binary(column.field.type):
        return "UNHEX(", ")"
    if base == "bit":
        return "CAST(", " AS UNSIGNED)"
    return "", ""
