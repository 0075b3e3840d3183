"""SQL expressions over the headers of rows: the column `__headers`, a map from names to bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.model.columns import HEADERS
from penstock.model.errors import ConfigError
from penstock.transform.change import OutputColumn
from penstock.transform.java.casts import format_text
from penstock.transform.row import Row
from penstock.transform.sql import literals
from penstock_converters.header_types import header_field, with_header_types, without_header_types
from penstock_converters.header_values import parse_literal

JAVA_SPACE: Final = "".join(map(chr, range(33)))
"""What Java's `String.trim` removes, as Kafka does from values of keys."""

HEADERS_TYPE: Final = pa.map_(pa.string(), pa.binary())
_NO_HEADERS: Final = f"CAST(map() AS {literals.type_name(HEADERS_TYPE)})"


def remove_headers(row: Row, names: Sequence[str]) -> OutputColumn:
    """Return the headers of rows that have some, without those of the given names."""
    quoted_names = ", ".join(literals.literal(name) for name in names)
    text = f"map_filter({literals.name(HEADERS)}, (k, v) -> k NOT IN ({quoted_names}))"
    types = without_header_types(_types(row), names)
    return OutputColumn(HEADERS, text, HEADERS_TYPE, certain=True, semantic_type=types)


@dataclass(frozen=True, slots=True)
class HeaderValue:
    """A value for a header: the SQL expression of its bytes, and its type, where one is known."""

    sql: str
    type: pa.Field | None = None


def set_headers(row: Row, values: Iterable[tuple[str, HeaderValue]]) -> OutputColumn:
    """Return the headers with new ones, by name. A new header replaces an existing one of the same
    name.
    """
    new = dict(values)
    pairs = ", ".join(f"{literals.literal(name)}, {value.sql}" for name, value in new.items())
    existing = _NO_HEADERS
    if row.get(HEADERS) is not None:
        existing = f"coalesce({remove_headers(row, tuple(new)).sql}, {_NO_HEADERS})"
    types = with_header_types(_types(row), ((name, value.type) for name, value in new.items()))
    # a map with a duplicate key fails in Spark: such headers could not be distinguished
    text = f"map_concat({existing}, map({pairs}))"
    return OutputColumn(HEADERS, text, HEADERS_TYPE, semantic_type=types)


def _types(row: Row) -> str:
    column = row.get(HEADERS)
    return "" if column is None else column.semantic_type


def parse_header(text: str) -> HeaderValue:
    """Return the value that Kafka Connect reads from a text, as text again."""
    value = parse_literal(text.strip(JAVA_SPACE))
    if value.value is None:
        return HeaderValue("CAST(NULL AS BINARY)")
    return HeaderValue(f"encode({literals.literal(value.row_text)}, 'UTF-8')", value.field)


def format_header(field: OutputColumn, path: str) -> HeaderValue:
    """Return the value of a header: the field as text in UTF-8, bytes as base64, lists, maps and
    structs as JSON. Null stays null.

    Raises:
        ConfigError: `transform.unknown_type`: only Spark knows the type of the field.
    """
    if field.type is None:
        raise ConfigError(
            "transform.unknown_type",
            f"the type of `{field.name}` is known only to Spark",
            fix="Use Cast before this transform.",
            config_path=path,
        )
    text = format_text(field.sql, field.type, field.semantic_type)
    found = text[0] if text else f"to_json({field.sql}, map('ignoreNullFields', 'false'))"
    return HeaderValue(f"encode({found}, 'UTF-8')", header_field(field.type, field.semantic_type))
