"""Converts Kafka Connect's schemas in JSON to Arrow fields, and back. Pure.

Schema fields that Arrow lacks (name, version, documentation, parameters, default) are kept in the
field's metadata, so that a schema comes back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

ConnectSchema = Mapping[str, Any]

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"

OPEN_MESSAGING: Final = "io.openmessaging.connector.api.data.logical."
"""What RocketMQ Connect has in front of the names of its logical types, which are the same."""

_PRECISION: Final = "connect.decimal.precision"
_METADATA_KEYS: Final = ("name", "version", "doc", "parameters", "default")
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


_LOGICAL_NAMES: Final = (DECIMAL, DATE, TIME, TIMESTAMP)
_SCHEMA_KEYS: Final = frozenset({"fields", "items", "keys", "values"})
"""Keys of a schema whose values are schemas."""


class InvalidSchemaError(ValueError):
    """A text is not a schema of Kafka Connect, or an Arrow type has none."""


def to_arrow_field(schema: Any, name: str = "value") -> pa.Field:
    """Return the Arrow field of a schema.

    Raises:
        InvalidSchemaError: it is not a schema.
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        raise InvalidSchemaError("a schema must have a 'type'")
    if not isinstance(schema.get("name", ""), str | None):
        raise InvalidSchemaError("the 'name' of a schema must be a text")
    metadata = {
        f"connect.{key}": json.dumps(schema[key], ensure_ascii=False)
        for key in _METADATA_KEYS
        if schema.get(key) is not None
    }
    return pa.field(name, _arrow_type(schema), schema.get("optional") is True, metadata or None)


def to_kafka_names(schema: Any) -> Any:
    """Return a schema with Kafka Connect's names for the logical types of RocketMQ Connect."""
    return _with_names(schema, {_open_messaging_name(name): name for name in _LOGICAL_NAMES})


def to_rocketmq_names(schema: Any) -> Any:
    """Return a schema with RocketMQ Connect's names for the logical types of Kafka Connect."""
    return _with_names(schema, {name: _open_messaging_name(name) for name in _LOGICAL_NAMES})


def _open_messaging_name(name: str) -> str:
    return OPEN_MESSAGING + name.rpartition(".")[2]


def _with_names(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_with_names(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: _with_names(value, names) if key in _SCHEMA_KEYS else value
        for key, value in schema.items()
    }
    if isinstance(name := found.get("name"), str) and name in names:
        found["name"] = names[name]
    return found


def logical_name(schema: ConnectSchema) -> str:
    """Return the name of a schema's logical type; "" for none. The name alone does not make one:
    its type must be the one that Kafka Connect gives it.
    """
    kind, name = schema["type"], schema.get("name")
    is_one = (name, kind) == (DECIMAL, "bytes") or (name, kind) in _LOGICAL
    return str(name) if is_one else ""


def _arrow_type(schema: ConnectSchema) -> pa.DataType:
    kind, name = schema["type"], logical_name(schema)
    if name:
        return _decimal_type(schema) if name == DECIMAL else _LOGICAL[name, kind]
    if kind in _TYPES:
        return _TYPES[kind]
    match kind:
        case "array":
            return pa.list_(to_arrow_field(schema.get("items"), "item"))
        case "map":
            key = to_arrow_field(schema.get("keys"), "key").with_nullable(False)
            return pa.map_(key, to_arrow_field(schema.get("values"), "value"))
        case "struct":
            return pa.struct([to_arrow_field(item, _field_name(item)) for item in _fields(schema)])
    raise InvalidSchemaError(f"unknown type {kind!r}")


def _fields(schema: ConnectSchema) -> list[Any]:
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise InvalidSchemaError("the 'fields' of a struct must be a list")
    return fields


def _field_name(item: Any) -> str:
    if not isinstance(item, dict) or not isinstance(item.get("field"), str):
        raise InvalidSchemaError("a field of a struct must have its name in 'field'")
    name: str = item["field"]
    return name


def _decimal_type(schema: ConnectSchema) -> pa.DataType:
    try:
        parameters = schema["parameters"]
        scale = int(parameters["scale"])
        precision = int(parameters.get(_PRECISION, 38))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InvalidSchemaError(
            "a Decimal must have the parameter 'scale', a whole number"
        ) from None
    precision = max(precision, scale, 1) if precision <= 76 else 76
    if scale > 76 or scale < -76:
        raise InvalidSchemaError(f"a scale of {scale} is not supported: it must be from -76 to 76")
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def to_connect_schema(field: pa.Field) -> dict[str, Any]:
    """Return Kafka Connect's schema of a field, its keys in the order in which Kafka writes them.

    Raises:
        InvalidSchemaError: Kafka Connect has no such type.
    """
    metadata = _read_metadata(field)
    schema, logical = _split_type(field.type)
    schema["optional"] = field.nullable
    return schema | logical | metadata


def _read_metadata(field: pa.Field) -> dict[str, Any]:
    metadata = field.metadata or {}
    found = {key: metadata.get(f"connect.{key}".encode()) for key in _METADATA_KEYS}
    return {key: json.loads(text) for key, text in found.items() if text is not None}


def _split_type(kind: pa.DataType) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of an Arrow type, and the keys that make it a logical type."""
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
    return _nested_schema(kind), {}


def _nested_schema(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_map(kind):
        parts = {
            "keys": to_connect_schema(kind.key_field),
            "values": to_connect_schema(kind.item_field),
        }
        return {"type": "map", **parts}
    if pa.types.is_struct(kind):
        return {
            "type": "struct",
            "fields": [to_connect_schema(f) | {"field": f.name} for f in kind],
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return {"type": "array", "items": to_connect_schema(kind.value_field)}
    raise InvalidSchemaError(f"Kafka Connect has no type for the Arrow type {kind}")
