"""A real PostgreSQL with a logical log for the session, a database of its own for every test."""

import contextlib
import itertools

import pytest

from penstock_connector.testing import source_task
from penstock_databases.postgres_cdc import PostgresCdcSource
from support.postgres_cdc import Database, Reader, eventually
from support.postgresql import PostgresqlServer

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server():
    options = ("wal_level=logical", "fsync=off", "max_replication_slots=40", "max_wal_senders=20")
    with PostgresqlServer(*options) as running:
        yield running


@pytest.fixture
def database(server):
    name = f"d{next(NUMBERS)}"
    server.sql(f"CREATE DATABASE {name}")
    made = Database(server, name)
    yield made
    eventually(lambda: _dropped(made), "the slot is free")
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


def _dropped(database):
    try:
        database.server.sql(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            f"WHERE database = '{database.name}'"
        )
    except RuntimeError:
        return False
    return True


@pytest.fixture
def follow(database):
    """Run a task; returns what reads it. A small credit keeps the task near what was taken."""

    @contextlib.contextmanager
    def run(offsets=None, credit=64 << 20, **config):
        given = database.config(**config)
        with source_task(PostgresCdcSource, given, offsets=offsets, credit=credit) as task:
            yield Reader(task)
            task.call.cancel()

    return run
