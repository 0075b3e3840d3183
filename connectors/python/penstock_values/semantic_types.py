"""Semantic types of columns: what a value is, where Arrow or Spark has no type for it.

Spark and Delta have fewer types than databases: a UUID, a time of day, a decimal of 65 digits
travel as text. The semantic type of a field names it, as `{"penstock.type": "json"}` in
the field's metadata. A sink may use it to create a column of the same kind. It is never needed to
read a value, and it is the only field metadata that is carried from source to sink. (Transforms see
the defaults of the source's schema, too: `penstock.transform.defaults`.)
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

SEMANTIC_TYPE_KEY: Final = b"penstock.type"
"""Key of a field's metadata. Values: `decimal(p,s)`, `decimal`, `time`, `timetz`, `interval`,
`json`, `uuid`, `wkb`, `enum`, `year`, `bit(n)`, `xml`; of headers, `headers {…}`, their types
(`penstock_converters.headers.types`); of structs, `schema NAME`, the name that converters give
their schemas."""

_SCHEMA: Final = "schema "


def semantic_type(field: pa.Field) -> str:
    """Return the semantic type of a field; empty when its Arrow type is enough."""
    text: bytes = (field.metadata or {}).get(SEMANTIC_TYPE_KEY, b"")
    return text.decode("utf-8", "replace")


def with_schema_name(field: pa.Field, name: str) -> pa.Field:
    """Return the field of a struct whose schema has a name."""
    return field.with_metadata({SEMANTIC_TYPE_KEY: f"{_SCHEMA}{name}".encode()})


def schema_name(field: pa.Field) -> str:
    """Return the name of the schema of a struct; empty when it has none."""
    meant = semantic_type(field)
    return meant.removeprefix(_SCHEMA) if meant.startswith(_SCHEMA) else ""
