"""Values of rows as texts of fields. Pure.

| type | text |
|---|---|
| numbers, decimals | digits, the fewest that mean the number |
| booleans | `true`, `false` |
| texts, bytes | as they are |
| days, times of day, points in time | ISO 8601, points in time with a zone in UTC |
| lists, maps, structs | JSON |
| null | no field |
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_kind

from penstock_connector import SchemaError
from penstock_connector.tables.casting import cast_exactly, is_binary, plain


def require_text(field: pa.Field, dataset: str) -> None:
    """Refuse a column whose values have no text.

    Raises:
        SchemaError: `redis.column_type`.
    """
    kind = field.type
    if is_kind.is_duration(kind) or is_kind.is_interval(kind) or is_kind.is_union(kind):
        raise SchemaError(
            "redis.column_type",
            f"column {field.name!r} is {kind}, and values of that type have no text",
            fix="Make a number of it by the transform Cast, or leave it out by ReplaceField.",
            dataset=dataset,
        )


def texts_of(values: pa.Array) -> list[bytes | None]:
    """Return the text of each value; None for a null."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    values = plain(values)
    kind = values.type
    if is_binary(kind):
        return _listed(values)
    if is_kind.is_timestamp(kind):
        utc = values.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else values
        text = pc.replace_substring(utc.cast(pa.string()), " ", "T", max_replacements=1)
    elif is_kind.is_nested(kind):
        text = cast_exactly(values, pa.string(), "json", "UTC")
    else:
        text = values.cast(pa.string())
    return _listed(text.cast(pa.binary()))


def _listed(values: pa.Array) -> list[Any]:
    found: list[Any] = values.to_pylist()
    return found
