"""Semantic types of columns: what a value is, where Arrow or Spark has no type for it.

Spark and Delta have fewer types than databases: a UUID, a time of day, a decimal of 65 digits
travel as text. The semantic type of a field names it, as `{"penstock.type": "json"}` in
the field's metadata. A sink may use it to create a column of the same kind. It is never needed to
read a value, and it is the only field metadata that is carried from source to sink. (Transforms see
the defaults of the source's schema, too: `penstock.transform.defaults`.)
"""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa

SEMANTIC_TYPE_KEY: Final = b"penstock.type"
"""Key of a field's metadata. Values: `decimal(p,s)`, `decimal`, `time`, `timetz`, `interval`,
`json`, `uuid`, `wkb`, `enum`, `year`, `bit(n)`, `xml`; of headers, `headers {…}`, their types
(`penstock_converters.headers.types`); `schema NAME`, the name that converters give their schemas,
of structs with those of their fields behind it, as JSON in a line of its own: only the metadata of
columns is carried."""

_SCHEMA: Final = "schema "
_FIELDS: Final = "\n{"


def semantic_type(field: pa.Field) -> str:
    """Return the semantic type of a field; empty when its Arrow type is enough."""
    text: bytes = (field.metadata or {}).get(SEMANTIC_TYPE_KEY, b"")
    return text.decode("utf-8", "replace")


def with_schema_name(field: pa.Field, name: str) -> pa.Field:
    """Return a field whose schema has a name; a struct tells those of its fields, too."""
    fields: dict[str, str] = {}
    if pa.types.is_struct(field.type):
        fields = {one.name: found for one in field.type if (found := schema_name(one))}
    more = "\n" + json.dumps(fields, separators=(",", ":")) if fields else ""
    return field.with_metadata({SEMANTIC_TYPE_KEY: f"{_SCHEMA}{name}{more}".encode()})


def schema_name(field: pa.Field) -> str:
    """Return the name of the schema of a field; empty when it has none."""
    meant = semantic_type(field)
    if not meant.startswith(_SCHEMA):
        return ""
    return meant.removeprefix(_SCHEMA).partition(_FIELDS)[0]


def schema_names_of_fields(field: pa.Field) -> dict[str, str]:
    """Return the names of the schemas of a struct's fields, as far as it tells them."""
    _, found, fields = semantic_type(field).partition(_FIELDS)
    try:
        names = json.loads("{" + fields) if found else {}
    except ValueError:
        return {}
    return {str(name): str(of) for name, of in names.items()}
