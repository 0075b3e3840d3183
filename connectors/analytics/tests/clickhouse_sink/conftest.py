"""A ClickHouse, and a database of each test's own."""

import itertools
from contextlib import contextmanager

import pytest

from penstock_analytics.clickhouse_sink import ClickHouseSink
from penstock_connector.testing import sink_task
from support.clickhouse import PASSWORD, USER, ClickHouseServer

_numbers = itertools.count()


class Place:
    """A server, and a database in it."""

    def __init__(self, server, database):
        self.server, self.database = server, database

    def config(self, **keys):
        """A configuration; `insert_mode` is the key `insert.mode`."""
        base = {
            "hostname": "127.0.0.1",
            "port": str(self.server.port),
            "database": self.database,
            "username": USER,
            "password": PASSWORD,
            "connection.attempts": "1",
            "retry.backoff.ms": "100ms",
            "auto.create": "true",
            "auto.evolve": "true",
        }
        given = {name.replace("_", "."): value for name, value in keys.items()}
        return {name: value for name, value in (base | given).items() if value is not None}

    @contextmanager
    def task(self, epoch=1, bed=None, *, tolerates=False, **keys):
        """A task that goes on with the numbers of transactions, as a host does."""
        with sink_task(
            ClickHouseSink,
            self.config(**keys),
            epoch=epoch,
            bed=bed,
            tolerates_failed_rows=tolerates,
        ) as task:
            task._txn_id = task.opened.committed.txn_id
            yield task

    def sql(self, statement):
        """Run a statement; `{d}` is the database."""
        return self.server.read(statement.replace("{d}", self.database))

    def rows(self, table, order="", columns="*"):
        """All rows of a table that count, as tuples."""
        by = f" ORDER BY {order}" if order else ""
        (full,) = self.sql(
            f"SELECT engine_full FROM system.tables WHERE database = '{{d}}' AND name = '{table}'"
        ).to_pylist()
        final = " FINAL" if "Replacing" in full["engine_full"] else ""
        found = self.sql(f"SELECT {columns} FROM {{d}}.`{table}`{final}{by}")
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def staging_tables(self):
        """The tables of rows that are not committed."""
        found = self.sql(
            "SELECT name FROM system.tables "
            "WHERE database = '{d}' AND startsWith(name, 'penstock_staging')"
        )
        return found.column(0).to_pylist() if found.num_columns else []


@pytest.fixture(scope="session")
def clickhouse():
    with ClickHouseServer() as server:
        yield server


@pytest.fixture
def place(clickhouse):
    database = f"db{next(_numbers)}"
    clickhouse.read(f"CREATE DATABASE {database}")
    yield Place(clickhouse, database)
    clickhouse.clear()
