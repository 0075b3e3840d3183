"""Which writer a database has. Drivers take long to import: only the one that is used is."""

from __future__ import annotations

from penstock_databases.url import Target, parse_url
from penstock_databases.writing import Writer


def reached_by(url: str) -> tuple[Target, Writer]:
    """Return where a database is, and its writer.

    Raises:
        ConfigError: as `url.parse_url`.
    """
    target = parse_url(url)
    return target, writer_of(target.dialect)


def writer_of(dialect: str) -> Writer:
    """Return the writer of a dialect (`Target.dialect`)."""
    # ruff: noqa: PLC0415 - see above
    if dialect == "mysql":
        from penstock_databases.mysql.writing import MysqlWriter

        return MysqlWriter()
    if dialect == "postgresql":
        from penstock_databases.postgresql.writing import PostgresqlWriter

        return PostgresqlWriter()
    from penstock_databases.sqlite.writing import SqliteWriter

    return SqliteWriter()
