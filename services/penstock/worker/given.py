"""Rows that people write down, as Arrow: types are told by their values, or are declared."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from penstock.model.errors import ConfigError
from penstock.model.rehearsal import MOST_BYTES, MOST_ROWS, Given
from penstock.spark.ends import jsonlines
from penstock.transform import sql
from penstock.transform.functions.declared import declared


def rows_of(given: Given) -> pa.RecordBatch:
    """Return rows that are given. Their columns stand in the order in which they are met.

    Raises:
        ConfigError: `rehearsal.rows`: a row is no object, or a value not of its column's type;
            `rehearsal.too_much`.
    """
    size = sum(len(text.encode()) for text in given.rows)
    if len(given.rows) > MOST_ROWS or size > MOST_BYTES:
        raise ConfigError(
            "rehearsal.too_much",
            f"{len(given.rows)} rows of {size} bytes are given, {MOST_ROWS} of {MOST_BYTES} may be",
            fix="Choose the rows that show what the transforms do.",
        )
    rows = [_object(number, text) for number, text in enumerate(given.rows, 1)]
    names = dict.fromkeys(name for row in (*rows, given.columns) for name in row)
    fields = [_field(name, given, [row.get(name) for row in rows]) for name in names]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    try:
        return jsonlines.read(lines, pa.schema(fields))
    except jsonlines.NotRows as error:
        raise _wrong(str(error)) from None


def _object(number: int, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"row {number}: {error}") from None
    if not isinstance(row, dict):
        raise _wrong(f"row {number} is no object")
    return row


def _field(name: str, given: Given, values: list[Any]) -> pa.Field:
    if name in given.columns:
        text = f"{sql.name(name)} {given.columns[name]}"
        return declared(text, f"columns.{name}").field(0)
    try:
        type_ = pa.array(values).type
    except (pa.ArrowException, OverflowError) as error:
        raise _wrong(f"column {name!r}: {error}") from None
    return pa.field(name, pa.string() if pa.types.is_null(type_) else type_)


def _wrong(what: str) -> ConfigError:
    return ConfigError(
        "rehearsal.rows",
        f"these are no rows: {what}"[:1000],
        fix="Write each as an object, its values as JSON lines have them; `columns` names the type "
        "of those that need another one.",
    )
