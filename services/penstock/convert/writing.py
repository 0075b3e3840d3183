"""Arrow values as JSON text, byte by byte as Kafka's JsonConverter and Jackson write it. Pure."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from penstock.convert.connect import DATE, DECIMAL, TIME, TIMESTAMP, Schema, logical_name
from penstock.model.exact import unscaled

Writer = Callable[[Any], str]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SPECIAL: Final = re.compile(r'["\\\x00-\x1f]')
_ESCAPES: Final = {
    **{chr(code): f"\\u{code:04X}" for code in range(0x20)},
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r",
}  # fmt: skip


class NotWritableError(ValueError):
    """A value cannot be written as its schema says."""


def quoted(text: str) -> str:
    """Return a text as JSON."""
    return '"' + _SPECIAL.sub(lambda found: _ESCAPES[found[0]], text) + '"'


def float_text(value: float, *, single: bool = False) -> str:
    """Return a number as Java writes it: 1.0E10 where Python writes 10000000000.0."""
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


def text_of(value: Any) -> str:
    """Return a plain value of JSON as text: what schemas are made of."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case float():
            return float_text(value)
        case dict():
            return "{" + ",".join(f"{quoted(k)}:{text_of(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(map(text_of, value)) + "]"
    return str(value)


def writer_of(schema: Schema, *, numeric: bool, defaults: bool) -> Writer:
    """Return what writes values of a schema.

    Args:
        schema: Kafka Connect's schema.
        numeric: Decimals are numbers; else the base64 of their bytes.
        defaults: A null becomes the schema's default.
    """
    write = _writer(schema, numeric=numeric, defaults=defaults)
    default = schema.get("default")
    if default is not None and defaults:
        instead = text_of(default)
    else:
        instead = "null" if schema.get("optional") is True else ""

    def checked(value: Any) -> str:
        if value is not None:
            return write(value)
        if not instead:
            raise NotWritableError("a field that is required is null")
        return instead

    return checked


def _writer(schema: Schema, *, numeric: bool, defaults: bool) -> Writer:
    match logical_name(schema):
        case name if name == DECIMAL:
            return str if numeric else _decimal_writer(int(schema["parameters"]["scale"]))
        case name if name in _TIMES:
            return _TIMES[name]
    match schema["type"]:
        case "array":
            item = writer_of(schema["items"], numeric=numeric, defaults=defaults)
            return lambda value: "[" + ",".join(map(item, value)) + "]"
        case "map":
            return _map_writer(schema, numeric=numeric, defaults=defaults)
        case "struct":
            return _struct_writer(schema, numeric=numeric, defaults=defaults)
    return _PLAIN[schema["type"]]


def _struct_writer(schema: Schema, *, numeric: bool, defaults: bool) -> Writer:
    fields = [
        (item["field"], quoted(item["field"]), writer_of(item, numeric=numeric, defaults=defaults))
        for item in schema["fields"]
    ]

    def write(value: Mapping[str, Any]) -> str:
        parts = [f"{begin}:{item(value[name])}" for name, begin, item in fields]
        return "{" + ",".join(parts) + "}"

    return write


def _map_writer(schema: Schema, *, numeric: bool, defaults: bool) -> Writer:
    key = writer_of(schema["keys"], numeric=numeric, defaults=defaults)
    item = writer_of(schema["values"], numeric=numeric, defaults=defaults)
    if schema["keys"]["type"] == "string":
        return lambda value: "{" + ",".join(f"{key(k)}:{item(v)}" for k, v in value) + "}"
    return lambda value: "[" + ",".join(f"[{key(k)},{item(v)}]" for k, v in value) + "]"


def _decimal_writer(scale: int) -> Writer:
    def write(value: Decimal) -> str:
        whole = unscaled(value, scale)
        size = (whole + (whole < 0)).bit_length() // 8 + 1
        return _base64(whole.to_bytes(size, "big", signed=True))

    return write


def _base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _days(value: date) -> str:
    return str(value.toordinal() - _EPOCH_DAY)


def _milliseconds(value: datetime) -> str:
    passed = (value.replace(tzinfo=UTC) if value.tzinfo is None else value) - _EPOCH
    micros = (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    return str(_exact(micros))


def _clock(value: time) -> str:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return str(_exact(seconds * 1_000_000 + value.microsecond))


def _exact(micros: int) -> int:
    millis, rest = divmod(micros, 1000)
    if rest:
        raise NotWritableError("it has microseconds, and Kafka Connect's times have milliseconds")
    return millis


_TIMES: Final[Mapping[Any, Writer]] = {DATE: _days, TIME: _clock, TIMESTAMP: _milliseconds}
_PLAIN: Final[Mapping[str, Writer]] = {
    "boolean": lambda value: "true" if value else "false",
    "int8": str, "int16": str, "int32": str, "int64": str,
    "float": lambda value: float_text(value, single=True),
    "double": float_text,
    "bytes": _base64,
    "string": quoted,
}  # fmt: skip
