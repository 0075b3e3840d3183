"""Real servers, one for the session; a database for each test; tasks driven by hand."""

import itertools
import time

import pyarrow as pa
import pytest

from penstock_connector import Partition
from penstock_databases.dialect import Login
from penstock_databases.dialects import DIALECTS
from penstock_databases.java import drivers
from penstock_databases.java.url import any_url
from penstock_databases.jdbc_source import JdbcSource, JdbcSourceConfig
from support.derby import close_derby, derby_jars, make_derby
from support.mariadb import MariadbServer
from support.mysql import MysqlServer, as_mysql
from support.postgresql import PostgresqlServer

DEADLINE = 60
BOTH = pytest.mark.parametrize("mysql", ["mariadb", "mysql"], indirect=True)
_numbers = itertools.count()


class Database:
    """A database of its own, and a session that writes to it."""

    def __init__(self, url, login):
        self.url = url
        self.target = any_url(url)
        self.login = login
        self.dialect = DIALECTS[self.target.dialect]
        self.session = self.dialect.connect(self.target, login)
        self.server = None
        self._others = []

    @property
    def kind(self):
        return self.target.dialect

    def sql(self, statement, *values):
        made = as_mysql(statement) if isinstance(self.server, MysqlServer) else statement
        return self.session.execute(made, values)

    def another(self):
        """Another session, for transactions that stay open."""
        session = self.dialect.connect(self.target, self.login)
        self._others.append(session)
        return session

    def quoted(self, name):
        return self.dialect.naming.quoted(name)

    def keys(self, **more):
        keys = {
            "connection.url": self.url,
            "connection.user": self.login.user,
            "connection.password": self.login.password,
            "connection.backoff.ms": "50",
            "poll.interval.ms": "5",
        }
        return {**keys, **{name.replace("_", "."): str(value) for name, value in more.items()}}

    def close(self):
        for session in (self.session, *self._others):
            session.close()


@pytest.fixture(scope="session")
def mariadb_server():
    with MariadbServer("--general-log=OFF", "--max-allowed-packet=64M") as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_server():
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mysql_server():
    with MysqlServer("--max-allowed-packet=64M") as server:
        yield server


@pytest.fixture
def mysql(request):
    server = request.getfixturevalue(f"{getattr(request, 'param', 'mariadb')}_server")
    name = f"t{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name}")
    database = Database(server.url(name), Login("penstock", "penstock"))
    database.server = server
    yield database
    database.close()
    server.sql(f"DROP DATABASE {name}")


@pytest.fixture
def postgresql(postgresql_server):
    name = f"t{next(_numbers)}"
    postgresql_server.sql(f"CREATE DATABASE {name}")
    url = f"jdbc:postgresql://127.0.0.1:{postgresql_server.port}/{name}"
    database = Database(url, Login("penstock", ""))
    database.server = postgresql_server
    yield database
    database.close()


@pytest.fixture
def sqlite(tmp_path):
    database = Database(f"jdbc:sqlite:{tmp_path / 'a file.db'}", Login())
    yield database
    database.close()


@pytest.fixture(scope="session")
def derby_drivers(tmp_path_factory):
    """A folder with a driver, and the JVM of this process with it."""
    folder = derby_jars(tmp_path_factory.mktemp("drivers"))
    drivers.look_in([str(folder)])
    return folder


@pytest.fixture
def java(derby_drivers, tmp_path):
    url = make_derby(tmp_path / "derby")
    database = Database(url, Login())
    yield database
    database.close()
    close_derby(url)  # else it keeps its files open as long as the JVM lives


@pytest.fixture(params=["mysql", "postgresql", "sqlite"])
def database(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["mysql", "postgresql"])
def server_database(request):
    return request.getfixturevalue(request.param)


class Reader:
    """A source as the SDK drives it; offsets are kept as the host would."""

    def __init__(self, keys, offsets=None):
        from penstock_connector._config import parse_config

        self.config = parse_config(JdbcSourceConfig, keys)
        self.source = JdbcSource()
        self.offsets = dict(offsets or {})
        self.rows = []
        self.history = []
        self.batches = []
        self.source.init(self.config)
        planned = JdbcSource.plan(self.config, 1, [])
        self.partitions = [
            Partition(p.key, offset=self.offsets.get(p.id), payload=p.payload) for p in planned
        ]
        self.source.connect(self.partitions)

    def step(self):
        """Read one batch; None when there is none now."""
        batch = self.source.read_batch()
        if batch is not None:
            self.batches.append(batch)
            if isinstance(batch.rows, pa.RecordBatch):
                self.rows += batch.rows.to_pylist()
            if batch.offset is not None:
                id_ = batch.partition.id
                self.offsets[id_] = dict(batch.offset)
                self.history.append((len(self.rows), dict(self.offsets)))
        return batch

    def until(self, condition):
        """Read and wait until a condition holds."""
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, f"never happened; rows so far: {self.rows[-5:]}"
            if self.step() is None:
                self.source.wait(0.2)

    def take(self, count):
        self.until(lambda: len(self.rows) >= count)
        return self.rows

    def quiet(self, polls=3):
        """Poll every table some times, and expect nothing."""
        before = len(self.rows)
        for _ in range(polls):
            for turn in self.source._turns:
                turn.due = 0.0
            while self.step() is not None:
                pass
        assert self.rows[before:] == []

    def close(self):
        self.source.close()


@pytest.fixture
def read():
    readers = []

    def start(keys, offsets=None):
        reader = Reader(keys, offsets)
        readers.append(reader)
        return reader

    yield start
    for reader in readers:
        reader.close()
