"""Schemas of foreign plugins: the Arrow schema, its key columns, its reserved columns."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.api.record.v1 import record_pb2 as pb
from penstock.model import columns
from penstock.model.arrow_schema import BadSchemaError, decode_schema
from penstock.model.stream import StreamSchema
from penstock.plugin.errors import printable, violation

_RESERVED_TYPES: Final = {
    columns.OP: (pa.int8(),),
    columns.TS_US: (pa.int64(),),
    columns.HEADERS: (pa.map_(pa.string(), pa.binary()),),
    columns.OFFSET: (pa.binary(), pa.large_binary()),
    columns.RAW_KEY: (pa.binary(), pa.large_binary()),
    columns.RAW_VALUE: (pa.binary(), pa.large_binary()),
}


def from_proto(message: pb.Schema) -> StreamSchema:
    """Return the schema in a frame.

    Raises:
        InternalError: `plugin.protocol.bad_schema`.
    """
    try:
        schema = decode_schema(message.arrow_schema)
    except BadSchemaError as error:
        raise _bad(message, printable(str(error), 200)) from None
    _check(message, schema)
    return StreamSchema(message.schema_id, message.dataset, schema, tuple(message.key_columns))


def to_proto(schema: StreamSchema) -> pb.Schema:
    """Return the frame for a schema."""
    return pb.Schema(
        schema_id=schema.schema_id,
        dataset=schema.dataset,
        arrow_schema=schema.arrow.serialize().to_pybytes(),
        key_columns=schema.key_columns,
    )


def _check(message: pb.Schema, schema: pa.Schema) -> None:
    names: list[str] = schema.names
    for key in message.key_columns:
        if key not in names:
            raise _bad(message, f"names the key column {printable(key, 100)!r}, which it has not")
    for name, types in _RESERVED_TYPES.items():
        if name in names and schema.field(name).type not in types:
            raise _bad(message, f"has {name} as {schema.field(name).type}, not {types[0]} (R20)")


def _bad(message: pb.Schema, why: str) -> Exception:
    return violation(
        "bad_schema", f"schema {message.schema_id} of {printable(message.dataset, 200)!r} {why}"
    )
