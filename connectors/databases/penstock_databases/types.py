"""The types of rows that databases share, and how a field tells what Arrow has no type for.

Spark has no unsigned integers, no times of day in all its versions, and decimals of 38 digits at
most. Such values travel as the nearest exact type, and the field says in its metadata what they
are, so that a sink can make a column of the same kind: `{"penstock.type": "decimal(65,30)"}`.
The metadata is a help, never needed to read a value. Pure.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

TYPE_KEY: Final = b"penstock.type"
"""Key of a field's metadata. Values: `decimal(p,s)`, `decimal`, `time`, `timetz`, `interval`,
`json`, `uuid`, `wkb`, `enum`, `year`, `bit(n)`, `xml`."""

DECIMAL_MOST: Final = 38
"""Digits of a decimal that Spark and Arrow's decimal128 have."""

STAMP: Final = pa.timestamp("us")
"""A date and time of day somewhere; nobody says where."""

INSTANT: Final = pa.timestamp("us", "UTC")
"""A point in time."""


def field(name: str, kind: pa.DataType, meaning: str = "", *, nullable: bool = True) -> pa.Field:
    """Return a field that tells what its values mean."""
    metadata = {TYPE_KEY: meaning.encode()} if meaning else None
    return pa.field(name, kind, nullable, metadata)


def meaning(of: pa.Field) -> str:
    """Return what a field tells of its values; empty when its type says all."""
    text: bytes = (of.metadata or {}).get(TYPE_KEY, b"")
    return text.decode("utf-8", "replace")


def decimal(precision: int, scale: int) -> tuple[pa.DataType, str]:
    """Return the type of decimals, and its meaning where the type cannot tell.

    Scales below 0 and above the precision are valid in PostgreSQL; they travel as text.
    """
    if 0 <= scale <= precision <= DECIMAL_MOST:
        return pa.decimal128(precision, scale), ""
    return pa.string(), f"decimal({precision},{scale})"
