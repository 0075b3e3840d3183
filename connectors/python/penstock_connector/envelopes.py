"""Debezium's envelopes as rows: `before`, `after`, `source`, `op`. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock_values.semantic_types import schema_name

_VALUE: Final = ".Value"
_ROWS: Final = ("before", "after")

UNWRAP: Final = (
    "Add the transform ExtractNewRecordState, or let the source give rows (output.format=penstock)."
)
"""What to do about them."""


def is_envelope(schema: pa.Schema) -> bool:
    """Return whether rows are envelopes: a sink that finds rows by a key would write the envelope
    of the last change, and not the row.
    """
    kinds = {field.name: field.type for field in schema}
    structs = {name for name, kind in kinds.items() if pa.types.is_struct(kind)}
    has_code = "op" in kinds and pa.types.is_string(kinds["op"])
    return has_code and "source" in structs and not structs.isdisjoint(_ROWS)


def envelope_name(schema: pa.Schema) -> str:
    """Return the name of the schema of envelopes, beside that of the rows in them: a consumer of
    Debezium knows envelopes by it. Empty for rows that are none, or whose source names nothing.
    """
    if not is_envelope(schema) or "after" not in schema.names:
        return ""
    name = schema_name(schema.field("after"))
    return f"{name.removesuffix(_VALUE)}.Envelope" if name.endswith(_VALUE) else ""
