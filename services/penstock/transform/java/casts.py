"""Java's conversions of numbers and texts as Spark SQL, for the casts of Kafka Connect.

Silent conversions of Java are the same here: integers lose their upper bits, fractions are clamped
to the limits of the type. What Java refuses fails here, and the row is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.types as kind

from penstock.transform.sql import literals

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
"""Kafka Connect's names of the target types."""

TIME: Final = "time"
"""Semantic type of a column of microseconds since midnight."""

WHOLE: Final = r"\A[+-]?[0-9]+\z"
JAVA_SPACE: Final = "".join(map(chr, range(33)))
"""What Java's `String.trim` removes."""

_NO_NUMBER: Final = r"\A(?:\s*[+-]?(?!NaN|Infinity)(?i:inf|infinity|nan)\s*)\z"
"""Texts that are numbers to Spark and not to Java."""

CastExpression: TypeAlias = tuple[str, bool]
"""An SQL expression, and whether it is certain: it cannot fail on any row."""


def cast_expression(
    text: str, type_: pa.DataType, semantic_type: str, target: str
) -> CastExpression | None:
    """Return the expression that casts a value; None for a cast that Kafka Connect refuses."""
    if target == "string":
        return format_text(text, type_, semantic_type)
    plain = _as_number(text, type_, semantic_type)
    if plain is None:
        return None
    value, source = plain
    rule = next((rule for is_one, rule in _RULES if is_one(source)), None)
    return None if rule is None else rule(value, source, target)


def format_text(text: str, type_: pa.DataType, semantic_type: str = "") -> CastExpression | None:
    """Return the expression of a value as text, as Kafka Connect formats it, times as ISO 8601.
    None for lists, maps and structs.
    """
    if kind.is_timestamp(type_):
        return f"date_format({text}, {literals.literal(_ISO)})", True
    if semantic_type == TIME and kind.is_int64(type_):
        return f"date_format(timestamp_micros({text}), {literals.literal(_ISO_TIME)})", True
    if kind.is_binary(type_):  # Spark breaks base64 into lines
        return f"replace(base64({text}), {literals.literal(chr(13) + chr(10))}, '')", True
    simple = (kind.is_integer, kind.is_floating, kind.is_boolean, kind.is_string)
    if any(is_one(type_) for is_one in (*simple, kind.is_decimal, kind.is_date)):
        return f"CAST({text} AS STRING)", True
    return None


_ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_ISO_TIME: Final = "HH:mm:ss.SSS'Z'"


def _as_number(text: str, type_: pa.DataType, semantic_type: str) -> tuple[str, pa.DataType] | None:
    """Return the number of a date or time, and other values unchanged; None for bytes."""
    if kind.is_timestamp(type_):
        return f"unix_millis(CAST({text} AS TIMESTAMP_LTZ))", pa.int64()
    if kind.is_date(type_):
        return f"unix_date({text})", pa.int32()
    if semantic_type == TIME and kind.is_int64(type_):
        return f"({text} DIV 1000)", pa.int64()
    return None if kind.is_binary(type_) else (text, type_)


def _from_integer(text: str, type_: pa.DataType, target: str) -> CastExpression:
    target_type = TARGETS[target]
    if target == "boolean":
        return f"({text} <> 0)", True
    if kind.is_integer(target_type) and target_type.bit_width < type_.bit_width:
        return _wrap_integer(text, target_type), True
    return f"CAST({text} AS {literals.type_name(target_type)})", True


def _wrap_integer(text: str, target_type: pa.DataType) -> str:
    """Return the lower bits of an integer as a signed integer."""
    mask, sign = (1 << target_type.bit_width) - 1, 1 << (target_type.bit_width - 1)
    bits = f"((CAST({text} AS BIGINT) & {mask}L) ^ {sign}L) - {sign}L"
    return f"CAST({bits} AS {literals.type_name(target_type)})"


def _from_fraction(text: str, _type: pa.DataType, target: str) -> CastExpression:
    target_type = TARGETS[target]
    if kind.is_floating(target_type):
        return f"CAST({text} AS {literals.type_name(target_type)})", True
    if target == "int64":
        return _clamp_fraction(text, "BIGINT", 63), True
    if target == "boolean":
        return f"({_clamp_fraction(text, 'BIGINT', 63)} <> 0)", True
    near = _clamp_fraction(text, "INT", 31)
    return (near if target == "int32" else _wrap_integer(near, target_type)), True


def _clamp_fraction(text: str, type_name: str, bits: int) -> str:
    """Return the integer part of a fraction, clamped to the limits of the type."""
    lowest, highest = f"(-{(1 << bits) - 1}L - 1L)", f"{(1 << bits) - 1}L"
    return (
        f"CASE WHEN isnan({text}) THEN CAST(0 AS {type_name})"
        f" WHEN {text} >= {float(1 << bits)!r}D THEN CAST({highest} AS {type_name})"
        f" WHEN {text} <= {float(-(1 << bits))!r}D THEN CAST({lowest} AS {type_name})"
        f" ELSE CAST({text} AS {type_name}) END"
    )


def _from_decimal(text: str, type_: pa.DataType, target: str) -> CastExpression:
    target_type = TARGETS[target]
    if kind.is_floating(target_type):
        return f"CAST({text} AS {literals.type_name(target_type)})", True
    whole = f"CAST({text} AS BIGINT)"
    certain = type_.precision - type_.scale < 19  # digits that every int64 has
    return _from_integer(whole, pa.int64(), target)[0], certain


def _from_boolean(text: str, _type: pa.DataType, target: str) -> CastExpression:
    return f"CAST({text} AS {literals.type_name(TARGETS[target])})", True


def _from_text(text: str, _type: pa.DataType, target: str) -> CastExpression:
    if target == "boolean":
        return f"(lower({text}) = 'true')", True
    if kind.is_floating(TARGETS[target]):
        number = f"NOT ({text} RLIKE {literals.literal(_NO_NUMBER)})"
    else:
        number = f"{text} RLIKE {literals.literal(WHOLE)}"
    checked = f"IF({number}, {text}, concat('no number: ', {text}))"
    return f"CAST({checked} AS {literals.type_name(TARGETS[target])})", False


_Rule: TypeAlias = Callable[[str, pa.DataType, str], CastExpression]
_RULES: Final[tuple[tuple[Callable[[pa.DataType], bool], _Rule], ...]] = (
    (kind.is_integer, _from_integer),
    (kind.is_floating, _from_fraction),
    (kind.is_decimal, _from_decimal),
    (kind.is_boolean, _from_boolean),
    (kind.is_string, _from_text),
)
