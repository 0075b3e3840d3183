"""Rows that could not be read, read again from their bytes: as they are, or as a user corrected
them. Pure, but for what learns the columns.

The bytes are a line of the answer, or a row of it as JSON. Where `columns` declares no types, a row
gets those that the present answer has, so that it has the columns of its neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock_connector import Batch, ConnectorError, DataError, RawRow
from penstock_net.http_source.columns import Columns, Row, declared
from penstock_net.http_source.config import HttpSourceConfig
from penstock_net.http_source.converting import MESSAGE, MessageColumns
from penstock_net.http_source.pointer import MISSING, Pointer
from penstock_values.edits import fit_value


def parse_raw_rows(
    config: HttpSourceConfig,
    columns: Columns | MessageColumns,
    rows: Sequence[RawRow],
    learn: Callable[[], Sequence[Row]],
) -> Iterator[Batch | ConnectorError]:
    """Yield the batch of each row, or why its bytes are not a row.

    `learn` returns the rows of the present answer. It is called where their columns are not
    declared.
    """
    types = {name: kind for name, (kind, _) in declared(config.columns).items()}
    if isinstance(columns, Columns) and not types:
        with suppress(
            DataError
        ):  # the answer has no columns now: those of the row are all there are
            if neighbours := learn():
                known, _ = columns.of(neighbours)
                types = {field.name: field.type for field in known.schema}
    pointer = Pointer(config.rows_pointer, "rows.pointer")
    for row in rows:
        try:
            if isinstance(columns, MessageColumns):
                found = _message(row)
            else:
                found = _with_changes(_object(row.raw, pointer, config), row.changes, types, config)
            made, misfits = columns.of([found])
            if misfits:
                raise misfits[0][1]
            yield Batch(rows=made, dataset=config.dataset, key_columns=config.key_columns)
        except ConnectorError as error:
            yield error


def _message(row: RawRow) -> Row:
    if row.changes:
        raise _not_set(next(iter(row.changes)), "the row is a message without columns")
    return {MESSAGE: row.raw}


def _object(raw: bytes, pointer: Pointer, config: HttpSourceConfig) -> dict[str, Any]:
    """Return the row of some bytes: where `rows.pointer` says, or all of it.

    Raises:
        DataError: `http.not_json`, `http.not_one_row`.
    """
    exact = any("decimal(" in column for column in config.columns)
    try:
        document = json.loads(raw, parse_float=Decimal if exact else None)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise DataError(
            "http.not_json",
            f"the row is not JSON: {error}",
            fix="Replace the row as a whole: `penstock dlq replay NAME ID --raw TEXT`.",
        ) from None
    found = pointer.of(document)
    item = document if found is MISSING else found
    items = item if isinstance(item, list) else [item]
    if len(items) != 1 or items[0] is None:
        raise DataError(
            "http.not_one_row",
            f"the bytes have {len(items) - items.count(None)} rows instead of one",
            fix="Write one row; others come from the address itself.",
        )
    return items[0] if isinstance(items[0], dict) else {"value": items[0]}


def _with_changes(
    row: dict[str, Any],
    changes: Mapping[str, Any],
    types: Mapping[str, pa.DataType],
    config: HttpSourceConfig,
) -> dict[str, Any]:
    kinds = dict(text.rpartition(":")[::2] for text in config.columns)
    for name, value in changes.items():
        if kinds and name not in kinds:
            raise _not_set(name, f"the columns are {', '.join(kinds)}")
        # a column of JSON takes any value, and a text is one that was written
        is_json = kinds.get(name) == "json"
        row[name] = fit_value(value, None if is_json else types.get(name))
    return row


def _not_set(name: str, why: str) -> DataError:
    return DataError(
        "http.value_not_set",
        f"{name!r} cannot be set: {why}",
        fix="Name a column of the row, or replace the row as a whole: `penstock dlq replay NAME ID "
        "--raw TEXT`.",
    )
