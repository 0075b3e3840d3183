"""Values that a user writes for a column, in the form that JSON has for its type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.types as kind


def fit_value(value: Any, type_: pa.DataType | None) -> Any:
    """Return a value as JSON has it in a column of a type. Only the way in which it is written is
    changed, not what it says; what still does not fit is for the reader of the row to refuse.

    - a column of texts takes any value as the text that was written: 0 is "0"
    - a column of numbers, truth values, lists or structs reads a text as JSON: "12" is 12
    - decimals, times and bytes are texts in JSON: 12 is "12"
    - where the type is not known (None), a text that is JSON is read as such
    """
    if value is None:
        return None
    if type_ is not None and (kind.is_string(type_) or kind.is_large_string(type_)):
        return value if isinstance(value, str) else _as_text(value)
    if type_ is not None and _is_text_in_json(type_):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return _as_text(value) if is_number else value
    return _as_json(value) if isinstance(value, str) else value


def set_members(text: bytes, changes: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> bytes:
    """Return a JSON object with some of its members set, or removed (None). What is not changed
    keeps its digits. `types` are those of columns, where they are known.

    Raises:
        ValueError: the text is no JSON object, or cannot be written again without a loss.
    """
    try:
        row = json.loads(text, parse_float=_exact_float)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({str(error)[:200]})") from None
    if not isinstance(row, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 - what the text says is wrong
    row |= {name: fit_value(value, types.get(name)) for name, value in changes.items()}
    kept = {name: value for name, value in row.items() if value is not None or name not in changes}
    return json.dumps(kept, ensure_ascii=False).encode()


def _exact_float(text: str) -> float:
    number = float(text)
    if Decimal(repr(number)) != Decimal(text):
        raise ValueError(f"{text[:80]} would lose digits when the line is written again")
    return number


def _is_text_in_json(type_: pa.DataType) -> bool:
    is_bytes = kind.is_binary(type_) or kind.is_large_binary(type_)
    is_time = kind.is_temporal(type_) and not kind.is_duration(type_)
    return bool(kind.is_decimal(type_) or is_time or is_bytes)


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _as_json(text: str) -> Any:
    """Return the value of a JSON text; the text itself where it is none, or none of a column."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return text if found is None or isinstance(found, str) else found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # NaN and infinities are texts in JSON
