"""Arrow schemas of foreign plugins, decoded and checked before anything uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from penstock.api.record.v1 import record_pb2 as pb
from penstock.model import columns
from penstock.model.stream import StreamSchema
from penstock.plugin.escape import printable
from penstock.plugin.failures import violation

MOST_COLUMNS: Final = 10_000
MOST_NESTING: Final = 32
MOST_BYTES: Final = 8 << 20
"""Of the Arrow IPC schema message; 10,000 columns with long names take about 2 MiB."""

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
    if len(message.arrow_schema) > MOST_BYTES:
        raise _bad(message, f"is larger than {MOST_BYTES} bytes")
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message.arrow_schema))
        _check(message, schema)  # Arrow decodes names when they are looked at, not before
    except (pa.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
        raise _bad(message, f"is no Arrow IPC schema: {printable(str(error), 200)}") from None
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
    if len(names) > MOST_COLUMNS:
        raise _bad(message, f"has {len(names)} columns, {MOST_COLUMNS} are allowed")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise _bad(message, f"has the column {printable(twice, 100)!r} twice")
    for depth, _ in _walk(schema):
        if depth > MOST_NESTING:
            raise _bad(message, f"is nested deeper than {MOST_NESTING} levels")
    for key in message.key_columns:
        if key not in names:
            raise _bad(message, f"names the key column {printable(key, 100)!r}, which it has not")
    for name, types in _RESERVED_TYPES.items():
        if name in names and schema.field(name).type not in types:
            raise _bad(message, f"has {name} as {schema.field(name).type}, not {types[0]} (R20)")


def _walk(schema: pa.Schema) -> Iterator[tuple[int, pa.DataType]]:
    """Yield every type with its depth; stops one below the limit, so it is bounded itself."""
    todo = [(1, field.type) for field in schema]
    while todo:
        depth, type_ = todo.pop()
        yield depth, type_
        if depth <= MOST_NESTING:
            fields = [type_.field(i) for i in range(type_.num_fields)]
            children = [field.type for field in fields if field.name is not None]
            if pa.types.is_dictionary(type_):
                children.append(type_.value_type)
            todo.extend((depth + 1, child) for child in children)


def _bad(message: pb.Schema, why: str) -> Exception:
    return violation(
        "bad_schema", f"schema {message.schema_id} of {printable(message.dataset, 200)!r} {why}"
    )
