"""Statements that make tables of Databend, and their columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock_connector.tables.evolution import NewColumn
from penstock_connector.tables.names import TableId
from penstock_databases.databend_sink.sql import literal, quoted, table_sql
from penstock_databases.databend_sink.types import column_type, comment

_FORMAT: Final = "STORAGE_FORMAT = 'parquet'"
"""Databend's own default, but on a file system: there it is `native`, whose dictionaries give back
decimals of more than 38 digits with their halves swapped.
"""


class DatabendDdl:
    """See `evolution.Ddl`. Raises `databend.type` for a field that Databend has no type for."""

    def create(self, table: TableId, columns: Sequence[NewColumn]) -> str:
        """Return the statement that makes a table."""
        listed = ", ".join(map(_column, columns))
        return f"CREATE TABLE IF NOT EXISTS {table_sql(table)} ({listed}) {_FORMAT}"

    def add(self, table: TableId, columns: Sequence[NewColumn]) -> list[str]:
        """Return the statements that add columns."""
        return [f"ALTER TABLE {table_sql(table)} ADD COLUMN {_column(one)}" for one in columns]


def _column(column: NewColumn) -> str:
    note = comment(column.field)
    told = f" COMMENT {literal(note)}" if note else ""
    null = "NOT NULL" if column.key else "NULL"
    return f"{quoted(column.field.name)} {column_type(column.field)} {null}{told}"
