"""Real servers for the tests, MariaDB and for some MySQL as well (`BOTH`), and a host that applies
what the connector gives.
"""

import itertools
import time

import pytest

from penstock_connector import Op
from penstock_connector.testing import DEADLINE, source_task
from penstock_databases.dialect import Login
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.mysql_cdc import MysqlCdc
from penstock_databases.url import parse_url
from support.mariadb import PASSWORD, USER, MariadbServer
from support.mysql import MysqlServer, as_mysql

_NAMES = itertools.count()
RESERVED = ("__op", "__ts_us", "__before")
BOTH = pytest.mark.parametrize("db", ["mariadb", "mysql"], indirect=True)


@pytest.fixture(scope="session")
def mariadb():
    with MariadbServer() as server:
        yield server


@pytest.fixture(scope="session")
def mysql():
    with MysqlServer() as server:
        yield server


class Database:
    """A database of its own on a server."""

    def __init__(self, server):
        self.server = server
        self.is_mysql = isinstance(server, MysqlServer)
        self.name = f"d{next(_NAMES)}"
        self.connection = self.session()
        self.connection.execute(f"CREATE DATABASE {self.name}")
        self.connection.execute(f"USE {self.name}")

    def session(self, database=""):
        target = parse_url(self.server.url(database))
        return MysqlConnection(target, Login(USER, PASSWORD))

    def sql(self, statement, *values):
        made = as_mysql(statement) if self.is_mysql else statement
        return self.connection.execute(made, values)

    def log_place(self):
        """The file and the position where the log ends."""
        return self.sql("SHOW BINARY LOG STATUS" if self.is_mysql else "SHOW MASTER STATUS")[0][:2]

    def config(self, **keys):
        return {
            "connection.url": self.server.url(),
            "connection.user": USER,
            "connection.password": PASSWORD,
            "table.include.list": rf"{self.name}\..*",
        } | {name.replace("_", "."): str(value) for name, value in keys.items()}

    def close(self):
        self.connection.close()


@pytest.fixture
def db(request):
    database = Database(request.getfixturevalue(getattr(request, "param", "mariadb")))
    yield database
    database.close()


class Host:
    """Takes batches and commits, as the host does, and keeps rows by key, as a sink does."""

    def __init__(self, task, *, mirror=None):
        self.task = task
        self.rows = []
        self.mirror = mirror if mirror is not None else {}
        self.prefix = ""

    def step(self, *, commit=True, timeout=DEADLINE):
        """Take the next frame; returns its kind."""
        frame = self.task.event(timeout)
        kind = frame.WhichOneof("kind")
        if kind == "ready":
            batch = self.task.fetch(frame.ready.seq)
            schema_id = frame.ready.schema_id
            self.take(batch.to_pylist(), self.dataset_of(schema_id), self.keys_of(schema_id))
            self.task.release(frame.ready.seq)
        elif kind == "checkpoint" and commit:
            self.task.commit()
        return kind

    def dataset_of(self, schema_id):
        return self.schema_frame(schema_id).dataset

    def keys_of(self, schema_id):
        return tuple(self.schema_frame(schema_id).key_columns)

    def schema_frame(self, schema_id):
        frames = [f.schema for f in self.task.seen if f.HasField("schema")]
        return next(one for one in frames if one.schema_id == schema_id)

    def take(self, rows, dataset, keys):
        table = self.mirror.setdefault(dataset, {})
        for row in rows:
            self.rows.append((dataset, row))
            op = row["__op"]
            plain = {name: value for name, value in row.items() if name not in RESERVED}
            key = tuple(plain[name] for name in keys) if keys else len(table)
            if op == Op.TRUNCATE:
                table.clear()
            elif op == Op.DELETE:
                table.pop(key, None)
            else:
                table[key] = plain

    def until(self, condition, seconds=DEADLINE):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"never; rows so far: {len(self.rows)}"
            self.step()

    def settled(self, db):
        """Take all that the log has before a row that is written now, up to its checkpoint: no
        chunk has a row of a table that came after the snapshot began.
        """
        db.sql("CREATE TABLE IF NOT EXISTS mark (id INT AUTO_INCREMENT PRIMARY KEY)")
        db.sql("INSERT INTO mark VALUES ()")
        (id_,) = db.sql("SELECT MAX(id) FROM mark")[0]
        marks = f"{self.prefix}{db.name}.mark"
        self.until(lambda: (id_,) in self.mirror.get(marks, {}))
        while self.step() != "checkpoint":
            pass

    def ops(self, dataset=None):
        return [Op(row["__op"]).name for name, row in self.rows if dataset in {None, name}]


@pytest.fixture
def run():
    """Run a task of the connector in a `with` block."""

    def start(config, offsets=None, mirror=None, **how):
        return _Running(config, offsets, mirror, how)

    return start


class _Running:
    def __init__(self, config, offsets, mirror, how):
        self._task = source_task(MysqlCdc, config, offsets=offsets, **how)
        self._mirror = mirror

    def __enter__(self):
        self.host = Host(self._task.__enter__(), mirror=self._mirror)
        return self.host

    def __exit__(self, *error):
        return self._task.__exit__(*error)
