"""Rows of PostgreSQL as Arrow columns: COPY writes CSV, Arrow parses it.

Texts of values have one form, because the session says so (`connection._SESSION`). An unquoted
nothing is null, a quoted one the empty text. What the fast parser refuses (infinity, years before
1 and beyond 9999) is parsed once more as text, and converted value by value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as pcsv

from penstock_connector.tables.columns import Column
from penstock_databases.cells import typed, unfit
from penstock_databases.postgresql.connection import PostgresqlConnection, telling
from penstock_databases.postgresql.copying import blocks


def read(
    connection: PostgresqlConnection, sql: str, values: Sequence[Any], columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a query."""
    with telling(connection.target):
        for data in blocks(connection, _statement(connection, sql, values)):
            yield parsed(data, columns, connection.target.zero_dates)


def _statement(connection: PostgresqlConnection, sql: str, values: Sequence[Any]) -> str:
    """Return the COPY statement. It takes no parameters: the driver writes them as literals."""
    if values:
        cursor = psycopg.ClientCursor(connection.driver)
        query = cursor.mogrify(sql, tuple(values))
    else:
        query = sql.replace("%%", "%")
    return f"COPY ({query}\n) TO STDOUT (FORMAT csv)"


def parsed(data: bytes, columns: Sequence[Column], odd: str) -> pa.RecordBatch:
    """Return CSV as rows. Columns are known by their place: names may be equal."""
    schema = pa.schema([column.field for column in columns])
    names = [str(place) for place in range(len(columns))]
    wanted = {name: _fast(field.type) for name, field in zip(names, schema, strict=True)}
    try:
        table = _parse(data, names, wanted)
    except pa.ArrowInvalid:
        table = _parse(data, names, dict.fromkeys(names, pa.string()))
    arrays = [
        _column(chunks.combine_chunks(), field, odd)
        for chunks, field in zip(table.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fast(kind: pa.DataType) -> pa.DataType:
    """Return the type that the parser gives a column: text where it knows no better."""
    special = pa.types.is_list(kind) or pa.types.is_binary(kind)
    return pa.string() if special else kind


def _parse(data: bytes, names: list[str], types: dict[str, pa.DataType]) -> pa.Table:
    return pcsv.read_csv(
        pa.BufferReader(data),
        read_options=pcsv.ReadOptions(
            column_names=names, use_threads=False, block_size=len(data) + 1
        ),
        parse_options=pcsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pcsv.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )


def _column(column: pa.Array | pa.ChunkedArray, field: pa.Field, odd: str) -> pa.Array:
    array = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    return array if array.type == field.type else _values(array, field, odd)


def _values(texts: pa.Array, field: pa.Field, odd: str) -> pa.Array:
    """Return texts as values of a field."""
    kind = field.type
    if pa.types.is_list(kind):
        return _lists(texts, field, odd)
    if pa.types.is_binary(kind):
        return pa.array([v if v is None else bytes.fromhex(v[2:]) for v in texts.to_pylist()], kind)
    if pa.types.is_boolean(kind):
        return pa.array([v if v is None else v in {"t", "true"} for v in texts.to_pylist()], kind)
    if pa.types.is_timestamp(kind) and kind.tz:
        texts = pa.array([v and v.replace("+00", "", 1) for v in texts.to_pylist()], pa.string())
    return typed(texts, field, odd)


def _lists(texts: pa.Array, field: pa.Field, odd: str) -> pa.Array:
    """Return JSON lists of texts as lists. A list of lists, which no column declares, is odd."""
    lists = [text if text is None else json.loads(text) for text in texts.to_pylist()]
    if any(isinstance(item, list) for items in lists if items for item in items):
        if odd == "fail":
            raise unfit(field)
        lists = [None if items and isinstance(items[0], list) else items for items in lists]
    nested = pa.array(lists, pa.list_(pa.string()))
    inner = _values(nested.flatten(), field.type.value_field, odd)
    offsets, at = [], 0
    for items in lists:
        offsets.append(None if items is None else at)
        at += len(items or ())
    return pa.ListArray.from_arrays(pa.array([*offsets, at], pa.int32()), inner, type=field.type)
