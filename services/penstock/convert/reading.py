"""JSON values as Arrow values, by a schema or by what they are. Pure.

Where Kafka's JsonConverter makes another value without a word (300 as int8 is 44 there, a text as
int32 is 0, as boolean false), there is an error here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from penstock.convert.connect import DECIMAL, Schema, logical_name
from penstock.model import exact

Reader = Callable[[Any], Any]

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_MOST_DIGITS: Final = 20
"""Of a whole number. One of 1E+999999999 would take all memory."""
_SPECIAL: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class NotReadableError(ValueError):
    """A value is not what its schema says."""


def reader_of(schema: Schema, *, defaults: bool) -> Reader:
    """Return what reads values of a schema.

    Args:
        schema: Kafka Connect's schema.
        defaults: A null becomes the schema's default.
    """
    read = _reader(schema, defaults=defaults)
    default, optional = schema.get("default"), schema.get("optional") is True
    instead = read(default) if default is not None and defaults else None

    def checked(value: Any) -> Any:
        if value is not None:
            return read(value)
        if instead is None and not optional:
            raise NotReadableError(f"null for a required {schema['type']}")
        return instead

    return checked


def _reader(schema: Schema, *, defaults: bool) -> Reader:
    if logical_name(schema) == DECIMAL:
        return _decimal_reader(int(schema["parameters"]["scale"]))
    match schema["type"]:  # dates and times are whole numbers
        case "array":
            item = reader_of(schema["items"], defaults=defaults)
            return lambda value: [item(v) for v in _is(value, list)]
        case "map":
            return _map_reader(schema, defaults=defaults)
        case "struct":
            fields = [(f["field"], reader_of(f, defaults=defaults)) for f in schema["fields"]]
            return lambda value: {n: read(_is(value, dict).get(n)) for n, read in fields}
        case kind if kind in _BITS:
            return _whole(_BITS[kind])
    return _PLAIN[schema["type"]]


def _map_reader(schema: Schema, *, defaults: bool) -> Reader:
    key = reader_of(schema["keys"], defaults=defaults)
    item = reader_of(schema["values"], defaults=defaults)
    if schema["keys"]["type"] == "string":
        return lambda value: [(key(k), item(v)) for k, v in _is(value, dict).items()]

    def pairs(value: Any) -> list[tuple[Any, Any]]:
        found = [_is(pair, list) for pair in _is(value, list)]
        if any(len(pair) != 2 for pair in found):
            raise NotReadableError("an entry of a map is a pair")
        return [(key(k), item(v)) for k, v in found]

    return pairs


def _is(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise NotReadableError(f"{str(value)[:80]!r} is no {_WORDS[kind]}")
    return value


def _whole(bits: int) -> Reader:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any) -> int:
        if (
            isinstance(value, Decimal)
            and value.adjusted() < _MOST_DIGITS
            and value == value.to_integral_value()
        ):
            value = int(value)
        number: int = _is(value, int)
        if not least <= number <= most:
            raise NotReadableError(f"{number} does not fit into {bits} bits")
        return number

    return read


def _float(value: Any) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise NotReadableError(f"{str(value)[:80]!r} is no number")
    return float(value)


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_is(value, str), validate=True)
    except binascii.Error:
        raise NotReadableError("a text is no base64") from None


def _decimal_reader(scale: int) -> Reader:
    def read(value: Any) -> Decimal:
        try:
            if isinstance(value, int | Decimal) and not isinstance(value, bool):
                return exact.at_scale(Decimal(value), scale)
            return exact.scaled(int.from_bytes(_bytes(value), "big", signed=True), scale)
        except NotReadableError:
            raise
        except ValueError as error:
            raise NotReadableError(str(error)) from None

    return read


_WORDS: Final[Mapping[type, str]] = {
    list: "array", dict: "object", int: "whole number", str: "text", bool: "boolean",
}  # fmt: skip
_PLAIN: Final[Mapping[str, Reader]] = {
    "boolean": lambda value: _is(value, bool),
    "float": _float,
    "double": _float,
    "bytes": _bytes,
    "string": lambda value: _is(value, str),
}
