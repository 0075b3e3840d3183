"""Texts of a database as values of rows, exactly, whole columns at once. Pure.

Arrow's casts are exact, and refuse what they cannot hold. What a database has and rows cannot be
(days of year 0 or before, infinity, NaN of a decimal) is an odd value: it fails, is null, or
becomes the nearest one that can be, as the person wants. One odd value costs a look at each value
of its column, in that batch alone.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import DataError
from penstock_values.decimals import from_texts

_FIRST, _LAST = "0001-01-01", "9999-12-31"
_DAY: Final = re.compile(r"(\d+)-\d\d-\d\d")
_DATE: Final = (
    r"^(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[^B]*$"
)
_EARLY: Final = re.compile(r"-infinity|0000-.*|.* BC|\d{4}-(?:00-..|..-00).*")


def typed(texts: pa.Array, to: pa.Field, odd: str) -> pa.Array:
    """Return texts as values of a field.

    Args:
        texts: An array of strings.
        to: The field.
        odd: What a value is that the field cannot hold: `fail`, `null` or `round`.

    Raises:
        DataError: `sql.odd_value`.
    """
    if to.type == texts.type:
        return texts
    with contextlib.suppress(pa.ArrowInvalid):
        return cast(texts, to.type)
    if odd == "null" and pa.types.is_temporal(to.type):  # many zero dates are no rarity
        fits = pc.match_substring_regex(texts, _DATE)
        with contextlib.suppress(pa.ArrowInvalid):
            return cast(pc.if_else(fits, texts, None), to.type)
    return pa.array([_value(text, to, odd) for text in texts.to_pylist()], to.type)


def cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts as values of a type; raises ArrowInvalid."""
    if pa.types.is_boolean(kind):
        return texts.cast(pa.int8()).cast(kind)
    if pa.types.is_decimal(kind):
        return from_texts(texts, kind)
    if pa.types.is_timestamp(kind) and kind.tz:
        return texts.cast(pa.timestamp(kind.unit)).cast(kind)
    return texts.cast(kind)


def unfit(to: pa.Field) -> DataError:
    """Return the error of a value that a field cannot hold. The value is not shown."""
    return DataError(
        "sql.odd_value",
        f"column {to.name!r} has a value that {to.type} cannot hold",
        fix="Correct the row, or set `odd.values` (of mysql-cdc: `zero.dates`) to null or round.",
    )


def _value(text: str | None, to: pa.Field, odd: str) -> Any:
    if text is None:
        return None
    try:
        return cast(pa.array([text]), to.type)[0]
    except pa.ArrowInvalid:
        pass
    if odd == "fail":
        raise unfit(to)
    near = _nearest(text, to.type) if odd == "round" else None
    return None if near is None else cast(pa.array([near]), to.type)[0]


def _nearest(text: str, kind: pa.DataType) -> str | None:
    """Return the text of the nearest value that a type can hold; None when there is none."""
    if not pa.types.is_temporal(kind):
        return None
    early = bool(_EARLY.fullmatch(text))
    if not early and text != "infinity" and not _is_late(text):
        return None
    if pa.types.is_date(kind):
        return _FIRST if early else _LAST
    return f"{_FIRST} 00:00:00" if early else f"{_LAST} 23:59:59.999999"


def _is_late(text: str) -> bool:
    match = _DAY.match(text)
    return bool(match) and len(match[1]) > 4  # type: ignore[index] # there is one
