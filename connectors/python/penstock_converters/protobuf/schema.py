"""Protobuf's schemas in their own language as types: names resolved, imports read. Pure.

It reads what describes messages: fields, oneofs, maps, enums, and of options those that change the
bytes or the types. Services and other options are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock_converters.connect_schema import InvalidSchemaError
from penstock_converters.protobuf.descriptor import read_descriptor
from penstock_converters.protobuf.types import ProtoEnum, ProtoField, ProtoMessage

SCALARS: Final = frozenset(
    {"double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
     "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"}
)  # fmt: skip
_LABELS: Final = frozenset({"optional", "required", "repeated"})
_MAX_DEPTH: Final = 64
_TOKEN: Final = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_][\w.]*|\.[A-Za-z_][\w.]*"
    r"|[-+]?\d[\w.]*|[-+{}\[\]()<>=;,:.])",
    re.DOTALL,
)

BUILT_IN: Final[Mapping[str, str]] = {
    "google/protobuf/timestamp.proto": 'syntax = "proto3"; package google.protobuf; '
    "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/duration.proto": 'syntax = "proto3"; package google.protobuf; '
    "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/empty.proto": 'syntax = "proto3"; package google.protobuf; message Empty {}',
    "google/protobuf/wrappers.proto": 'syntax = "proto3"; package google.protobuf; '
    "message DoubleValue { double value = 1; } message FloatValue { float value = 1; } "
    "message Int64Value { int64 value = 1; } message UInt64Value { uint64 value = 1; } "
    "message Int32Value { int32 value = 1; } message UInt32Value { uint32 value = 1; } "
    "message BoolValue { bool value = 1; } message StringValue { string value = 1; } "
    "message BytesValue { bytes value = 1; }",
    "google/type/date.proto": 'syntax = "proto3"; package google.type; '
    "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/timeofday.proto": 'syntax = "proto3"; package google.type; '
    "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; '
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
}  # fmt: skip
"""Schemas that every registry is taken to know."""


@dataclass(slots=True)
class ProtoFile:
    """A schema: its messages, in their order."""

    messages: list[ProtoMessage]

    def message_at(self, path: Iterable[int]) -> ProtoMessage | None:
        """Return the message of a path of indexes; None: there is none."""
        level, found = self.messages, None
        for at in path:
            if not 0 <= at < len(level):
                return None
            found = level[at]
            level = found.messages
        return found


def parse_proto(text: str, references: Iterable[tuple[str, str]] = ()) -> ProtoFile:
    """Return a schema. `references` are name and text of those that it imports.

    Raises:
        InvalidSchemaError: it is not a schema, or uses what is not here.
    """
    known: dict[str, ProtoMessage | ProtoEnum] = {}
    fields: list[tuple[str, ProtoField]] = []
    for _, other in [*BUILT_IN.items(), *references]:
        _read(other, known, fields)
    found = _read(text, known, fields)
    for scope, one in fields:
        if one.kind not in SCALARS:
            one.type = _find(known, scope, one.kind)
            one.kind = "enum" if isinstance(one.type, ProtoEnum) else "message"
    return found


def _read(
    text: str,
    known: dict[str, ProtoMessage | ProtoEnum],
    fields: list[tuple[str, ProtoField]],
) -> ProtoFile:
    """Read a schema in Protobuf's language, or in the compiler's form."""
    parser = _Parser(text, known, fields)
    described = read_descriptor(text)
    if described is None:
        return parser.parse()
    messages, types, of_types = described
    for one in types:
        parser.define(one)
    fields += of_types
    return ProtoFile(messages)


def _find(
    known: Mapping[str, ProtoMessage | ProtoEnum], scope: str, name: str
) -> ProtoMessage | ProtoEnum:
    """Return the type of a name: that of the innermost scope which has one."""
    if name.startswith("."):
        scope, name = "", name[1:]
    while True:
        full = f"{scope}.{name}" if scope else name
        if full in known:
            return known[full]
        if not scope:
            raise InvalidSchemaError(f"the type {name!r} is not defined")
        scope = scope.rpartition(".")[0]


class _Parser:
    """Reads one file."""

    def __init__(
        self,
        text: str,
        known: dict[str, ProtoMessage | ProtoEnum],
        fields: list[tuple[str, ProtoField]],
    ) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._at = 0
        self._known, self._fields = known, fields
        self._is_proto3 = False

    def parse(self) -> ProtoFile:
        self._tokens = list(_tokens(self._text))
        package = ""
        messages: list[ProtoMessage] = []
        while self._at < len(self._tokens):
            word = self._next()
            if word in ("syntax", "edition"):
                self._expect("=")
                self._is_proto3 = self._next().strip("\"'") == "proto3"
                self._expect(";")
            elif word == "package":
                package = self._next()
                self._expect(";")
            elif word == "message":
                messages.append(self._message(package, 0))
            elif word == "enum":
                self._enum(package)
            elif word != ";":
                self._skip()
        return ProtoFile(messages)

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise InvalidSchemaError("the schema ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _expect(self, word: str) -> None:
        if (found := self._next()) != word:
            raise InvalidSchemaError(f"there is {found[:80]!r} where {word!r} is expected")

    def _skip(self) -> None:
        """Skip a statement, or a block."""
        depth = 0
        while True:
            word = self._next()
            depth += (word in ("{", "[", "(")) - (word in ("}", "]", ")"))
            if depth <= 0 and word in (";", "}"):
                return

    def _number(self) -> int:
        text = self._next()
        text += self._next() if text in ("-", "+") else ""
        try:
            return int(text, 0)
        except ValueError:
            raise InvalidSchemaError(f"{text[:80]!r} is not a whole number") from None

    def define(self, found: ProtoMessage | ProtoEnum) -> None:
        if found.name in self._known:
            if found.name.startswith(("google.", "confluent.")):
                return  # of a registry that gives it with the others
            raise InvalidSchemaError(f"the type {found.name} is defined twice")
        self._known[found.name] = found

    def _message(self, scope: str, depth: int) -> ProtoMessage:
        if depth > _MAX_DEPTH:
            raise InvalidSchemaError(f"messages are nested more than {_MAX_DEPTH} deep")
        name = self._next()
        found = ProtoMessage(f"{scope}.{name}" if scope else name, self._is_proto3)
        self.define(found)
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "message":
                found.messages.append(self._message(found.name, depth + 1))
            elif word == "enum":
                self._enum(found.name)
            elif word == "oneof":
                self._oneof(found)
            elif word in ("option", "reserved", "extensions", "extend"):
                self._skip()
            elif word != ";":
                self._field(found, word, None)
        numbers = [one.number for one in found.fields]
        if len(set(numbers)) < len(numbers):
            raise InvalidSchemaError(f"two fields of {found.name} have the same number")
        return found

    def _oneof(self, message: ProtoMessage) -> None:
        name = self._next()
        message.oneofs.append(name)
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._skip()
            elif word != ";":
                self._field(message, word, (name, len(message.oneofs) - 1))

    def _field(self, message: ProtoMessage, word: str, oneof: tuple[str, int] | None) -> None:
        label = ""
        if word in _LABELS:
            label, word = word, self._next()
        if word == "group":
            raise InvalidSchemaError(f"{message.name} has a group, which has no column")
        kind = self._map(message) if word == "map" and self._peek() == "<" else word
        name = self._next()
        if kind != word:
            label, entry = "repeated", _entry_name(name)
            made = ProtoMessage(f"{message.name}.{entry}", self._is_proto3)
            self.define(made)
            for at, (part, of_part) in enumerate(zip(("key", "value"), kind.split(), strict=True)):
                made.fields.append(ProtoField(part, at + 1, of_part))
                self._fields.append((message.name, made.fields[-1]))
            kind = entry
        self._expect("=")
        found = ProtoField(name, self._number(), kind, label, oneof=oneof)
        if self._peek() == "[":
            self._options(found)
        self._expect(";")
        message.fields.append(found)
        self._fields.append((message.name, found))

    def _map(self, message: ProtoMessage) -> str:
        """Return the types of keys and values, with a space between them."""
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        return f"{key} {value}"

    def _options(self, found: ProtoField) -> None:
        """Read the options of a field that change its bytes or its type."""
        begin = self._at
        depth = 0
        while True:
            word = self._next()
            depth += (word in ("{", "[", "(")) - (word in ("}", "]", ")"))
            if not depth:
                break
        words = [one.strip("\"'") for one in self._tokens[begin : self._at]]
        for at, word in enumerate(words):
            if word == "packed" and words[at + 1 : at + 2] == ["="]:
                found.packed = words[at + 2] == "true"
            if word == "key" and words[at + 1 : at + 2] == [":"]:
                rest = [one for one in words[at + 3 : at + 7] if one not in (",", ":")]
                if rest[:1] == ["value"] and len(rest) > 1:
                    found.parameters[words[at + 2]] = rest[1]

    def _enum(self, scope: str) -> None:
        name = self._next()
        found = ProtoEnum(f"{scope}.{name}" if scope else name)
        self.define(found)
        self._expect("{")
        while (word := self._next()) != "}":
            if word in ("option", "reserved") and self._peek() != "=":
                self._skip()
            elif word != ";":
                self._expect("=")
                found.values.append((word, self._number()))
                if self._peek() == "[":
                    self._options(ProtoField("", 0, "enum"))
                self._expect(";")


def _entry_name(name: str) -> str:
    """Return the name of a map's entries, as the compiler makes it of the field's."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidSchemaError(f"{text[at : at + 20]!r} is no word of a schema")
        if found[1] is not None:
            yield found[1]
        at = found.end()
