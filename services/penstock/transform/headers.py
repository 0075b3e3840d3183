"""Headers of rows: a map from names to bytes in the column `__headers`, one value for a name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from penstock.model.columns import HEADERS
from penstock.model.errors import ConfigError
from penstock.transform.change import Output
from penstock.transform.java.casts import as_text
from penstock.transform.row import Row
from penstock.transform.sql import quoting

TYPE: Final = pa.map_(pa.string(), pa.binary())
_NONE: Final = f"CAST(map() AS {quoting.type_name(TYPE)})"


def without(names: Iterable[str]) -> Output:
    """Return the headers but those of some names."""
    listed = ", ".join(quoting.literal(name) for name in names)
    text = f"map_filter({quoting.name(HEADERS)}, (k, v) -> k NOT IN ({listed}))"
    return Output(HEADERS, text, TYPE, certain=True)


def with_values(row: Row, values: Iterable[tuple[str, str]]) -> Output:
    """Return the headers with new ones, names and SQL of bytes: each in place of those that have
    its name.
    """
    new = dict(values)
    pairs = ", ".join(f"{quoting.literal(name)}, {text}" for name, text in new.items())
    there = _NONE
    if row.get(HEADERS) is not None:
        there = f"coalesce({without(new).sql}, {_NONE})"
    # a map that has a key twice comes from no header that can be told apart: such a row fails
    return Output(HEADERS, f"map_concat({there}, map({pairs}))", TYPE)


def as_header(field: Output, path: str) -> str:
    """Return a field as the bytes of a header: its text in UTF-8, bytes as base64, what has parts
    as JSON. Null stays null.

    Raises:
        ConfigError: only Spark knows the type of the field.
    """
    if field.type is None:
        raise ConfigError(
            "transform.unknown_type",
            f"the type of `{field.name}` is known to Spark only",
            fix="Use Cast before it.",
            config_path=path,
        )
    text = as_text(field.sql, field.type, field.meaning)
    found = f"to_json({field.sql})" if text is None else text[0]
    return f"encode({found}, 'UTF-8')"
