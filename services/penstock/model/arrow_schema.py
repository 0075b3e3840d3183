"""Arrow schemas that a plugin sends, decoded and checked before anything uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

MAX_COLUMNS: Final = 10_000
MAX_NESTING: Final = 32
MAX_BYTES: Final = 8 << 20
"""Of the Arrow IPC schema message; 10,000 columns with long names take about 2 MiB."""


class BadSchemaError(ValueError):
    """The bytes are not a schema that is taken; the text completes "the schema …"."""


def decode_schema(data: bytes) -> pa.Schema:
    """Return the schema of an Arrow IPC schema message.

    Raises:
        BadSchemaError: it is no schema, too large, too deep, or two columns have one name.
    """
    if len(data) > MAX_BYTES:
        raise BadSchemaError(f"is larger than {MAX_BYTES} bytes")
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        _check(schema)  # Arrow decodes names when they are looked at, not before
    except BadSchemaError:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise BadSchemaError(f"is no Arrow IPC schema: {error}") from None
    return schema


def _check(schema: pa.Schema) -> None:
    names: list[str] = schema.names
    if len(names) > MAX_COLUMNS:
        raise BadSchemaError(f"has {len(names)} columns, {MAX_COLUMNS} are allowed")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadSchemaError(f"has the column {twice!r} twice")
    for depth, _ in _walk(schema):
        if depth > MAX_NESTING:
            raise BadSchemaError(f"is nested deeper than {MAX_NESTING} levels")


def _walk(schema: pa.Schema) -> Iterator[tuple[int, pa.DataType]]:
    """Yield every type with its depth; stops one below the limit, so it is bounded itself."""
    todo = [(1, field.type) for field in schema]
    while todo:
        depth, type_ = todo.pop()
        yield depth, type_
        if depth <= MAX_NESTING:
            fields = [type_.field(i) for i in range(type_.num_fields)]
            children = [field.type for field in fields if field.name is not None]
            if pa.types.is_dictionary(type_):
                children.append(type_.value_type)
            todo.extend((depth + 1, child) for child in children)
