"""MySQL's binary JSON as the text that MySQL itself writes. Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/json__binary_8h.html
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Final

from penstock_databases.mysql_cdc.events import corrupt

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_NUMBERS: Final = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<d"}
_STRING, _OPAQUE = 12, 15
_LITERALS: Final = {0: "null", 1: "true", 2: "false"}
_DEEPEST: Final = 100
"""Levels that MySQL allows."""

_NEWDECIMAL, _DATE, _TIME = 246, 10, 11
_STAMPS: Final = frozenset({7, 12})


def json_text(data: bytes) -> str:
    """Return the text of a value; empty bytes are what MySQL writes for a broken `null`."""
    if not data:
        return "null"
    try:
        return _value(data[0], data, 1, 0)
    except (LookupError, struct.error, UnicodeDecodeError) as error:
        raise corrupt(f"a JSON value cannot be read: {error}") from error


def _value(kind: int, data: bytes, at: int, depth: int) -> str:
    if depth > _DEEPEST:
        raise corrupt("a JSON value is nested too deeply")
    if kind <= _LARGE_ARRAY:
        return _compound(kind, data, at, depth)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        return _number(struct.unpack_from(_NUMBERS[kind], data, at)[0])
    if kind == _STRING:
        size, at = _size(data, at)
        return json.dumps(data[at : at + size].decode("utf-8"), ensure_ascii=False)
    if kind == _OPAQUE:
        size, start = _size(data, at + 1)
        return _opaque(data[at], data[start : start + size])
    raise corrupt(f"a JSON value has the unknown type {kind}")


def _compound(kind: int, data: bytes, at: int, depth: int) -> str:
    large = kind in {_LARGE_OBJECT, _LARGE_ARRAY}
    width, form = (4, "<I") if large else (2, "<H")
    (count,) = struct.unpack_from(form, data, at)
    place = at + 2 * width
    keys = []
    if kind in {_SMALL_OBJECT, _LARGE_OBJECT}:
        for _ in range(count):
            (start,) = struct.unpack_from(form, data, place)
            (size,) = struct.unpack_from("<H", data, place + width)
            text = data[at + start : at + start + size].decode("utf-8")
            keys.append(json.dumps(text, ensure_ascii=False))
            place += width + 2
    values = []
    for _ in range(count):
        inner = data[place]
        inline = inner in {_LITERAL, 5, 6} or (large and inner in {7, 8})
        where = place + 1 if inline else at + struct.unpack_from(form, data, place + 1)[0]
        values.append(_value(inner, data, where, depth + 1))
        place += 1 + width
    if keys or kind in {_SMALL_OBJECT, _LARGE_OBJECT}:
        return "{" + ", ".join(f"{k}: {v}" for k, v in zip(keys, values, strict=True)) + "}"
    return "[" + ", ".join(values) + "]"


def _number(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    text = repr(number)
    return text.replace("e+", "e") if "e" in text else text


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Return a length of seven bits a byte, and where it ends."""
    size = shift = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return size, at


def _opaque(kind: int, data: bytes) -> str:
    if kind == _NEWDECIMAL:
        return _decimal(data)
    if kind in _STAMPS or kind in {_DATE, _TIME}:
        return f'"{_moment(kind, int.from_bytes(data[:8], "little", signed=True))}"'
    text = base64.b64encode(data).decode()
    return f'"base64:type{kind}:{text}"'


def _moment(kind: int, packed: int) -> str:
    negative, packed = packed < 0, abs(packed)
    micros, whole = packed & 0xFFFFFF, packed >> 24
    hour, minute, second = whole >> 12 & 0x3FF, whole >> 6 & 63, whole & 63
    if kind == _TIME:
        return f"{'-' if negative else ''}{hour:02}:{minute:02}:{second:02}.{micros:06}"
    months, day, hour = whole >> 22, whole >> 17 & 31, whole >> 12 & 31
    date = f"{months // 13:04}-{months % 13:02}-{day:02}"
    return date if kind == _DATE else f"{date} {hour:02}:{minute:02}:{second:02}.{micros:06}"


def _decimal(data: bytes) -> str:
    precision, scale = data[0], data[1]
    digits = bytes(data[2:])
    negative = digits[0] < 0x80
    mask = 0xFF if negative else 0
    plain = bytes(byte ^ mask for byte in digits)
    plain = bytes([plain[0] & 0x7F]) + plain[1:]
    whole = precision - scale
    sizes = [*([whole % 9] if whole % 9 else []), *[9] * (whole // 9)]
    left, at = "", 0
    for size in sizes:
        width = (size + 1) // 2 if size < 9 else 4
        left += str(int.from_bytes(plain[at : at + width], "big")).rjust(size, "0")
        at += width
    right = ""
    for size in [*[9] * (scale // 9), *([scale % 9] if scale % 9 else [])]:
        width = (size + 1) // 2 if size < 9 else 4
        right += str(int.from_bytes(plain[at : at + width], "big")).rjust(size, "0")
        at += width
    text = (left.lstrip("0") or "0") + (f".{right}" if right else "")
    return f"-{text}" if negative else text
