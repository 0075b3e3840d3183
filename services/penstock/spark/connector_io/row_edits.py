"""Edits of rows of dead letters: values that a user wrote, taken by the types of their columns."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind

from penstock.model.errors import ConfigError
from penstock.spark.connector_io import json_lines
from penstock_values.edits import fit_value

_MAX_COLUMNS: Final = 20
"""Columns of a row that an error names."""

_EXAMPLES: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (kind.is_integer, "12"),
    (kind.is_floating, "1.5"),
    (kind.is_boolean, "true"),
    (kind.is_decimal, "12.50"),
    (kind.is_date, "2024-12-31"),
    (lambda type_: kind.is_timestamp(type_) and type_.tz is not None, "2024-12-31T08:30:00Z"),
    (kind.is_timestamp, "2024-12-31T08:30:00"),
    (kind.is_time, "08:30:00"),
    (kind.is_duration, "1000"),
    (lambda type_: kind.is_binary(type_) or kind.is_large_binary(type_), "cGVuc3RvY2s="),
    (lambda type_: kind.is_list(type_) or kind.is_large_list(type_), "'[…]'"),
    (kind.is_struct, "'{…}'"),
    (kind.is_map, """'[{"key": …, "value": …}]'"""),
)
"""How a value of a type is written behind `--set COLUMN=`."""


def edit_row(
    row: str, changes: Mapping[str, Any], schema: pa.Schema, owner: str = "a dead letter"
) -> str:
    """Return a row, a JSON object, with changes applied; None removes a column's value. A value is
    taken by the type of its column. `owner` names the row in an error.

    Raises:
        ConfigError: `letters.bad_edit`: there is no such column, or it cannot have this value.
    """
    if not changes:
        return row
    columns = json.loads(row)
    for name, value in changes.items():
        if name not in schema.names:
            raise _no_column(name, schema, owner)
        columns[name] = _checked_value(value, schema.field(name), owner)
    kept = {name: value for name, value in columns.items() if value is not None}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _checked_value(value: Any, field: pa.Field, owner: str) -> Any:
    found = fit_value(value, field.type)
    line = json.dumps({field.name: found}, ensure_ascii=False)
    try:
        json_lines.parse_rows(f"{line}\n".encode(), pa.schema([field]))
    except json_lines.InvalidRowsError as error:
        raise _no_value(value, field, owner, error) from None
    return found


def _no_column(name: str, schema: pa.Schema, owner: str) -> ConfigError:
    near = difflib.get_close_matches(name, schema.names, n=1)
    columns = ", ".join(f"{field.name} {field.type}" for field in list(schema)[:_MAX_COLUMNS])
    return ConfigError(
        "letters.bad_edit",
        f"the row of {owner} has no column {name[:100]!r}",
        fix=(f"Did you mean {near[0]!r}? " if near else "") + f"Its columns: {columns[:500]}",
        config_path="replay.edits",
    )


def _no_value(value: Any, field: pa.Field, owner: str, why: Exception) -> ConfigError:
    example = next((text for is_one, text in _EXAMPLES if is_one(field.type)), "…")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ConfigError(
        "letters.bad_edit",
        f"the column {field.name!r} of {owner} is {field.type}, which {text[:100]!r} is not",
        fix=f"Write a value of its type: --set {field.name}={example}; or null for none.",
        config_path="replay.edits",
        detail=str(why)[:500],
    )
