"""What has to be made or added, so that rows fit into a table; and what cannot be. Pure.

Columns are only ever added, and can be null: nothing is dropped, renamed, narrowed or widened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock_connector import SchemaError
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.config import TableKeys
from penstock_connector.tables.mapping import ColumnMapping, MappedColumn
from penstock_connector.tables.names import Naming, TableId


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to be made.

    Attributes:
        field: Name, type and meaning of its values in rows.
        key: It is part of the primary key.
    """

    field: pa.Field
    key: bool = False


class Ddl(Protocol):
    """The statements of a database that make tables and columns. Pure."""

    def create(self, table: TableId, columns: Sequence[NewColumn]) -> str:
        """Return the statement that makes a table."""

    def add(self, table: TableId, columns: Sequence[NewColumn]) -> list[str]:
        """Return the statements that add columns."""


def readable(statement: str) -> str:
    """Return a statement as it would be typed: it is format text, its percent signs are doubled."""
    return statement.replace("%%", "%")


def create_table(
    table: TableId, naming: Naming, columns: Sequence[NewColumn], define: Callable[[NewColumn], str]
) -> str:
    """Return a CREATE TABLE with its primary key. `define` returns a column as it stands there."""
    lines = [define(column) for column in columns]
    keys = [naming.quoted(column.field.name) for column in columns if column.key]
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(keys)})")
    return f"CREATE TABLE {table.sql(naming)} ({', '.join(lines)})"


def plan_statements(
    config: TableKeys, ddl: Ddl, table: TableId, shape: Shape | None, mapping: ColumnMapping
) -> list[str]:
    """Return the statements that make a table fit.

    Raises:
        SchemaError: `no_table`, `no_column`, `new_key_column`; the fix has the statement to run.
    """
    if shape is None:
        keys = [NewColumn(column.field, key=True) for column in mapping.key]
        statement = ddl.create(table, [*keys, *(NewColumn(one.field) for one in mapping.others)])
        if not config.auto_create:
            raise SchemaError(
                config.code("no_table"),
                f"there is no table {table}",
                fix=f"Set `auto.create=true`, or run: {readable(statement)}",
                config_path="auto.create",
            )
        return [statement]
    for column in _missing(shape, mapping.key):
        raise SchemaError(
            config.code("new_key_column"),
            f"{table} has no column {column.field.name!r}, and it is of the key",
            fix="Correct `pk.fields`, or make the table anew: its rows have no such key.",
            config_path="pk.fields",
        )
    missing = _missing(shape, mapping.others)
    if not missing:
        return []
    statements = ddl.add(table, [NewColumn(column.field) for column in missing])
    if not config.auto_evolve:
        raise SchemaError(
            config.code("no_column"),
            f"{table} has no column {missing[0].field.name!r}",
            fix=f"Set `auto.evolve=true`, or run: {'; '.join(map(readable, statements))}",
            config_path="auto.evolve",
        )
    return statements


def check_columns(config: TableKeys, shape: Shape, mapping: ColumnMapping) -> None:
    """Refuse a table that could take no row.

    Raises:
        SchemaError: `column_required`.
    """
    have = {column.field.name for column in mapping.all}
    for column in shape.columns:
        left_out = not column.nullable and not column.default and column.name not in have
        if left_out and config.verb is not Verb.UPDATE:
            raise SchemaError(
                config.code("column_required"),
                f"{shape.table}: the column {column.name!r} takes no null and has no default, and "
                "the rows have no such field",
                fix="Give the column a default, or let it be null.",
            )


def _missing(shape: Shape, columns: Sequence[MappedColumn]) -> list[MappedColumn]:
    return [column for column in columns if shape.find(column.field.name) is None]
