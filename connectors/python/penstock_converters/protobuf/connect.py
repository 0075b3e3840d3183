"""Protobuf's schemas to Kafka Connect's, and back, as Confluent's ProtobufData does. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock_converters.avro.connect import AvroOptions, scrub_name
from penstock_converters.connect_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    InvalidSchemaError,
)
from penstock_converters.protobuf.types import ProtoEnum, ProtoField, ProtoMessage

NAMESPACE: Final = "io.confluent.connect.protobuf"
UNION: Final = f"{NAMESPACE}.Union."
_ENUM: Final = f"{NAMESPACE}.Enum"
_TAG: Final = f"{NAMESPACE}.Tag"
_TYPE: Final = f"{NAMESPACE}.Type"
_PRECISION: Final = "connect.decimal.precision"
_DEFAULT_NAME: Final = "ConnectDefault"
_MAX_TYPES: Final = 20_000
_MAX_DEPTH: Final = 64

LOGICAL: Final[Mapping[str, str]] = {
    "confluent.type.Decimal": DECIMAL, "google.type.Date": DATE, "google.type.TimeOfDay": TIME,
    "google.protobuf.Timestamp": TIMESTAMP,
}  # fmt: skip
"""Kafka Connect's logical types of messages."""

_WIRE: Final[Mapping[str, str]] = {
    DECIMAL: "bytes", DATE: "int32", TIME: "int32", TIMESTAMP: "int64",
}  # fmt: skip
_IMPORTS: Final[Mapping[str, str]] = {
    DECIMAL: "confluent/type/decimal.proto", DATE: "google/type/date.proto",
    TIME: "google/type/timeofday.proto", TIMESTAMP: "google/protobuf/timestamp.proto",
}  # fmt: skip
_SCALARS: Final[Mapping[str, str]] = {
    "double": "double", "float": "float", "int32": "int32", "sint32": "int32",
    "sfixed32": "int32", "uint32": "int64", "fixed32": "int64", "int64": "int64",
    "uint64": "int64", "sint64": "int64", "fixed64": "int64", "sfixed64": "int64",
    "bool": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
_FROM_CONNECT: Final[Mapping[str, str]] = {
    "boolean": "bool", "int8": "int32", "int16": "int32", "int32": "int32", "int64": "int64",
    "float": "float", "double": "double", "string": "string", "bytes": "bytes",
}  # fmt: skip
_WRAPPERS: Final[Mapping[str, str]] = {
    f"google.protobuf.{name}Value": kind
    for name, kind in (
        ("Double", "double"), ("Float", "float"), ("Int64", "int64"), ("UInt64", "int64"),
        ("Int32", "int32"), ("UInt32", "int64"), ("Bool", "boolean"), ("String", "string"),
        ("Bytes", "bytes"),
    )
}  # fmt: skip
_WRAPPER_OF: Final[Mapping[str, str]] = {
    "double": "Double", "float": "Float", "int64": "Int64", "int32": "Int32", "int16": "Int32",
    "int8": "Int32", "boolean": "Bool", "string": "String", "bytes": "Bytes",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProtoOptions:
    """The keys of Confluent's ProtobufData.

    Attributes:
        enhanced: `enhanced.protobuf.schema.support`.
        scrub: `scrub.invalid.names`.
        int_enums: `int.for.enums`.
        optionals: `optional.for.nullables`.
        wrappers: `wrapper.for.nullables`.
        indexed_unions: `generate.index.for.unions`.
    """

    enhanced: bool = False
    scrub: bool = False
    int_enums: bool = False
    optionals: bool = False
    wrappers: bool = False
    indexed_unions: bool = True


def scrubbed(name: str, options: ProtoOptions) -> str:
    """Return the name of a field as it is in Protobuf."""
    return scrub_name(name, AvroOptions(scrub=options.scrub))


def is_wrapper(message: ProtoMessage) -> bool:
    """Return whether a message stands for the one value in it."""
    return message.name in _WRAPPERS


def to_connect(message: ProtoMessage, options: ProtoOptions) -> dict[str, Any]:
    """Return Kafka Connect's schema of a message.

    Raises:
        InvalidSchemaError: it has none.
    """
    if is_wrapper(message):
        return {"type": _WRAPPERS[message.name], "optional": False}
    return _Reader(options).message(message) | {"optional": False}


def union_name(name: str, number: int, options: ProtoOptions) -> str:
    """Return the name of the field that stands for a oneof."""
    return f"{name}_{number}" if options.indexed_unions else name


class _Reader:
    def __init__(self, options: ProtoOptions) -> None:
        self._options = options
        self._open: list[str] = []
        self._count = 0

    def message(self, message: ProtoMessage) -> dict[str, Any]:
        if message.name in self._open:
            raise InvalidSchemaError(
                f"{message.name} contains itself, and columns cannot be nested without end"
            )
        self._count += 1 + len(message.fields)
        if self._count > _MAX_TYPES or len(self._open) > _MAX_DEPTH:
            raise InvalidSchemaError(f"the schema has more than {_MAX_TYPES} types, or is too deep")
        self._open.append(message.name)
        fields = [self._union(message, at, name) for at, name in enumerate(message.oneofs)]
        fields += [
            self._field(one) | {"field": one.name} for one in message.fields if one.oneof is None
        ]
        self._open.pop()
        names = [one["field"] for one in fields]
        if len(set(names)) < len(names):
            raise InvalidSchemaError(f"two fields of {message.name} have the same name")
        return {"type": "struct", "name": self._name(message), "fields": fields}

    def _name(self, found: ProtoMessage | ProtoEnum) -> str:
        return found.name if self._options.enhanced else found.name.rpartition(".")[2]

    def _union(self, message: ProtoMessage, at: int, name: str) -> dict[str, Any]:
        parts = [one for one in message.fields if one.oneof == (name, at)]
        full = f"{message.name}.{name}" if self._options.enhanced else name
        return {
            "type": "struct", "optional": True, "name": UNION + full,
            "fields": [self._field(one) | {"optional": True, "field": one.name} for one in parts],
            "field": union_name(name, at, self._options),
        }  # fmt: skip

    def _field(self, one: ProtoField) -> dict[str, Any]:
        schema, optional = self._type(one)
        if one.label == "repeated" and schema["type"] != "map":
            schema = {"type": "array", "items": schema | {"optional": True}}
            optional = True
        if self._options.optionals:
            optional |= one.label == "optional"
        elif not self._options.wrappers:
            optional = True
        parameters = schema.get("parameters", {}) | {_TAG: str(one.number)}
        return schema | {"optional": optional, "parameters": parameters}

    def _type(self, one: ProtoField) -> tuple[dict[str, Any], bool]:
        """Return the schema of a single value, and whether it may be null in any case."""
        if isinstance(one.type, ProtoEnum):
            symbols = {f"{_ENUM}.{name}": str(number) for name, number in one.type.values}
            short = one.type.name.rpartition(".")[2]
            kind = "int32" if self._options.int_enums else "string"
            parameters = {_ENUM: short, **symbols}
            return {"type": kind, "name": self._name(one.type), "parameters": parameters}, True
        if isinstance(one.type, ProtoMessage):
            return self._message_type(one, one.type), True
        small = one.parameters.get("connect.type")
        if one.kind == "int32" and small in ("int8", "int16"):
            return {"type": small}, False
        kind = _SCALARS[one.kind]
        plain = one.kind in ("int32", "int64") or not kind.startswith("int")
        return {"type": kind, **({} if plain else {"parameters": {_TYPE: one.kind}})}, False

    def _message_type(self, one: ProtoField, message: ProtoMessage) -> dict[str, Any]:
        logical = LOGICAL.get(message.name)
        if logical is not None:
            found: dict[str, Any] = {"type": _WIRE[logical], "name": logical, "version": 1}
            if logical == DECIMAL:
                parameters = {"scale": one.parameters.get("scale", "0")}
                if "precision" in one.parameters:
                    parameters[_PRECISION] = one.parameters["precision"]
                found["parameters"] = parameters
            return found
        if self._options.wrappers and is_wrapper(message):
            return {"type": _WRAPPERS[message.name]}
        if one.label == "repeated" and message.is_map_entry:
            keys, values = (self._field(part) for part in message.fields)
            return {"type": "map", "keys": keys, "values": values}
        return self.message(message)


def from_connect(schema: ConnectSchema, options: ProtoOptions) -> str:
    """Return the schema of messages of Kafka Connect's schema, in Protobuf's language.

    Raises:
        InvalidSchemaError: Protobuf has no such messages.
    """
    if schema["type"] != "struct":
        raise InvalidSchemaError(
            f"a {schema['type']} alone is no message of Protobuf: only rows with columns are"
        )
    return _Writer(options).convert(schema)


class _Writer:
    def __init__(self, options: ProtoOptions) -> None:
        self._options = options
        self._scrub = AvroOptions(scrub=options.scrub)
        self._imports: set[str] = set()
        self._names = 0

    def convert(self, schema: ConnectSchema) -> str:
        package, _, name = self._name_of(schema).rpartition(".")
        body = "\n".join(self._message(name, schema, ""))
        head = ['syntax = "proto3";']
        head += [f"package {package};"] if package else []
        imports = [f'import "{one}";' for one in sorted(self._imports)]
        return "\n".join([*head, "", *imports, *([""] if imports else []), body, ""])

    def _name_of(self, schema: ConnectSchema) -> str:
        if schema.get("name"):
            return ".".join(scrub_name(one, self._scrub) for one in schema["name"].split("."))
        self._names += 1
        return f"{_DEFAULT_NAME}{self._names}"

    def _message(self, name: str, schema: ConnectSchema, indent: str) -> list[str]:
        """Return the lines of a message."""
        lines = [f"{indent}message {name} {{"]
        nested: list[str] = []
        defined: dict[str, Any] = {}
        number = 0
        inner = f"{indent}  "
        for one in schema["fields"]:
            if str(one.get("name") or "").startswith(UNION):
                short = one["name"].removeprefix(UNION).rpartition(".")[2]
                lines.append(f"{inner}oneof {short} {{")
                for part in one["fields"]:
                    number = int((part.get("parameters") or {}).get(_TAG, number + 1))
                    text = self._field(part, number, defined, nested, inner, in_oneof=True)
                    lines.append(f"{inner}  {text}")
                lines.append(f"{inner}}}")
                continue
            tag = (one.get("parameters") or {}).get(_TAG)
            number = int(tag) if tag is not None else number + 1
            text = self._field(one, number, defined, nested, inner, in_oneof=False)
            lines.append(f"{inner}{text}")
        return [*lines, *(["", *nested] if nested else []), f"{indent}}}"]

    def _field(
        self,
        schema: ConnectSchema,
        number: int,
        defined: dict[str, Any],
        nested: list[str],
        indent: str,
        *,
        in_oneof: bool,
    ) -> str:
        name = scrub_name(schema["field"], self._scrub)
        if schema["type"] == "array":
            item = schema["items"]
            if item["type"] in ("array", "map"):
                raise InvalidSchemaError(
                    f"the column {name!r} has lists of lists: Protobuf has none"
                )
            kind, options = self._type(item, name, defined, nested, indent, plain=True)
            return f"repeated {kind} {name} = {number}{options};"
        kind, options = self._type(schema, name, defined, nested, indent, plain=in_oneof)
        label = ""
        if self._options.optionals and schema.get("optional") and schema["type"] != "map":
            label = "" if in_oneof else "optional "
        return f"{label}{kind} {name} = {number}{options};"

    def _type(
        self,
        schema: ConnectSchema,
        name: str,
        defined: dict[str, Any],
        nested: list[str],
        indent: str,
        *,
        plain: bool,
    ) -> tuple[str, str]:
        """Return the type of a field, and its options."""
        kind, parameters = schema["type"], schema.get("parameters") or {}
        logical = schema.get("name")
        for message, known in LOGICAL.items():
            if logical == known and kind == _WIRE[known]:
                self._imports.add(_IMPORTS[known])
                given = {"precision": parameters.get(_PRECISION), "scale": parameters.get("scale")}
                return message, self._meta(given if known == DECIMAL else {})
        if kind == "map":
            parts = (schema["keys"], schema["values"])
            types = [self._type(one, name, defined, nested, indent, plain=True)[0] for one in parts]
            if types[0] not in ("int32", "int64", "bool", "string"):
                raise InvalidSchemaError(f"the keys of the map {name!r} cannot be {types[0]}")
            return f"map<{types[0]}, {types[1]}>", ""
        if kind == "struct":
            return self._nested(schema, name, defined, nested, indent), ""
        if _ENUM in parameters and kind in ("string", "int32"):
            return self._enum(parameters, defined, nested, indent), ""
        if kind == "array":
            raise InvalidSchemaError(f"the column {name!r} has lists in a map: Protobuf has none")
        if self._options.wrappers and schema.get("optional") and not plain:
            self._imports.add("google/protobuf/wrappers.proto")
            return f"google.protobuf.{_WRAPPER_OF[kind]}Value", ""
        small = {"connect.type": kind} if kind in ("int8", "int16") else {}
        return parameters.get(_TYPE, _FROM_CONNECT[kind]), self._meta(small)

    def _meta(self, parameters: Mapping[str, str | None]) -> str:
        pairs = [
            f'{{ key: "{key}", value: "{value}" }}'
            for key, value in parameters.items()
            if value is not None
        ]
        if not pairs:
            return ""
        self._imports.add("confluent/meta.proto")
        return f" [(confluent.field_meta) = {{ params: [{', '.join(pairs)}] }}]"

    def _nested(
        self,
        schema: ConnectSchema,
        name: str,
        defined: dict[str, Any],
        nested: list[str],
        indent: str,
    ) -> str:
        short = self._name_of(schema).rpartition(".")[2]
        if short == name:
            short += "Message"
        if short in defined:
            if defined[short] != schema["fields"]:
                raise InvalidSchemaError(f"two types are named {short}, and differ: rename one")
            return short
        defined[short] = schema["fields"]
        nested += self._message(short, schema, indent)
        return short

    def _enum(
        self,
        parameters: Mapping[str, str],
        defined: dict[str, Any],
        nested: list[str],
        indent: str,
    ) -> str:
        short, prefix = parameters[_ENUM].rpartition(".")[2], f"{_ENUM}."
        values = {k.removeprefix(prefix): v for k, v in parameters.items() if k.startswith(prefix)}
        if defined.setdefault(short, values) is values:
            lines = [f"{indent}  {name} = {number};" for name, number in values.items()]
            nested += [f"{indent}enum {short} {{", *lines, f"{indent}}}"]
        return short
