"""Batches that are not rows of the log: rows of chunks, truncates, changes of schemas. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock_connector import Batch, Op
from penstock_databases.mysql_cdc.chunks import Piece
from penstock_databases.mysql_cdc.gathering import Table
from penstock_databases.mysql_cdc.statements import TableName

_SCHEMA_CHANGE: Final = pa.schema([
    ("database", pa.string()), ("table", pa.string()), ("ddl", pa.string()),
    ("__op", pa.int8()), ("__ts_us", pa.int64()),
])  # fmt: skip


def snapshot_batch(table: Table, piece: Piece) -> Batch:
    """Return rows of a chunk."""
    count = piece.rows.num_rows
    columns = [
        *piece.rows.columns,
        pa.array(np.full(count, Op.SNAPSHOT, np.int8)),
        pa.array(np.full(count, piece.stamp, np.int64)),
    ]
    if len(columns) < len(table.schema):
        columns.append(pa.nulls(count, table.schema.field("__before").type))
    rows = pa.RecordBatch.from_arrays(columns, schema=table.schema)
    return Batch(rows, dataset=table.dataset, key_columns=table.key)


def truncate_batch(table: Table, stamp: int) -> Batch:
    """Return the row that says that a table is empty."""
    nulls = [pa.nulls(1, field.type) for field in table.schema]
    width = len(table.layout.fields)
    nulls[width], nulls[width + 1] = pa.array([int(Op.TRUNCATE)], pa.int8()), pa.array([stamp])
    rows = pa.RecordBatch.from_arrays(nulls, schema=table.schema)
    return Batch(rows, dataset=table.dataset, key_columns=table.key)


def schema_change_batch(dataset: str, table: TableName, statement: str, stamp: int) -> Batch:
    """Return the row that tells of a statement that changed a table."""
    row: dict[str, str | int] = {"database": table[0], "table": table[1], "ddl": statement}
    row |= {"__op": int(Op.UNSPECIFIED), "__ts_us": stamp}
    return Batch(pa.RecordBatch.from_pylist([row], schema=_SCHEMA_CHANGE), dataset=dataset)
