"""The types of rows that databases share, and how a field tells what Arrow has no type for.

Spark has no unsigned integers, no times of day in all its versions, and decimals of 38 digits at
most. Such values travel as the nearest exact type, and the field says in its metadata what they
are, so that a sink can make a column of the same kind: `{"penstock.type": "decimal(65,30)"}`.
The metadata is a help, never needed to read a value. Pure.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock_values.semantic_types import SEMANTIC_TYPE_KEY

DECIMAL_MOST: Final = 38
"""Digits of a decimal that Spark and Arrow's decimal128 have."""

_DIGITS: Final = b"penstock.digits"
"""Key of a field's metadata: digits of fractions of seconds, where a column says how many it has.
It does not leave a source."""

STAMP: Final = pa.timestamp("us")
"""A date and time of day somewhere; nobody says where."""

INSTANT: Final = pa.timestamp("us", "UTC")
"""A point in time."""


def field(
    name: str,
    kind: pa.DataType,
    meaning: str = "",
    *,
    nullable: bool = True,
    digits: int | None = None,
) -> pa.Field:
    """Return a field that tells what its values mean, and how many digits fractions of seconds
    have; None: the column does not say.
    """
    metadata = {SEMANTIC_TYPE_KEY: meaning.encode()} if meaning else {}
    if digits is not None:
        metadata[_DIGITS] = str(digits).encode()
    return pa.field(name, kind, nullable, metadata or None)


def fraction_digits(field: pa.Field, default: int) -> int:
    """Return the digits of fractions of seconds that values of a field have."""
    told = (field.metadata or {}).get(_DIGITS)
    return default if told is None else int(told)


def decimal(precision: int, scale: int) -> tuple[pa.DataType, str]:
    """Return the type of decimals, and its meaning where the type cannot tell.

    Scales below 0 and above the precision are valid in PostgreSQL; they travel as text.
    """
    if 0 <= scale <= precision <= DECIMAL_MOST:
        return pa.decimal128(precision, scale), ""
    return pa.string(), f"decimal({precision},{scale})"
