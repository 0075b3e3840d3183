"""Protobuf's schemas in the compiler's form as types: a file descriptor in base64, as some clients
register them. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Final

from penstock_converters.connect_schema import InvalidSchemaError
from penstock_converters.protobuf.types import ProtoEnum, ProtoField, ProtoMessage

_MAX_DEPTH: Final = 64
_TYPES: Final[Mapping[int, str]] = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32",
    16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
_LABELS: Final[Mapping[int, str]] = {1: "optional", 2: "required", 3: "repeated"}
_META: Final = 1088
"""Number of the option in which Confluent's converter keeps what Kafka Connect says."""

Parts = dict[int, list[int | bytes]]


def read_descriptor(
    text: str,
) -> tuple[list[ProtoMessage], list[ProtoMessage | ProtoEnum], list[tuple[str, ProtoField]]] | None:
    """Return the messages of a file, all types in it, and their fields with their scopes. None: the
    text is no base64.

    Raises:
        InvalidSchemaError: it is base64 of something else.
    """
    try:
        data = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data:
        return None
    file = _Descriptor(_parts(data))
    return file.messages, file.types, file.fields


class _Descriptor:
    def __init__(self, parts: Parts) -> None:
        self.types: list[ProtoMessage | ProtoEnum] = []
        self.fields: list[tuple[str, ProtoField]] = []
        self._is_proto3 = _text(parts, 12) == "proto3"
        package = _text(parts, 2)
        self.messages = [self._message(one, package, 0) for one in _inner(parts, 4)]
        for one in _inner(parts, 5):
            self._enum(one, package)

    def _message(self, parts: Parts, scope: str, depth: int) -> ProtoMessage:
        if depth > _MAX_DEPTH:
            raise InvalidSchemaError(f"messages are nested more than {_MAX_DEPTH} deep")
        name = _text(parts, 1)
        found = ProtoMessage(f"{scope}.{name}" if scope else name, self._is_proto3)
        self.types.append(found)
        for one in _inner(parts, 3):
            inner = self._message(one, found.name, depth + 1)
            if not any(_number(options, 7) for options in _inner(one, 7)):  # no entry of a map
                found.messages.append(inner)
        for one in _inner(parts, 4):
            self._enum(one, found.name)
        fields = [self._field(one) for one in _inner(parts, 2)]
        real = {at for _, at, is_implied in fields if at is not None and not is_implied}
        names = [_text(one, 1) for one in _inner(parts, 8)]
        places = {at: place for place, at in enumerate(sorted(real))}
        for own, at, _ in fields:
            if at in places and at is not None and at < len(names):
                own.oneof = (names[at], places[at])
            self.fields.append((found.name, own))
            found.fields.append(own)
        found.oneofs += [names[at] for at in sorted(real) if at < len(names)]
        return found

    def _field(self, parts: Parts) -> tuple[ProtoField, int | None, bool]:
        """Return a field, the number of its oneof, and whether that only says that it is
        optional.
        """
        kind = _TYPES.get(_number(parts, 5))
        if kind is None:
            raise InvalidSchemaError("a field has a type that has no column, such as a group")
        is_optional = bool(_number(parts, 17))
        label = _LABELS.get(_number(parts, 4), "")
        if label == "optional" and self._is_proto3 and not is_optional:
            label = ""
        named = kind in ("message", "enum")
        found = ProtoField(
            _text(parts, 1), _number(parts, 3), _text(parts, 6) if named else kind, label
        )
        for options in _inner(parts, 8):
            if 2 in options:
                found.packed = bool(_number(options, 2))
            for meta in _inner(options, _META):
                found.parameters |= {_text(one, 1): _text(one, 2) for one in _inner(meta, 2)}
        at = _number(parts, 9) if 9 in parts else None
        return found, at, is_optional

    def _enum(self, parts: Parts, scope: str) -> None:
        name = _text(parts, 1)
        found = ProtoEnum(f"{scope}.{name}" if scope else name)
        for one in _inner(parts, 2):
            number = _number(one, 2)
            found.values.append((_text(one, 1), number - (1 << 64) if number >> 63 else number))
        self.types.append(found)


def _text(parts: Parts, number: int) -> str:
    found = parts.get(number, [b""])[-1]
    if not isinstance(found, bytes):
        raise _not_a_descriptor()
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise _not_a_descriptor() from None


def _number(parts: Parts, number: int) -> int:
    found = parts.get(number, [0])[-1]
    if not isinstance(found, int):
        raise _not_a_descriptor()
    return found


def _inner(parts: Parts, number: int) -> Iterator[Parts]:
    for one in parts.get(number, []):
        if not isinstance(one, bytes):
            raise _not_a_descriptor()
        yield _parts(one)


def _parts(data: bytes) -> Parts:
    """Return the fields of a message by their number."""
    found: Parts = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value: int | bytes
            value, at = _varint(data, at)
        elif wire in (1, 2, 5):
            size, at = _varint(data, at) if wire == 2 else (8 if wire == 1 else 4, at)
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise _not_a_descriptor()
        else:
            raise _not_a_descriptor()
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7
    raise _not_a_descriptor()


def _not_a_descriptor() -> InvalidSchemaError:
    return InvalidSchemaError("the schema is no file descriptor of Protobuf")
