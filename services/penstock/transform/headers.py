"""SQL expressions over the headers of rows: the column `__headers`, a map from names to bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from penstock.model.columns import HEADERS
from penstock.model.errors import ConfigError
from penstock.transform.change import OutputColumn
from penstock.transform.java.casts import format_text
from penstock.transform.row import Row
from penstock.transform.sql import literals

HEADERS_TYPE: Final = pa.map_(pa.string(), pa.binary())
_NO_HEADERS: Final = f"CAST(map() AS {literals.type_name(HEADERS_TYPE)})"


def remove_headers(names: Iterable[str]) -> OutputColumn:
    """Return the headers without those of the given names."""
    quoted_names = ", ".join(literals.literal(name) for name in names)
    text = f"map_filter({literals.name(HEADERS)}, (k, v) -> k NOT IN ({quoted_names}))"
    return OutputColumn(HEADERS, text, HEADERS_TYPE, certain=True)


def set_headers(row: Row, values: Iterable[tuple[str, str]]) -> OutputColumn:
    """Return the headers with new ones, given as (name, SQL expression of bytes). A new header
    replaces an existing one of the same name.
    """
    new = dict(values)
    pairs = ", ".join(f"{literals.literal(name)}, {text}" for name, text in new.items())
    existing = _NO_HEADERS
    if row.get(HEADERS) is not None:
        existing = f"coalesce({remove_headers(new).sql}, {_NO_HEADERS})"
    # a map with a duplicate key fails in Spark: such headers could not be distinguished
    return OutputColumn(HEADERS, f"map_concat({existing}, map({pairs}))", HEADERS_TYPE)


def format_header(field: OutputColumn, path: str) -> str:
    """Return the SQL expression of a header's bytes: the field as text in UTF-8, bytes as base64,
    lists, maps and structs as JSON. Null stays null.

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
    found = f"to_json({field.sql})" if text is None else text[0]
    return f"encode({found}, 'UTF-8')"
