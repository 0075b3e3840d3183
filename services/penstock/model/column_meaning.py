"""What a column's values mean where their type cannot tell: `{"penstock.type": "json"}` in the
metadata of its field.

Spark and Delta have fewer types than databases: a UUID, a time of day, a decimal of 65 digits
travel as text. The metadata lets a sink make a column of the same kind. It is a help, never needed
to read a value, and the only metadata of a field that is carried from end to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

KEY: Final = b"penstock.type"


def meaning(field: pa.Field) -> str:
    """Return what a field tells of its values; empty when its type says all."""
    text: bytes = (field.metadata or {}).get(KEY, b"")
    return text.decode("utf-8", "replace")


def with_meaning(field: pa.Field, of: pa.Field) -> pa.Field:
    """Return a field that means what another one means, and has no other metadata."""
    meaning = (of.metadata or {}).get(KEY)
    return field.with_metadata({KEY: meaning}) if meaning else field.remove_metadata()


def with_meanings(schema: pa.Schema, of: pa.Schema) -> pa.Schema:
    """Return a schema whose fields mean what those of the same name and type mean in another."""
    known = {field.name: field for field in of}
    fields = []
    for field in schema:
        other = known.get(field.name)
        same = other is not None and other.type == field.type
        fields.append(with_meaning(field, other) if same else field)
    return pa.schema(fields)


def meaning_that(schema: pa.Schema, meanings: Mapping[str, str]) -> pa.Schema:
    """Return a schema whose fields of these names mean this, and the others nothing more than
    their type says.
    """
    fields = [
        field.with_metadata({KEY: meanings[field.name].encode()})
        if field.name in meanings
        else field.remove_metadata()
        for field in schema
    ]
    return pa.schema(fields)
