"""Types of the values of headers, beside the rows that have their texts. Pure.

The column `__headers` of a row has texts. Where a transform or a converter knows what they are, the
semantic type of the column (`penstock_values.semantic_types`) says so, by the header's name:
`headers {"at": {"type": "int64", "optional": true}}`, with Kafka Connect's schemas in JSON. `*` is
for all other headers, and `"raw"` for bytes that are the text itself, not its base64.

A text that is not of its type, as where a predicate has let another header of the name pass, has
the type that it looks like.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from penstock_converters.connect_schema import InvalidSchemaError, to_arrow_field, to_connect_schema
from penstock_converters.headers.values import TIME

HeaderTypes = Mapping[str, pa.Field]

RAW: Final = pa.field("raw", pa.binary())
"""The type of a header whose text is its bytes."""

ALL: Final = "*"
"""Stands for the headers that have no type of their own."""

_PREFIX: Final = "headers "


def format_header_types(types: HeaderTypes) -> str:
    """Return the semantic type of the column of headers; empty where no type is known."""
    found = {name: "raw" if one is RAW else to_connect_schema(one) for name, one in types.items()}
    return _PREFIX + json.dumps(found, ensure_ascii=False) if found else ""


def parse_header_types(semantic_type: str) -> dict[str, pa.Field]:
    """Return the types that a semantic type names; none for another semantic type."""
    if not semantic_type.startswith(_PREFIX):
        return {}
    try:
        found = json.loads(semantic_type.removeprefix(_PREFIX))
        return {
            name: RAW if schema == "raw" else to_arrow_field(schema, "header")
            for name, schema in found.items()
        }
    except (ValueError, InvalidSchemaError, AttributeError):
        return {}


def with_header_types(semantic_type: str, types: Iterable[tuple[str, pa.Field | None]]) -> str:
    """Return the semantic type of headers of which some are set; None: a type that only a look at
    the text tells.
    """
    known = parse_header_types(semantic_type)
    for name, field in types:
        known.pop(name, None)
        if field is not None:
            known[name] = field
    return format_header_types(known)


def without_header_types(semantic_type: str, names: Iterable[str]) -> str:
    """Return the semantic type of headers of which some are dropped."""
    return with_header_types(semantic_type, ((name, None) for name in names))


def header_field(type_: pa.DataType, semantic_type: str) -> pa.Field | None:
    """Return the type of a header from a column of the engine, which holds times of day as texts or
    microseconds; None for a type that Kafka Connect does not have.
    """
    field = pa.field("header", TIME if semantic_type == "time" else type_)
    try:
        to_connect_schema(field)
    except InvalidSchemaError:
        return None
    return field
