"""Which tables a PostgreSQL database has, and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection
from penstock_databases.postgresql.types import row_field

_KINDS: Final = {
    "TABLE": "rp",
    "PARTITIONED TABLE": "p",
    "VIEW": "v",
    "MATERIALIZED VIEW": "m",
    "FOREIGN TABLE": "f",
}
_TABLES: Final = (
    "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind::text = ANY(%s) AND NOT c.relispartition AND c.relpersistence <> 't' "
    "AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' ORDER BY 1, 2"
)
_TABLE: Final = "SELECT pg_catalog.to_regclass(%s)::oid"
_COLUMNS: Final = (
    "SELECT a.attname, pg_catalog.format_type(COALESCE(d.base, a.atttypid), "
    "CASE WHEN d.base IS NULL THEN a.atttypmod ELSE d.modifier END), a.attnotnull, "
    "COALESCE(array_position(k.conkey, a.attnum), 0), a.attidentity <> '', a.atthasdef, "
    "a.attgenerated <> '', COALESCE(e.typtype, b.typtype) = 'e', "
    "COALESCE(pg_catalog.pg_get_expr(f.adbin, f.adrelid), '') ~ '^nextval[(]' "
    "FROM pg_catalog.pg_attribute a "
    "LEFT JOIN pg_catalog.pg_constraint k ON k.conrelid = a.attrelid AND k.contype = 'p' "
    "LEFT JOIN pg_catalog.pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum "
    "LEFT JOIN LATERAL (SELECT t.typbasetype AS base, t.typtypmod AS modifier "
    "  FROM pg_catalog.pg_type t WHERE t.oid = a.atttypid AND t.typtype = 'd') d ON true "
    "JOIN pg_catalog.pg_type b ON b.oid = COALESCE(d.base, a.atttypid) "
    "LEFT JOIN pg_catalog.pg_type e ON e.oid = b.typelem AND b.typcategory = 'A' "
    "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)


def tables(connection: Connection, kinds: Sequence[str]) -> list[TableId]:
    """Return the tables of the database; a partitioned one, not its parts."""
    wanted = list("".join(_KINDS.get(kind.upper(), "") for kind in kinds or ("TABLE",)))
    rows = connection.execute(_TABLES, (wanted,))
    return [TableId(name, schema=schema) for schema, name in rows]


def shape(connection: Connection, table: TableId, quoted: str) -> Shape | None:
    """Return a table's columns; None when there is no such table.

    Args:
        connection: A session.
        table: The table; without a schema it is looked up along the search path.
        quoted: Its name as it stands in SQL, but without doubled percent signs.
    """
    ((oid,),) = connection.execute(_TABLE, (quoted,))
    if oid is None:
        return None
    columns = []
    for (
        name, native, required, key, identity, default, generated, enum, serial
    ) in connection.execute(_COLUMNS, (oid,)):  # fmt: skip
        columns.append(
            Column(
                name=name,
                native=native,
                field=row_field(name, native, is_enum=bool(enum)),
                nullable=not required,
                key=key,
                auto=identity or serial,
                serial=serial,
                default=default or identity,
                generated=generated,
            )
        )
    return Shape(table, tuple(columns))
