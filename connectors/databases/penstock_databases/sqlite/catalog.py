"""Which tables an SQLite file has, and their columns."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection
from penstock_databases.sqlite.types import row_field

_HIDDEN_GENERATED = (2, 3)
"""`hidden` of pragma_table_xinfo for generated columns: virtual and stored."""


def tables(connection: Connection, kinds: Sequence[str]) -> list[TableId]:
    """Return the tables of the file."""
    wanted = {kind.lower() for kind in kinds or ("TABLE",)}
    rows = connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%%' ESCAPE '\\' "
        "ORDER BY name"
    )
    return [TableId(name) for kind, name in rows if kind in wanted]


def shape(connection: Connection, table: TableId) -> Shape | None:
    """Return a table's columns; None when there is no such table."""
    rows = connection.execute(
        'SELECT name, lower(type), "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(%s)',
        (table.name,),
    )
    keys = sum(1 for row in rows if row[4])
    columns = []
    for name, native, required, default, key, hidden in rows:
        auto = bool(key) and keys == 1 and native == "integer"  # an alias of the rowid
        generated = hidden in _HIDDEN_GENERATED
        columns.append(
            Column(
                name=name,
                native=native,
                field=row_field(name, native),
                nullable=not required and not key,
                key=key,
                auto=auto,
                default=default is not None or auto or generated,
                generated=generated,
            )
        )
    return Shape(table, tuple(columns)) if columns else None
