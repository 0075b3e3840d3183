"""Schemas on the wire, decoded with bounds: the other side's schema is checked here before anything
uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

MAX_COLUMNS: Final = 10_000
MAX_NESTING: Final = 32
MAX_BYTES: Final = 8 << 20
"""Size of the Arrow IPC schema message; 10,000 columns with long names take about 2 MiB."""


class InvalidSchemaError(ValueError):
    """The bytes are not an acceptable schema. The text completes "the schema …"."""


def decode_schema(data: bytes) -> pa.Schema:
    """Return the schema of an Arrow IPC schema message.

    Raises:
        InvalidSchemaError: not an Arrow schema, too large, too deep, or a duplicate column name.
    """
    if len(data) > MAX_BYTES:
        raise InvalidSchemaError(f"is larger than {MAX_BYTES} bytes")
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        _check_schema(schema)  # Arrow decodes names on first use, so undecodable ones fail here
    except InvalidSchemaError:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise InvalidSchemaError(f"is not an Arrow IPC schema: {error}") from None
    return schema


def _check_schema(schema: pa.Schema) -> None:
    names: list[str] = schema.names
    if len(names) > MAX_COLUMNS:
        raise InvalidSchemaError(f"has {len(names)} columns, {MAX_COLUMNS} are allowed")
    if len(set(names)) != len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InvalidSchemaError(f"has the column {duplicate!r} twice")
    for depth in _iterate_depths(schema):
        if depth > MAX_NESTING:
            raise InvalidSchemaError(f"is nested deeper than {MAX_NESTING} levels")


def _iterate_depths(schema: pa.Schema) -> Iterator[int]:
    """Yield the depth of every nested type. Stops one level below the limit: bounded itself."""
    todo = [(1, field.type) for field in schema]
    while todo:
        depth, type_ = todo.pop()
        yield depth
        if depth <= MAX_NESTING:
            fields = [type_.field(i) for i in range(type_.num_fields)]
            children = [field.type for field in fields if field.name is not None]
            if pa.types.is_dictionary(type_):
                children.append(type_.value_type)
            todo.extend((depth + 1, child) for child in children)
