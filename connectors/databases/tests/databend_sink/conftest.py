"""Two places to write to: a server, and a folder."""

import itertools
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock_connector.testing import sink_task
from penstock_databases.databend_sink import DatabendSink
from support.databend import PASSWORD, USER, DatabendServer, read_folder

_numbers = itertools.count()


class Place:
    """A Databend, and a database in it."""

    def __init__(self, url, database, read, login):
        self.url, self.database, self.read, self.login = url, database, read, login

    def config(self, **keys):
        """The configuration of the article, but for what a test says."""
        base = {
            "connection.url": self.url,
            "connection.database": self.database,
            "connection.backoff.ms": "100ms",
            "auto.create": "true",
            "auto.evolve": "true",
            **self.login,
        }
        return base | {name.replace("_", "."): value for name, value in keys.items()}

    @contextmanager
    def task(self, epoch=1, bed=None, **keys):
        """A task that goes on with the numbers of transactions, as a host does."""
        with sink_task(DatabendSink, self.config(**keys), epoch=epoch, bed=bed) as task:
            task._txn_id = task.opened.committed.txn_id
            yield task

    def table(self, name, order=""):
        """All of a table, once no task uses the place."""
        quoted = name.replace('"', '""')
        by = f" ORDER BY {order}" if order else ""
        return self.read(f'SELECT * FROM "{self.database}"."{quoted}"{by}')

    def rows(self, name, order=""):
        table = self.table(name, order)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(scope="session")
def databend():
    with DatabendServer() as server:
        yield server


@pytest.fixture
def server(databend):
    """The server, and a database of the test's own."""
    database = f"db{next(_numbers)}"
    databend.read(f"CREATE DATABASE {database}")
    login = {"connection.user": USER, "connection.password": PASSWORD}
    yield Place(databend.url(), database, databend.read, login)
    databend.clear()


@pytest.fixture
def folder(tmp_path):
    """A folder of the test's own."""
    path = Path(tmp_path, 'it\'s a "folder"')
    return Place(f"databend+local://{path}", "default", lambda sql: read_folder(path, sql), {})


@pytest.fixture(params=["server", "folder"])
def place(request):
    return request.getfixturevalue(request.param)
