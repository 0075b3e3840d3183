"""Types of columns as those of the fields of an index. Pure.

A field's type decides how it is searched. What a document is read back as is its source: there,
values have all their digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from penstock_connector import SchemaError


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are texts."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values are bytes."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Return whether values are lists."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


_SIMPLE: Final[tuple[tuple[Any, str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "byte"),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), "short"),
    (lambda kind: pa.types.is_int32(kind) or pa.types.is_uint16(kind), "integer"),
    (lambda kind: pa.types.is_int64(kind) or pa.types.is_uint32(kind), "long"),
    (pa.types.is_uint64, "unsigned_long"),
    (lambda kind: pa.types.is_float16(kind) or pa.types.is_float32(kind), "float"),
    (lambda kind: pa.types.is_float64(kind) or pa.types.is_decimal(kind), "double"),
    (lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind), "date"),
    (pa.types.is_time, "keyword"),
    (is_bytes, "binary"),
)

_TEXT: Final = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
"""As the server itself makes a field of a text: for words, and for whole values."""


def mapping_of(kind: pa.DataType, name: str, *, compact_maps: bool) -> Mapping[str, Any] | None:
    """Return the field of a column; None: the server decides when the first value comes.

    Raises:
        SchemaError: `elasticsearch.type`: no document can have such values.
    """
    if is_list(kind) or pa.types.is_dictionary(kind):
        return mapping_of(kind.value_type, name, compact_maps=compact_maps)
    if pa.types.is_struct(kind):
        return {"properties": properties_of(kind, compact_maps=compact_maps)}
    if pa.types.is_map(kind):
        return _map_mapping(kind, name, compact_maps=compact_maps)
    if is_text(kind):
        return _TEXT
    native = next((native for is_kind, native in _SIMPLE if is_kind(kind)), "")
    if native or pa.types.is_null(kind):
        return {"type": native} if native else None
    raise SchemaError(
        "elasticsearch.type",
        f"column {name!r} is of type {kind}, which documents do not have",
        fix="Leave it out, or change its type: the transforms ReplaceField and Cast do.",
    )


def _map_mapping(kind: pa.MapType, name: str, *, compact_maps: bool) -> Mapping[str, Any]:
    value = mapping_of(kind.item_type, name, compact_maps=compact_maps)
    if compact_maps and is_text(kind.key_type):
        return {"type": "object"}
    key = mapping_of(kind.key_type, name, compact_maps=compact_maps)
    fields = {"key": key, "value": value}
    return {"properties": {part: one for part, one in fields.items() if one is not None}}


def properties_of(
    fields: pa.Schema | pa.StructType, *, compact_maps: bool
) -> dict[str, Mapping[str, Any]]:
    """Return the fields of columns, by name. Columns that begin with two underscores are about the
    row, and in no document.
    """
    found = {
        field.name: mapping_of(field.type, field.name, compact_maps=compact_maps)
        for field in fields
        if not field.name.startswith("__")
    }
    return {name: mapping for name, mapping in found.items() if mapping is not None}
