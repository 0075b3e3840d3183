"""A table of one database followed into another, while somebody changes it all the time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pymysql

from penstock_kit.testing import wait_until
from support.mariadb import PASSWORD, USER, MariadbServer
from support.postgresql import PostgresqlServer
from support.processes import PLAIN
from system.pipelines import Pipeline

ROWS: Final = 12_000
"""Rows of the table before anything runs: a dozen transactions of the sink."""

MOVED: Final = 120.0
"""Seconds until the target has all, with a start of a JVM before, on a busy machine."""

_COLUMNS: Final = "id, name, price, changed_at, note"
_CREATE: Final = (
    "CREATE TABLE accounts (id BIGINT PRIMARY KEY, name VARCHAR(64), price DECIMAL(12,2), "
    "changed_at {time}, note TEXT)"
)


class Maria(MariadbServer):
    """MariaDB as source or target."""

    kind: Final = "mysql-cdc"
    time: Final = "DATETIME(6)"

    def connect(self, port: int = 0) -> Any:
        """Return a connection of DB-API; what others commit is seen at once."""
        return pymysql.connect(
            host="127.0.0.1", port=port or self.port, user=USER, password=PASSWORD,
            database="shop", autocommit=False, charset="utf8mb4",
        )  # fmt: skip

    def prepare(self) -> None:
        """Make the database."""
        self.sql("CREATE DATABASE shop")

    def source(self, port: int) -> dict[str, Any]:
        """Return the keys of its source."""
        return {
            "connector.class": self.kind, "database.hostname": "127.0.0.1", "database.port": port,
            "database.user": USER, "database.password": PASSWORD,
            "table.include.list": "shop.accounts",
        }  # fmt: skip

    def target(self, port: int) -> dict[str, Any]:
        """Return the keys that name it as a target."""
        url = f"jdbc:mariadb://127.0.0.1:{port}/shop"
        return {"connection.url": url, "connection.user": USER, "connection.password": PASSWORD}


class Postgres(PostgresqlServer):
    """PostgreSQL as source or target."""

    kind: Final = "postgres-cdc"
    time: Final = "TIMESTAMP(6)"

    def __init__(self) -> None:
        super().__init__("wal_level=logical")

    def connect(self, port: int = 0) -> Any:
        """Return a connection of DB-API."""
        where = f"host=127.0.0.1 port={port or self.port} dbname=postgres user=penstock"
        return psycopg.connect(where)

    def prepare(self) -> None:
        """Nothing: the database `postgres` is there."""

    def source(self, port: int) -> dict[str, Any]:
        """Return the keys of its source."""
        return {
            "connector.class": self.kind, "database.hostname": "127.0.0.1", "database.port": port,
            "database.user": "penstock", "database.dbname": "postgres",
            "table.include.list": "public.accounts",
        }  # fmt: skip

    def target(self, port: int) -> dict[str, Any]:
        """Return the keys that name it as a target."""
        url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
        return {"connection.url": url, "connection.user": "penstock"}


Database = Maria | Postgres


@dataclass(frozen=True, slots=True)
class Ends:
    """The two databases, and the ports at which the pipeline finds them."""

    source: Database
    target: Database
    source_port: int = 0
    target_port: int = 0


class Replica(Pipeline):
    """The pipeline, the table at both ends, and the one who changes it."""

    def __init__(self, folder: Path, ends: Ends) -> None:
        """Make and fill the table. A transaction of the sink has about 1000 rows."""
        self.ends = ends
        for end in (ends.source, ends.target):
            end.prepare()
        with ends.source.connect() as connection:
            _make(connection, ends.source.time)
        source = ends.source.source(ends.source_port or ends.source.port)
        keys = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": True}
        sink = {
            "connector.class": "jdbc-sink", "auto.create": True, "table.name.format": "${table}",
            "retry.backoff.ms": 100, "connection.attempts": 20, "connection.backoff.ms": 500,
            **keys, **ends.target.target(ends.target_port or ends.target.port),
        }  # fmt: skip
        source |= {"snapshot.fetch.size": 1000, "connection.attempts": 20}
        source |= {"connection.backoff.ms": 500, "heartbeat.interval.ms": 500}
        rules = {"batch": {"max.rows": 1000}, "restart": {"max": -1}}
        super().__init__(folder, {"source": source, "sink": sink, **rules}, PLAIN)

    @contextmanager
    def changing(self, seed: int) -> Iterator[None]:
        """Change the table all the time: rows and keys, in transactions, some rolled back."""
        over, failed = threading.Event(), []

        def run() -> None:
            try:
                _change(self.ends.source.connect, random.Random(seed), over)
            except Exception as error:  # noqa: BLE001 - told at the end
                failed.append(error)

        writer = threading.Thread(target=run)
        writer.start()
        try:
            yield
        finally:
            over.set()
            writer.join(60)
        assert not failed, failed

    def count(self) -> int:
        """Return how many rows the target has; 0 while it is away, or without the table."""
        return len(rows_of(self.ends.target) or ())

    def same(self) -> bool:
        """Return whether the target has the rows of the source, value by value."""
        expected = rows_of(self.ends.source)
        return expected is not None and rows_of(self.ends.target) == expected


def rows_of(database: Database) -> list[tuple[Any, ...]] | None:
    """Return the table in order of its key; None while it is not to be had."""
    try:
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {_COLUMNS} FROM accounts ORDER BY id")
            return [tuple(row) for row in cursor.fetchall()]
    except (psycopg.Error, pymysql.Error):
        return None


def _make(connection: Any, time: str) -> None:
    cursor = connection.cursor()
    cursor.execute(_CREATE.format(time=time))
    values = "%s, %s, %s, '2026-01-02 03:04:05.000678', NULL"
    rows = [(n, f"näme {n} 😀", f"{n}.25") for n in range(ROWS)]
    cursor.executemany(f"INSERT INTO accounts ({_COLUMNS}) VALUES ({values})", rows)
    connection.commit()


def _change(connect: Callable[[], Any], rng: random.Random, over: threading.Event) -> None:
    """Commit a transaction of up to five changes again and again. A server that is away is waited
    for: what had not been committed is lost, as it is for everybody.
    """
    connection, fresh = connect(), ROWS
    while not over.wait(0.02):
        try:
            cursor = connection.cursor()
            for _ in range(rng.randrange(1, 6)):
                fresh += 1
                cursor.execute(*_statement(rng, fresh))
            end = connection.rollback if rng.random() < 0.1 else connection.commit
            end()
        except (psycopg.OperationalError, pymysql.OperationalError, pymysql.InterfaceError):
            connection = _again(connect, over) or connection
    connection.close()


def _again(connect: Callable[[], Any], over: threading.Event) -> Any:
    found: list[Any] = []

    def comes_back() -> bool:
        try:
            found.append(connect())
        except (psycopg.OperationalError, pymysql.OperationalError):
            return over.is_set()
        return True

    wait_until(comes_back, 60, "the source's server to come back")
    return found[0] if found else None


def _statement(rng: random.Random, fresh: int) -> tuple[str, tuple[Any, ...]]:
    some = rng.randrange(ROWS)
    note = None if rng.random() < 0.3 else 'it\'s "quoted" \\ \n' + "x" * rng.randrange(50)
    match rng.randrange(10):
        case 0 | 1:
            return "DELETE FROM accounts WHERE id = %s", (some,)
        case 2:  # the key itself
            return "UPDATE accounts SET id = %s WHERE id = %s", (fresh, some)
        case 3 | 4 | 5:
            values = f"({_COLUMNS}) VALUES (%s, %s, %s, '0001-02-03 04:05:06', %s)"
            return f"INSERT INTO accounts {values}", (fresh, f"new {fresh}", "-0.01", note)
        case _:
            change = "UPDATE accounts SET price = price + 1, note = %s WHERE id >= %s AND id < %s"
            return change, (note, some, some + rng.randrange(1, 20))
