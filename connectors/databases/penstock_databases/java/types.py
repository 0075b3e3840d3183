"""Types of JDBC (`java.sql.Types`) as types of rows. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock_connector.tables.types import INSTANT, STAMP, decimal, field

_PLAIN: Final = {
    -7: pa.bool_(), 16: pa.bool_(), -6: pa.int16(), 5: pa.int16(), 4: pa.int32(), -5: pa.int64(),
    7: pa.float32(), 6: pa.float64(), 8: pa.float64(),
    -2: pa.binary(), -3: pa.binary(), -4: pa.binary(), 2004: pa.binary(),
    91: pa.date32(), 93: STAMP, 2014: INSTANT,
}  # fmt: skip
"""BIT, BOOLEAN, TINYINT (which some count from 0 to 255), SMALLINT, INTEGER, BIGINT, REAL, FLOAT,
DOUBLE, BINARY, VARBINARY, LONGVARBINARY, BLOB, DATE, TIMESTAMP, TIMESTAMP WITH TIME ZONE."""

_MEANINGS: Final = {92: "time", 2013: "timetz", 2009: "xml"}
_NUMBERS: Final = (2, 3)


def row_field(name: str, kind: int, native: str, precision: int, scale: int) -> pa.Field:
    """Return the field of a column's values in rows.

    Args:
        name: The column's name.
        kind: Its number in `java.sql.Types`.
        native: The database's word for it, lower case.
        precision: Digits of a number.
        scale: Those behind its point.
    """
    if kind in _NUMBERS:
        if precision <= 0:  # a number of any size: Oracle's NUMBER
            return field(name, pa.string(), "decimal")
        return field(name, *decimal(precision, scale))
    if "with time zone" in native or native.startswith("datetimeoffset"):
        if "time with time zone" in native and "timestamp" not in native:
            return field(name, pa.string(), "timetz")
        return field(name, INSTANT)
    if kind in _PLAIN:
        return field(name, _PLAIN[kind])
    words = {"json": "json", "uuid": "uuid"}
    return field(name, pa.string(), _MEANINGS.get(kind, words.get(native, "")))


def has_order(kind: pa.DataType, native: str) -> bool:
    """Return whether rows can be ordered by values of a column, and gone on from one of them."""
    if pa.types.is_string(kind):
        return any(word in native for word in ("char", "varying")) and "large" not in native
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))
