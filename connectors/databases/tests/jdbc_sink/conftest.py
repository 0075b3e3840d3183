"""Real servers, a database of its own for every test, and a sink as the host drives it."""

import contextlib
import itertools
import sqlite3

import psycopg
import pymysql
import pytest
from hypothesis import HealthCheck, settings

from penstock_connector.testing import Testbed, sink_task
from penstock_databases.jdbc_sink import JdbcSink
from support.mariadb import PASSWORD, USER, MariadbServer
from support.mysql import MysqlServer
from support.postgresql import PostgresqlServer

# A busy machine is slow, which is no finding: pytest's own time limit ends what hangs.
settings.register_profile("databases", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("databases")

KINDS = ("postgresql", "mysql", "sqlite")
_SERVERS = {"postgresql": "postgresql", "mysql": "mariadb", "oracle-mysql": "oracle_mysql"}
BOTH = pytest.mark.parametrize("my", ["mysql", "oracle-mysql"], indirect=True)
"""On MariaDB and on MySQL: what differs between them is the loading, and SQL beyond the plain."""

MYSQL_TOO = pytest.mark.parametrize("db", [*KINDS, "oracle-mysql"], indirect=True)
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def mariadb():
    with MariadbServer("--general-log=1", "--general-log-file=general.log") as server:
        yield server


@pytest.fixture(scope="session")
def postgresql():
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def oracle_mysql():
    with MysqlServer() as server:
        yield server


class Database:
    """A database of one test.

    Attributes:
        kind: `postgresql`, `mysql` or `sqlite`.
        config: What a sink needs to reach it.
    """

    def __init__(self, kind, server, name, path):
        self.kind, self.server, self.name, self.path = kind, server, name, path
        self.quote = "`" if kind == "mysql" else '"'

    @property
    def url(self):
        if self.kind == "sqlite":
            return f"jdbc:sqlite:{self.path}"
        if self.kind == "mysql":
            return self.server.url(self.name)
        return f"jdbc:postgresql://127.0.0.1:{self.server.port}/{self.name}"

    @property
    def config(self):
        return {
            "connection.url": self.url,
            "connection.user": USER if self.kind == "mysql" else "penstock",
            "connection.password": PASSWORD,
            "connection.backoff.ms": "200",
            "retry.backoff.ms": "100",
        }

    def connect(self):
        """Open a session of the test's own, in autocommit."""
        if self.kind == "sqlite":
            return contextlib.closing(sqlite3.connect(self.path, isolation_level=None, timeout=10))
        if self.kind == "mysql":
            return contextlib.closing(
                pymysql.connect(
                    host="127.0.0.1",
                    port=self.server.port,
                    user=USER,
                    password=PASSWORD,
                    database=self.name,
                    charset="utf8mb4",
                    autocommit=True,
                    init_command="SET time_zone='+00:00'",
                )
            )
        return psycopg.connect(
            f"host=127.0.0.1 port={self.server.port} dbname={self.name} user=penstock "
            "options='-c timezone=UTC'",
            autocommit=True,
        )

    def sql(self, statement, values=()):
        """Run a statement; returns its rows. The place of a value is a question mark."""
        marked = statement.replace("?", "%s") if values and self.kind != "sqlite" else statement
        with self.connect() as session:
            cursor = session.cursor()
            cursor.execute(marked, tuple(values) or None if self.kind != "sqlite" else values)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def q(self, name):
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def rows(self, table, order="1"):
        return self.sql(f"SELECT * FROM {self.q(table)} ORDER BY {order}")

    @contextlib.contextmanager
    def sink(self, *, epoch=1, bed=None, tolerates_failed_rows=False, **config):
        """Run one task of the sink, over the real wire."""
        given = {name.replace("_", "."): str(value) for name, value in config.items()}
        with sink_task(
            JdbcSink,
            {**self.config, **given},
            epoch=epoch,
            bed=bed,
            tolerates_failed_rows=tolerates_failed_rows,
        ) as task:
            task._txn_id = task.opened.committed.txn_id  # as the host does it
            yield task


def make(kind, request, tmp_path):
    name = f"t{next(_NUMBERS)}"
    if kind == "sqlite":
        return Database(kind, None, name, tmp_path / "rows.db")
    server = request.getfixturevalue(_SERVERS[kind])
    server.sql(f"CREATE DATABASE {name}")
    return Database(kind.removeprefix("oracle-"), server, name, None)


@pytest.fixture(params=[kind for kind in KINDS if kind != "sqlite"])
def typed_db(request, tmp_path):
    """A database whose columns have types, and whose names have limits."""
    return make(request.param, request, tmp_path)


@pytest.fixture(params=KINDS)
def db(request, tmp_path):
    return make(request.param, request, tmp_path)


@pytest.fixture
def pg(request, tmp_path):
    return make("postgresql", request, tmp_path)


@pytest.fixture
def my(request, tmp_path):
    return make(getattr(request, "param", "mysql"), request, tmp_path)


@pytest.fixture
def lite(request, tmp_path):
    return make("sqlite", request, tmp_path)


@pytest.fixture
def bed():
    with Testbed(JdbcSink) as testbed:
        yield testbed
