"""What has to be made or added, so that rows fit into a table; and what cannot be. Pure.

Columns are only ever added, and can be null: nothing is dropped, renamed, narrowed or widened.
"""

from __future__ import annotations

from typing import Final

from penstock_connector import SchemaError
from penstock_databases.databend_sink.config import DatabendSinkConfig
from penstock_databases.databend_sink.keys import Place, Places
from penstock_databases.databend_sink.sql import literal, quoted, readable, table_sql
from penstock_databases.databend_sink.types import column_type, comment
from penstock_databases.dialect import Shape
from penstock_databases.names import TableId


def change(
    config: DatabendSinkConfig, table: TableId, shape: Shape | None, wanted: Places
) -> list[str]:
    """Return the statements that make a table fit.

    Raises:
        SchemaError: `databend.no_table`, `databend.no_column`, `databend.new_key_column`,
            `databend.type`; the fix has the statement to run.
    """
    if shape is None:
        return [_create(config, table, wanted)]
    for place in _missing(shape, wanted.key):
        raise SchemaError(
            "databend.new_key_column",
            f"{table} has no column {place.field.name!r}, and it is of the key",
            fix="Correct `pk.fields`, or make the table anew: its rows have no such key.",
            config_path="pk.fields",
        )
    missing = _missing(shape, wanted.others)
    statements = [
        f"ALTER TABLE {table_sql(table)} ADD COLUMN {_column(place, key=False)}"
        for place in missing
    ]
    if missing and not config.auto_evolve:
        raise SchemaError(
            "databend.no_column",
            f"{table} has no column {missing[0].field.name!r}",
            fix=f"Set `auto.evolve=true`, or run: {readable('; '.join(statements))[:1000]}",
            config_path="auto.evolve",
        )
    return statements


def check(shape: Shape, wanted: Places) -> None:
    """Refuse a table that could take no row.

    Raises:
        SchemaError: `databend.column_required`.
    """
    have = {place.field.name for place in wanted.all}
    for column in shape.columns:
        if not column.nullable and not column.default and column.name not in have:
            raise SchemaError(
                "databend.column_required",
                f"{shape.table}: the column {column.name!r} takes no null and has no default, and "
                "the rows have no such field",
                fix="Give the column a default, or let it be null.",
            )


_FORMAT: Final = "STORAGE_FORMAT = 'parquet'"
"""Databend's own default, but on a file system: there it is `native`, whose dictionaries give back
decimals of more than 38 digits with their halves swapped.
"""


def _create(config: DatabendSinkConfig, table: TableId, wanted: Places) -> str:
    columns = [_column(place, key=True) for place in wanted.key]
    columns += [_column(place, key=False) for place in wanted.others]
    listed = ", ".join(columns)
    statement = f"CREATE TABLE IF NOT EXISTS {table_sql(table)} ({listed}) {_FORMAT}"
    if not config.auto_create:
        raise SchemaError(
            "databend.no_table",
            f"there is no table {table}",
            fix=f"Set `auto.create=true`, or run: {readable(statement)[:1000]}",
            config_path="auto.create",
        )
    return statement


def _column(place: Place, *, key: bool) -> str:
    note = comment(place.field)
    told = f" COMMENT {literal(note)}" if note else ""
    null = "NOT NULL" if key else "NULL"
    return f"{quoted(place.field.name)} {column_type(place.field)} {null}{told}"


def _missing(shape: Shape, wanted: tuple[Place, ...]) -> list[Place]:
    return [place for place in wanted if shape.find(place.field.name) is None]
