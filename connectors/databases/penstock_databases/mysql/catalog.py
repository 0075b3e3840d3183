"""Which tables a MariaDB or MySQL server has, and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection
from penstock_databases.mysql.types import row_field

_KINDS: Final = {"TABLE": "BASE TABLE", "VIEW": "VIEW", "SYSTEM TABLE": "SYSTEM VIEW"}
_SYSTEM: Final = ("information_schema", "performance_schema", "mysql", "sys")

_TABLES: Final = (
    "SELECT table_schema, table_name FROM information_schema.tables "
    "WHERE table_type IN %s AND table_schema NOT IN %s AND (%s = '' OR table_schema = %s) "
    "ORDER BY 1, 2"
)
_COLUMNS: Final = (
    "SELECT column_name, LOWER(column_type), is_nullable, column_key, LOWER(extra), column_default "
    "FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
    "ORDER BY ordinal_position"
)
_KEY: Final = (
    "SELECT column_name FROM information_schema.statistics WHERE table_schema = %s "
    "AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index"
)


def tables(connection: Connection, kinds: Sequence[str], database: str) -> list[TableId]:
    """Return the tables of a database; of all but the system's own when it is empty."""
    wanted = tuple(_KINDS.get(kind.upper(), kind.upper()) for kind in kinds) or ("BASE TABLE",)
    rows = connection.execute(_TABLES, (wanted, _SYSTEM, database, database))
    return [TableId(str(name), catalog=str(catalog)) for catalog, name in rows]


def shape(connection: Connection, table: TableId) -> Shape | None:
    """Return a table's columns; None when there is no such table."""
    catalog = table.catalog or connection.execute("SELECT COALESCE(DATABASE(), '')")[0][0]
    where = (catalog, table.name)
    rows = connection.execute(_COLUMNS, where)
    if not rows:
        return None
    places = {name: place for place, (name,) in enumerate(connection.execute(_KEY, where), 1)}
    columns = []
    for name, native, nullable, _, extra, default in rows:
        generated = "generated" in extra and "default_generated" not in extra
        columns.append(
            Column(
                name=name,
                native=native,
                field=row_field(name, native),
                nullable=nullable == "YES",
                key=places.get(name, 0),
                auto="auto_increment" in extra,
                default=default is not None or generated or "auto_increment" in extra,
                generated=generated,
            )
        )
    return Shape(table, tuple(columns))
