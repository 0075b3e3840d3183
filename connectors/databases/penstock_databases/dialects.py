"""The kinds of databases, by their names in `Target.dialect`."""

from __future__ import annotations

from typing import Final

from penstock_databases.dialect import Dialect
from penstock_databases.java.dialect import JavaDialect
from penstock_databases.mysql.dialect import MysqlDialect
from penstock_databases.postgresql.dialect import PostgresqlDialect
from penstock_databases.sqlite.dialect import SqliteDialect

DIALECTS: Final[dict[str, Dialect]] = {
    "java": JavaDialect(),
    "mysql": MysqlDialect(),
    "postgresql": PostgresqlDialect(),
    "sqlite": SqliteDialect(),
}
