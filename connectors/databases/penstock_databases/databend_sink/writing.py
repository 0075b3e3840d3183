"""The writes of a transaction as files for Databend, and the statements that bring them in.

Columns of staged files are `c0`, `c1`, …: Databend cannot select names with quotes from Parquet.
Statements are MERGE and not REPLACE, which would set columns to null that rows do not bring.
"""

# Names in statements are quoted by `sql`, rows are in files.
# ruff: noqa: S608

from __future__ import annotations

import tempfile
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock_connector.staging import Spill
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.writes import Write
from penstock_databases.databend_sink.sql import quoted, staged_rows, table_sql
from penstock_databases.databend_sink.types import is_json


def parquet(write: Write, spill: Spill) -> BinaryIO:
    """Return a file with the rows of a write. It has no name, and is gone when it is closed."""
    rows = write.rows
    fields = [
        field.with_nullable(routed.column.nullable and not routed.key)
        for field, routed in zip(rows.schema, write.columns, strict=True)
    ]
    file = tempfile.TemporaryFile()  # noqa: SIM115 - its owner closes it
    with spill.disk():
        pq.write_table(rows.cast(pa.schema(fields)), file, compression="zstd")
    return file


def statement(write: Write, name: str) -> str:
    """Return the statement for a write whose rows are staged under a name."""
    table = table_sql(write.route.table)
    columns = [quoted(routed.column.name) for routed in write.columns]
    selected = ", ".join(
        f"parse_json(c{n}) AS c{n}" if is_json(routed.column.native) else f"c{n}"
        for n, routed in enumerate(write.columns)
    )
    rows = f"SELECT {selected} FROM {staged_rows(name)}"
    match write.verb:
        case Verb.TRUNCATE:
            return f"DELETE FROM {table}"
        case Verb.INSERT:
            return f"INSERT INTO {table} ({', '.join(columns)}) {rows}"
        case _:
            return f"MERGE INTO {table} AS t USING ({rows}) AS s ON {_merge(write, columns)}"


def _merge(write: Write, columns: list[str]) -> str:
    count = len(write.route.key)
    found = " AND ".join(f"t.{column} = s.c{n}" for n, column in enumerate(columns[:count]))
    if write.verb is Verb.DELETE:
        return f"{found} WHEN MATCHED THEN DELETE"
    others = [f"{c} = s.c{n}" for n, c in enumerate(columns) if n >= count]
    update = f"WHEN MATCHED THEN UPDATE SET {', '.join(others)} " if others else ""
    values = ", ".join(f"s.c{n}" for n in range(len(columns)))
    insert = f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    return f"{found} {update}{insert}"
