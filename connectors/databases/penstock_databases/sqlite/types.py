"""SQLite's declared types as types of rows. Pure.

A column of SQLite can hold any value, whatever was declared; the declaration says what is meant.
https://www.sqlite.org/datatype3.html#determination_of_column_affinity
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from penstock_connector.tables.types import INSTANT, STAMP, decimal, field

_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def row_field(name: str, native: str) -> pa.Field:
    """Return the field of a column's values in rows. `native` is as declared, lower case."""
    exact = _DECIMAL.fullmatch(native)
    if exact:
        return field(name, *decimal(int(exact[1]), int(exact[2] or 0)))
    for words, kind in _RULES:
        if any(word in native for word in words):
            return field(name, kind)
    return field(name, pa.string(), "json" if native == "json" else "")


_RULES: Final = (
    (("bool",), pa.bool_()),
    (("int",), pa.int64()),
    (("char", "clob", "text"), pa.string()),
    (("timestamp with time zone", "timestamptz"), INSTANT),
    (("datetime", "timestamp"), STAMP),
    (("date",), pa.date32()),
    (("blob", "binary"), pa.binary()),
    (("real", "floa", "doub"), pa.float64()),
)
"""SQLite's own rules of affinity, in its order, with the types that it only pretends to have."""
