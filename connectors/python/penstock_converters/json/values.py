"""JSON values to Arrow values, by a schema, and single values to JSON text. Pure.

Where Kafka's converter
silently reads another value (300 as int8 becomes 44, a text as int32 becomes 0, as boolean false),
there is an error here.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from penstock_converters.connect_schema import (
    DECIMAL,
    ConnectSchema,
    logical_name,
)
from penstock_values.decimals import at_scale, from_unscaled

Reader = Callable[[Any], Any]

_INTEGER_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_MAX_DIGITS: Final = 20
"""Digits of a whole number. 1E+999999999 would take all memory."""
_SPECIAL_NUMBERS: Final = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


CONVERSION_ERRORS: Final = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
    UnicodeEncodeError,  # half of a surrogate pair
)
"""Errors of Arrow for values that a type does not hold."""


class InvalidValueError(ValueError):
    """A JSON value does not match its schema; the message has the value and what is expected."""


def parse_exact(text: bytes) -> Any:
    """Return JSON as Python's values, with decimals for numbers with a fraction.

    Raises:
        ValueError: it is not JSON.
    """
    return json.loads(text.decode("utf-8"), parse_float=to_decimal, parse_constant=refuse_constant)


def to_decimal(text: str) -> Decimal:
    """Return a number of JSON, exactly."""
    try:
        return Decimal(text)
    except InvalidOperation:  # its exponent has 19 digits
        raise InvalidValueError(f"{text[:80]} is too large or too small for a number") from None


def refuse_constant(text: str) -> Any:
    """Refuse what Python reads beyond JSON."""
    raise InvalidValueError(f"{text} is not a number in JSON")


@dataclass(frozen=True, slots=True)
class JsonForm:
    """JSON of values, where converters differ.

    Attributes:
        numeric: Decimals are written as numbers; else as base64 of their bytes. Both are read.
        defaults: A null becomes the default of its schema.
        named_entries: Entries of maps whose keys are no texts are objects of `key` and `value`;
        else pairs.
        union: Name of structs that stand for one of their fields; "" for none.
    """

    numeric: bool = False
    defaults: bool = True
    named_entries: bool = False
    union: str = ""


def make_reader(schema: ConnectSchema, form: JsonForm) -> Reader:
    """Return the function that reads values of a schema."""
    read = _make_reader(schema, form)
    default, optional = schema.get("default"), schema.get("optional") is True
    replacement = read(default) if default is not None and form.defaults else None

    def checked(value: Any) -> Any:
        if value is not None:
            return read(value)
        if replacement is None and not optional:
            raise InvalidValueError(f"null for a {schema['type']} that is not optional")
        return replacement

    return checked


def _make_reader(schema: ConnectSchema, form: JsonForm) -> Reader:
    if logical_name(schema) == DECIMAL:
        return _decimal_reader(int(schema["parameters"]["scale"]))
    match schema["type"]:  # dates and times are whole numbers
        case "array":
            item = make_reader(schema["items"], form)
            return lambda value: [item(v) for v in _require(value, list)]
        case "map":
            return _map_reader(schema, form)
        case "struct" if form.union and schema.get("name") == form.union:
            return _union_reader(schema, form)
        case "struct":
            return _struct_reader(schema, form)
        case kind if kind in _INTEGER_BITS:
            return _integer_reader(_INTEGER_BITS[kind])
    return _READERS[schema["type"]]


def _struct_reader(schema: ConnectSchema, form: JsonForm) -> Reader:
    fields = [(f["field"], make_reader(f, form)) for f in schema["fields"]]
    return lambda value: {n: read(_require(value, dict).get(n)) for n, read in fields}


def _union_reader(schema: ConnectSchema, form: JsonForm) -> Reader:
    """Return the function that reads one of several types: the first that the value has; of
    structs, that of which it has most fields.
    """
    fields = [(one["field"], one, make_reader(one, form)) for one in schema["fields"]]
    names = [name for name, _, _ in fields]

    def read(value: Any) -> dict[str, Any]:
        found = dict.fromkeys(names)
        best, most = None, 0
        for name, one, reader in fields:
            if _has_type(one, value):
                return found | {name: reader(value)}
            count = _count_fields(one, value)
            if count > most:
                best, most = (name, reader), count
        if best is None:
            raise InvalidValueError(f"{str(value)[:80]!r} is of no type of the union")
        return found | {best[0]: best[1](value)}

    return read


def _has_type(schema: ConnectSchema, value: Any) -> bool:
    kind = schema["type"]
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if kind in _INTEGER_BITS:
        return is_number and (isinstance(value, int) or _is_whole(value))
    if kind in ("float", "double"):
        return is_number
    types = {"boolean": bool, "string": str, "bytes": str, "array": list}
    return isinstance(value, types.get(kind, dict | list if kind == "map" else ()))


def _count_fields(schema: ConnectSchema, value: Any) -> int:
    if schema["type"] != "struct" or not isinstance(value, dict):
        return 0
    inside = [one for one in schema["fields"] if one["field"] in value]
    return len(inside) + sum(_count_fields(one, value[one["field"]]) for one in inside)


def _map_reader(schema: ConnectSchema, form: JsonForm) -> Reader:
    key = make_reader(schema["keys"], form)
    item = make_reader(schema["values"], form)
    if schema["keys"]["type"] == "string":
        return lambda value: [(key(k), item(v)) for k, v in _require(value, dict).items()]

    def entries(value: Any) -> list[tuple[Any, Any]]:
        found = [_require(entry, dict) for entry in _require(value, list)]
        if any(set(entry) != {"key", "value"} for entry in found):
            raise InvalidValueError("an entry of a map must have 'key' and 'value'")
        return [(key(entry["key"]), item(entry["value"])) for entry in found]

    def pairs(value: Any) -> list[tuple[Any, Any]]:
        entries = [_require(pair, list) for pair in _require(value, list)]
        if any(len(pair) != 2 for pair in entries):
            raise InvalidValueError("an entry of a map must be a pair")
        return [(key(k), item(v)) for k, v in entries]

    return entries if form.named_entries else pairs


def _require(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise InvalidValueError(f"{str(value)[:80]!r} is not {_JSON_TYPES[kind]}")
    return value


def _integer_reader(bits: int) -> Reader:
    lowest, highest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any) -> int:
        if isinstance(value, Decimal) and _is_whole(value):
            value = int(value)
        number: int = _require(value, int)
        if not lowest <= number <= highest:
            raise InvalidValueError(f"{number} does not fit into {bits} bits")
        return number

    return read


def _is_whole(value: Decimal) -> bool:
    return value.adjusted() < _MAX_DIGITS and value == value.to_integral_value()


def _read_float(value: Any) -> float:
    if isinstance(value, str) and value in _SPECIAL_NUMBERS:
        return _SPECIAL_NUMBERS[value]
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise InvalidValueError(f"{str(value)[:80]!r} is not a number")
    return float(value)


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_require(value, str), validate=True)
    except binascii.Error:
        raise InvalidValueError("the text is not base64") from None


def _decimal_reader(scale: int) -> Reader:
    def read(value: Any) -> Decimal:
        try:
            if isinstance(value, int | Decimal) and not isinstance(value, bool):
                return at_scale(Decimal(value), scale)
            return from_unscaled(int.from_bytes(_read_bytes(value), "big", signed=True), scale)
        except InvalidValueError:
            raise
        except ValueError as error:
            raise InvalidValueError(str(error)) from None

    return read


_JSON_TYPES: Final[Mapping[type, str]] = {
    list: "an array", dict: "an object", int: "a whole number", str: "a text",
    bool: "a boolean",
}  # fmt: skip
_READERS: Final[Mapping[str, Reader]] = {
    "boolean": lambda value: _require(value, bool),
    "float": _read_float,
    "double": _read_float,
    "bytes": _read_bytes,
    "string": lambda value: _require(value, str),
}


_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
ESCAPES: Final = {
    "\\": "\\\\",
    **{chr(code): f"\\u{code:04X}" for code in range(0x20)},
    '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r",
}  # fmt: skip
"""What stands for a character in a text. The backslash is the first, as all others have one."""


def quote(text: str) -> str:
    """Return a text as a JSON string."""
    return '"' + _ESCAPED.sub(lambda found: ESCAPES[found[0]], text) + '"'


def format_float(value: float, *, single: bool = False) -> str:
    """Return a number as Java writes it: 1.0E10, where Python writes 10000000000.0."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    shortest = str(pa.scalar(value, pa.float32()).cast(pa.string())) if single else repr(value)
    digits = Decimal(shortest)
    if not digits or 1e-3 <= abs(value) < 1e7:
        plain = f"{digits:f}"
        return plain if "." in plain else f"{plain}.0"
    sign, figures, _ = digits.normalize().as_tuple()
    rest = "".join(map(str, figures[1:])) or "0"
    return f"{'-' if sign else ''}{figures[0]}.{rest}E{digits.adjusted()}"


def format_json(value: Any) -> str:
    """Return a JSON value as text. Schemas are written in this way."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case float():
            return format_float(value)
        case dict():
            return "{" + ",".join(f"{quote(k)}:{format_json(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(format_json, value)) + "]"
    return str(value)
