"""The columns of a query, from what PostgreSQL tells about its result."""

from __future__ import annotations

from penstock_connector.tables.columns import Column
from penstock_databases.postgresql.connection import PostgresqlConnection, telling
from penstock_databases.postgresql.types import row_field

_TYPES = (
    "SELECT pg_catalog.format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END, "
    "CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE w.modifier END), "
    "COALESCE(e.typtype, t.typtype) = 'e' "
    "FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS w(oid, modifier, place) "
    "JOIN pg_catalog.pg_type t ON t.oid = w.oid "
    "LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' ORDER BY place"
)


def described(connection: PostgresqlConnection, query: str) -> tuple[Column, ...]:
    """Return the columns of a query that a person wrote. None of its rows is read."""
    with telling(connection.target):
        statement = f"SELECT * FROM (\n{query}\n) AS q LIMIT 0"  # noqa: S608 - a person's own
        result = connection.driver.execute(statement).pgresult
        assert result is not None  # noqa: S101 - it was executed
        places = range(result.nfields)
        names = [(result.fname(place) or b"").decode() for place in places]
        oids = [result.ftype(place) for place in places]
        modifiers = [result.fmod(place) for place in places]
    types = connection.execute(_TYPES, (oids, modifiers))
    return tuple(
        Column(name, native, row_field(name, native, is_enum=bool(enum)))
        for name, (native, enum) in zip(names, types, strict=True)
    )
