"""Rows of MariaDB and MySQL as Arrow columns.

The text of every value is exact, once the statement asks for it rightly (`MysqlDialect.selected`);
Arrow makes values of texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock_connector.tables.columns import Column
from penstock_databases.cells import typed
from penstock_databases.mysql.connection import MysqlConnection, telling
from penstock_databases.mysql.wire import RowStream


def read(
    connection: MysqlConnection, sql: str, values: Sequence[Any], columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a query."""
    schema = pa.schema([column.field for column in columns])
    with telling(connection.target):
        statement = connection.driver.cursor().mogrify(sql, tuple(values))
        for cells in RowStream(connection.driver, statement):
            arrays = [
                _column(texts, field, connection.target.zero_dates)
                for texts, field in zip(cells, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(cells: pa.Array, field: pa.Field, odd: str) -> pa.Array:
    if pa.types.is_binary(field.type):
        return cells
    return typed(cells.cast(pa.string()), field, odd)
