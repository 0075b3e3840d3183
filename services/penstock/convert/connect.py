"""Kafka Connect's schemas as JSON ↔ Arrow fields. Pure.

What Arrow has no word for (name, version, documentation, parameters, default) rides in the field's
metadata, so that a schema comes back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

Schema = Mapping[str, Any]

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"

_PRECISION: Final = "connect.decimal.precision"
_WORDS: Final = ("name", "version", "doc", "parameters", "default")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(),
    "int64": pa.int64(), "float": pa.float32(), "double": pa.float64(), "bytes": pa.binary(),
    "string": pa.string(),
}  # fmt: skip
_NAMES: Final[Mapping[pa.DataType, str]] = {
    **{kind: name for name, kind in _TYPES.items()},
    pa.uint8(): "int16", pa.uint16(): "int32", pa.uint32(): "int64", pa.float16(): "float",
    pa.large_string(): "string", pa.string_view(): "string", pa.large_binary(): "bytes",
    pa.binary_view(): "bytes",
}  # fmt: skip
_LOGICAL: Final[Mapping[tuple[Any, Any], pa.DataType]] = {
    (DATE, "int32"): pa.date32(),
    (TIME, "int32"): pa.time32("ms"),
    (TIMESTAMP, "int64"): pa.timestamp("ms", "UTC"),
}


class NotASchemaError(ValueError):
    """A text is no schema of Kafka Connect, or a type has none."""


def field_of(schema: Any, name: str = "value") -> pa.Field:
    """Return the Arrow field of a schema.

    Raises:
        NotASchemaError: it is none.
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        raise NotASchemaError("a schema must have a 'type'")
    if not isinstance(schema.get("name", ""), str | None):
        raise NotASchemaError("the 'name' of a schema must be a text")
    words = {
        f"connect.{word}": json.dumps(schema[word], ensure_ascii=False)
        for word in _WORDS
        if schema.get(word) is not None
    }
    return pa.field(name, _type_of(schema), schema.get("optional") is True, words or None)


def logical_name(schema: Schema) -> str:
    """Return the name of the logical type that a schema has; "" for a plain one. A name alone makes
    none: its type has to be that which Kafka Connect gives it.
    """
    kind, name = schema["type"], schema.get("name")
    is_one = (name, kind) == (DECIMAL, "bytes") or (name, kind) in _LOGICAL
    return str(name) if is_one else ""


def _type_of(schema: Schema) -> pa.DataType:
    kind, name = schema["type"], logical_name(schema)
    if name:
        return _decimal(schema) if name == DECIMAL else _LOGICAL[name, kind]
    if kind in _TYPES:
        return _TYPES[kind]
    match kind:
        case "array":
            return pa.list_(field_of(schema.get("items"), "item"))
        case "map":
            key = field_of(schema.get("keys"), "key").with_nullable(False)
            return pa.map_(key, field_of(schema.get("values"), "value"))
        case "struct":
            return pa.struct([field_of(item, _name_of(item)) for item in _fields(schema)])
    raise NotASchemaError(f"unknown type {kind!r}")


def _fields(schema: Schema) -> list[Any]:
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise NotASchemaError("the 'fields' of a struct must be a list")
    return fields


def _name_of(item: Any) -> str:
    if not isinstance(item, dict) or not isinstance(item.get("field"), str):
        raise NotASchemaError("a field of a struct has no name in 'field'")
    name: str = item["field"]
    return name


def _decimal(schema: Schema) -> pa.DataType:
    try:
        given = schema["parameters"]
        scale = int(given["scale"])
        precision = int(given.get(_PRECISION, 38))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise NotASchemaError("a Decimal has no parameter 'scale'") from None
    precision = max(precision, scale, 1) if precision <= 76 else 76
    if scale > 76 or scale < -76:
        raise NotASchemaError(f"a scale of {scale} is beyond what columns can hold")
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def schema_of(field: pa.Field) -> dict[str, Any]:
    """Return Kafka Connect's schema of a field, its words in the order in which Kafka writes them.

    Raises:
        NotASchemaError: Kafka Connect has no such type.
    """
    words = _words(field)
    schema, logical = _described(field.type)
    schema["optional"] = field.nullable
    return schema | logical | words


def _words(field: pa.Field) -> dict[str, Any]:
    given = field.metadata or {}
    found = {word: given.get(f"connect.{word}".encode()) for word in _WORDS}
    return {word: json.loads(text) for word, text in found.items() if text is not None}


def _described(kind: pa.DataType) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return type and parts of a type, and what makes it a logical one."""
    if kind in _NAMES:
        return {"type": _NAMES[kind]}, {}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "bytes"}, {}
    if pa.types.is_decimal(kind) or kind == pa.uint64():
        scale, precision = (kind.scale, kind.precision) if kind != pa.uint64() else (0, 20)
        parameters = {"scale": str(scale), _PRECISION: str(precision)}
        return {"type": "bytes"}, {"name": DECIMAL, "version": 1, "parameters": parameters}
    for is_kind, name, wire in (
        (pa.types.is_date, DATE, "int32"),
        (pa.types.is_time, TIME, "int32"),
        (pa.types.is_timestamp, TIMESTAMP, "int64"),
    ):
        if is_kind(kind):
            return {"type": wire}, {"name": name, "version": 1}
    return _nested(kind), {}


def _nested(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_map(kind):
        parts = {"keys": schema_of(kind.key_field), "values": schema_of(kind.item_field)}
        return {"type": "map", **parts}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [schema_of(f) | {"field": f.name} for f in kind]}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return {"type": "array", "items": schema_of(kind.value_field)}
    raise NotASchemaError(f"Kafka Connect has no type for {kind}")
