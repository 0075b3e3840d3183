"""Java's conversions of numbers and texts as Spark SQL, for rows that Kafka Connect would cast.

What Java does without a word is done here, too: whole numbers lose their upper bits, fractions go
to the nearest limit. What it refuses fails here, and the row is set apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.types as kind

from penstock.transform.sql import quoting

TARGETS: Final[Mapping[str, pa.DataType]] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}
"""Kafka Connect's names of what can be cast to."""

TIME: Final = "time"
"""Meaning of a column of microseconds since midnight."""

_WHOLE: Final = r"\A[+-]?[0-9]+\z"
_NO_NUMBER: Final = r"\A(?:\s*[+-]?(?!NaN|Infinity)(?i:inf|infinity|nan)\s*)\z"
"""Texts that are numbers to Spark and not to Java."""

Cast: TypeAlias = tuple[str, bool]
"""An expression, and whether it is certain: no row can fail in it."""


def cast(text: str, type_: pa.DataType, meaning: str, target: str) -> Cast | None:
    """Return the expression that casts a value of a type; None where Kafka Connect has none."""
    if target == "string":
        return as_text(text, type_, meaning)
    plain = _plain(text, type_, meaning)
    if plain is None:
        return None
    value, source = plain
    rule = next((rule for is_one, rule in _RULES if is_one(source)), None)
    return None if rule is None else rule(value, source, target)


def as_text(text: str, type_: pa.DataType, meaning: str = "") -> Cast | None:
    """Return a value as Kafka Connect writes it, times as ISO 8601; None for what has parts."""
    if kind.is_timestamp(type_):
        return f"date_format({text}, {quoting.literal(_ISO)})", True
    if meaning == TIME and kind.is_int64(type_):
        return f"date_format(timestamp_micros({text}), {quoting.literal(_ISO_TIME)})", True
    if kind.is_binary(type_):  # Spark breaks base64 into lines
        return f"replace(base64({text}), {quoting.literal(chr(13) + chr(10))}, '')", True
    simple = (kind.is_integer, kind.is_floating, kind.is_boolean, kind.is_string)
    if any(is_one(type_) for is_one in (*simple, kind.is_decimal, kind.is_date)):
        return f"CAST({text} AS STRING)", True
    return None


_ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_ISO_TIME: Final = "HH:mm:ss.SSS'Z'"


def _plain(text: str, type_: pa.DataType, meaning: str) -> tuple[str, pa.DataType] | None:
    """Return the number that stands for a date or a time; other values as they are."""
    if kind.is_timestamp(type_):
        return f"unix_millis(CAST({text} AS TIMESTAMP_LTZ))", pa.int64()
    if kind.is_date(type_):
        return f"unix_date({text})", pa.int32()
    if meaning == TIME and kind.is_int64(type_):
        return f"({text} DIV 1000)", pa.int64()
    return None if kind.is_binary(type_) else (text, type_)


def _from_whole(text: str, type_: pa.DataType, target: str) -> Cast:
    wanted = TARGETS[target]
    if target == "boolean":
        return f"({text} <> 0)", True
    if kind.is_integer(wanted) and wanted.bit_width < type_.bit_width:
        return _wrapped(text, wanted), True
    return f"CAST({text} AS {quoting.type_name(wanted)})", True


def _wrapped(text: str, wanted: pa.DataType) -> str:
    """Return the lower bits of a whole number, as a signed one."""
    mask, sign = (1 << wanted.bit_width) - 1, 1 << (wanted.bit_width - 1)
    bits = f"((CAST({text} AS BIGINT) & {mask}L) ^ {sign}L) - {sign}L"
    return f"CAST({bits} AS {quoting.type_name(wanted)})"


def _from_fraction(text: str, type_: pa.DataType, target: str) -> Cast:
    del type_
    wanted = TARGETS[target]
    if kind.is_floating(wanted):
        return f"CAST({text} AS {quoting.type_name(wanted)})", True
    if target == "int64":
        return _clamped(text, "BIGINT", 63), True
    if target == "boolean":
        return f"({_clamped(text, 'BIGINT', 63)} <> 0)", True
    near = _clamped(text, "INT", 31)
    return (near if target == "int32" else _wrapped(near, wanted)), True


def _clamped(text: str, type_name: str, bits: int) -> str:
    """Return a fraction without what is behind its point, at most at the limits of a type."""
    least, most = f"(-{(1 << bits) - 1}L - 1L)", f"{(1 << bits) - 1}L"
    return (
        f"CASE WHEN isnan({text}) THEN CAST(0 AS {type_name})"
        f" WHEN {text} >= {float(1 << bits)!r}D THEN CAST({most} AS {type_name})"
        f" WHEN {text} <= {float(-(1 << bits))!r}D THEN CAST({least} AS {type_name})"
        f" ELSE CAST({text} AS {type_name}) END"
    )


def _from_decimal(text: str, type_: pa.DataType, target: str) -> Cast:
    wanted = TARGETS[target]
    if kind.is_floating(wanted):
        return f"CAST({text} AS {quoting.type_name(wanted)})", True
    whole = f"CAST({text} AS BIGINT)"
    certain = type_.precision - type_.scale < 19  # digits that every int64 has
    return _from_whole(whole, pa.int64(), target)[0], certain


def _from_flag(text: str, type_: pa.DataType, target: str) -> Cast:
    del type_
    return f"CAST({text} AS {quoting.type_name(TARGETS[target])})", True


def _from_text(text: str, type_: pa.DataType, target: str) -> Cast:
    del type_
    if target == "boolean":
        return f"(lower({text}) = 'true')", True
    if kind.is_floating(TARGETS[target]):
        number = f"NOT ({text} RLIKE {quoting.literal(_NO_NUMBER)})"
    else:
        number = f"{text} RLIKE {quoting.literal(_WHOLE)}"
    checked = f"IF({number}, {text}, concat('no number: ', {text}))"
    return f"CAST({checked} AS {quoting.type_name(TARGETS[target])})", False


_Rule: TypeAlias = Callable[[str, pa.DataType, str], Cast]
_RULES: Final[tuple[tuple[Callable[[pa.DataType], bool], _Rule], ...]] = (
    (kind.is_integer, _from_whole),
    (kind.is_floating, _from_fraction),
    (kind.is_decimal, _from_decimal),
    (kind.is_boolean, _from_flag),
    (kind.is_string, _from_text),
)
