"""Defaults of Kafka Connect's schemas, which `replace.null.with.default` puts in place of nulls.

Converters keep the default of a field as JSON in its metadata (`connect.default`). The engine's own
schemas have no such metadata, so `copy_defaults` gives it to the schema for which a chain is
compiled. A default is a constant of the compiled chain: rows carry none, and neither do sinks.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind

from penstock.transform.row import Default, Row
from penstock.transform.sql import literals
from penstock_values.semantic_types import semantic_type

DEFAULT_KEY: Final = b"connect.default"
"""Key of a field's metadata: its default as Kafka's JsonConverter writes it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def copy_defaults(schema: pa.Schema, of: pa.Schema) -> pa.Schema:
    """Return the schema with the defaults of another one that has the same fields."""
    return pa.schema([_with_default(*pair) for pair in zip(schema, of, strict=True)])


def _with_default(field: pa.Field, of: pa.Field) -> pa.Field:
    if kind.is_struct(field.type) and kind.is_struct(of.type):
        inner = [_with_default(*pair) for pair in zip(field.type, of.type, strict=True)]
        field = field.with_type(pa.struct(inner))
    text = (of.metadata or {}).get(DEFAULT_KEY)
    return field if text is None else field.with_metadata((field.metadata or {}) | default_of(text))


def default_of(text: bytes) -> dict[bytes, bytes]:
    """Return the metadata of a field with this default."""
    return {DEFAULT_KEY: text}


def with_defaults(row: Row, schema: pa.Schema) -> Row:
    """Return the columns of a schema with its defaults."""
    pairs = zip(row.columns, schema, strict=True)
    return Row(tuple(replace(column, default=read_default(field)) for column, field in pairs))


def read_default(field: pa.Field) -> Default | None:
    """Return the default of a field; None where it has none, or one that is not of its type."""
    text = (field.metadata or {}).get(DEFAULT_KEY)
    if text is None:
        return None
    try:
        value = json.loads(text)
        if value is None:
            return None
        if semantic_type(field) == "time":
            value = _time_text(value) if kind.is_string(field.type) else int(value) * 1000
        found = pa.scalar(_read(value, field.type), field.type)
        return Default(_format(found), found, text)
    except (ValueError, TypeError, KeyError, OverflowError, InvalidOperation, pa.ArrowException):
        return None


def _time_text(milliseconds: int) -> str:
    """Return a time of day as the engine writes it."""
    found: time = (_EPOCH + timedelta(milliseconds=milliseconds)).time()
    return found.isoformat("microseconds")


def _read(value: Any, type_: pa.DataType) -> Any:
    """Return a value in JSON as Arrow takes it. Dates are days, times milliseconds."""
    if value is None:
        return None
    if kind.is_binary(type_):
        return _read_base64(value)
    if kind.is_decimal(type_):
        whole = int.from_bytes(_read_base64(value), "big", signed=True)
        return Decimal(whole).scaleb(-type_.scale)
    if kind.is_timestamp(type_):
        return int(value) * 1000
    if kind.is_floating(type_):
        return float(value)
    return _read_nested(value, type_) if kind.is_nested(type_) else value


def _read_nested(value: Any, type_: pa.DataType) -> Any:
    if kind.is_list(type_):
        return [_read(one, type_.value_type) for one in value]
    if kind.is_map(type_):  # pairs, where the keys are no texts
        pairs = value.items() if isinstance(value, dict) else value
        return [(_read(k, type_.key_type), _read(v, type_.item_type)) for k, v in pairs]
    return {field.name: _read(value.get(field.name), field.type) for field in type_}


def _read_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _format(value: pa.Scalar) -> str:
    """Return a value as an SQL expression of its type."""
    type_ = value.type
    name = literals.type_name(type_)
    if not value.is_valid:
        return f"CAST(NULL AS {name})"
    if kind.is_string(type_):
        return literals.literal(value.as_py())
    if kind.is_binary(type_):
        return f"X'{value.as_py().hex()}'"
    if kind.is_date(type_):
        return f"date_from_unix_date({value.value})"
    if kind.is_timestamp(type_):
        return f"CAST(timestamp_micros({value.value}L) AS {name})"
    if kind.is_nested(type_):
        return f"CAST({_format_nested(value)} AS {name})"
    return f"CAST({literals.literal(str(value.as_py()))} AS {name})"


def _format_nested(value: pa.Scalar) -> str:
    if kind.is_map(value.type):
        pairs = [part for k, v in zip(value.values.field(0), value.values.field(1), strict=True)
                 for part in (_format(k), _format(v))]  # fmt: skip
        return f"map({', '.join(pairs)})"
    if kind.is_list(value.type):
        return f"array({', '.join(map(_format, value.values))})"
    pairs = [f"{literals.literal(key)}, {_format(one)}" for key, one in value.items()]
    return f"named_struct({', '.join(pairs)})"
