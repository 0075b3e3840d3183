"""Databases at both ends: a whole MariaDB is kept equal in PostgreSQL while it changes, and columns
that appear are handled as `schema.evolution` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from support.mariadb import PASSWORD, USER, MariadbServer
from support.postgresql import PostgresqlServer
from support.processes import PLAIN
from support.standalone import SOON, Standalone
from system.pipelines import Pipeline, ended

pytestmark = pytest.mark.timeout(300)

TABLES = ("customers", "order", 'it\'s "odd"')
POLICIES = ("fail", "ignore", "evolve")
LATER = "added later"
CREATE = (
    "CREATE TABLE `{}` (id INT PRIMARY KEY, name VARCHAR(99), amount DECIMAL(30,10), "
    "at DATETIME(6), raw BLOB, big BIGINT UNSIGNED)"
)
ROWS = [
    (1, "scooter", "12.5", "2024-02-29 12:00:00.123456", b"\x00\xff", 2**64 - 1),
    (2, '🎉 it\'s "odd" \\ \t\n%s', "-99999999999999999999.0123456789", None, b"", 0),
    (3, None, None, None, None, None),
    (4, "", "0", "0001-01-01 00:00:00", bytes(range(256)), 7),
]


class Shop:
    """A database `shop` of MariaDB, and what becomes of it in PostgreSQL."""

    def __init__(self, mariadb: MariadbServer, postgresql: PostgresqlServer) -> None:
        self.mariadb, self.postgresql = mariadb, postgresql

    def sql(self, *statements: str, values: object = None) -> list[tuple[Any, ...]]:
        """Run statements in the source, in one transaction; returns the rows of the last."""
        with pymysql.connect(
            host="127.0.0.1", port=self.mariadb.port, user=USER, password=PASSWORD,
            database="shop", charset="utf8mb4",
        ) as session, session.cursor() as cursor:  # fmt: skip
            for statement in statements:
                cursor.execute(statement, values)
            session.commit()
            return list(cursor.fetchall())

    def add_table(self, name: str) -> None:
        """Make a table with some rows."""
        self.sql(CREATE.format(name))
        for row in ROWS:
            self.sql(f"INSERT INTO `{name}` VALUES (%s, %s, %s, %s, %s, %s)", values=row)

    def source(self, name: str) -> dict[int, dict[str, Any]]:
        """Return the rows of a table by key."""
        columns = [row[0] for row in self.sql(f"SHOW COLUMNS FROM `{name}`")]
        rows = self.sql(f"SELECT * FROM `{name}`")
        return {row[0]: dict(zip(columns, row, strict=True)) for row in rows}

    def target(self, name: str) -> dict[int, dict[str, Any]]:
        """Return the rows of the table's copy by key; none while there is no table."""
        where = f"host=127.0.0.1 port={self.postgresql.port} dbname=postgres user=penstock"
        table = psycopg.sql.Identifier(name)
        with psycopg.connect(where, row_factory=psycopg.rows.dict_row) as session:
            try:
                found = session.execute(psycopg.sql.SQL("SELECT * FROM {}").format(table))
            except psycopg.errors.UndefinedTable:
                return {}
            return {row["id"]: row for row in found}

    def equal(self, *names: str) -> bool:
        """Return whether the copies of tables are what the tables are, value by value."""
        return all(self.source(name) == self.target(name) for name in names)

    @property
    def changes(self) -> dict[str, object]:
        """A source of all its tables, whose rows go where the table's name says."""
        return {
            "connector.class": "mysql-cdc",
            "connection.url": self.mariadb.url(),
            "connection.user": USER,
            "connection.password": PASSWORD,
            "table.include.list": r"shop\..*",
            "heartbeat.interval.ms": 500,
        }

    @property
    def copies(self) -> dict[str, object]:
        """A sink of all of them."""
        return {
            "connector.class": "jdbc-sink",
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self.postgresql.port}/postgres",
            "connection.user": "penstock",
            "auto.create": "true",
            "auto.evolve": "true",
            "insert.mode": "upsert",
            "pk.mode": "record_key",
            "delete.enabled": "true",
            "table.name.format": "${table}",
        }


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[MariadbServer, PostgresqlServer]]:
    """The servers of all tests here."""
    with MariadbServer() as mariadb, PostgresqlServer() as postgresql:
        yield mariadb, postgresql


@pytest.fixture
def shop(servers: tuple[MariadbServer, PostgresqlServer]) -> Shop:
    """A new database, and a target without tables."""
    mariadb, postgresql = servers
    mariadb.sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    postgresql.sql("DROP SCHEMA public CASCADE")
    postgresql.sql("CREATE SCHEMA public")
    return Shop(mariadb, postgresql)


ROUTE = {"type": "RegexRouter", "regex": r"shop\.(.*)", "replacement": "copy.$1"}


def live(shop: Shop) -> None:
    """Insert, update, delete, add a column, make a table."""
    for name in TABLES:
        shop.sql(
            f"INSERT INTO `{name}` (id, name) VALUES (10, 'new'), (11, 'goes again')",
            f"UPDATE `{name}` SET amount = amount + 1, name = 'changed' WHERE id IN (1, 10)",
            f"DELETE FROM `{name}` WHERE id IN (2, 11)",
        )
        shop.sql(f"UPDATE `{name}` SET id = 33 WHERE id = 3")
    shop.sql("ALTER TABLE `order` ADD COLUMN note VARCHAR(20)")
    shop.sql("INSERT INTO `order` (id, note) VALUES (20, 'has a note')")
    shop.sql("UPDATE `order` SET note = 'noted' WHERE id = 4")
    shop.add_table(LATER)
    shop.sql(f"DELETE FROM `{LATER}` WHERE id = 1")


def test_a_database_is_kept_equal_through_topics(shop: Shop, tmp_path: Path) -> None:
    """One source, one sink of all topics that match: what is there, what changes, and what comes
    later, in tables whose names are reserved or have quotes.
    """
    for name in TABLES:
        shop.add_table(name)
    route = {"transforms": "route"} | {f"transforms.route.{k}": v for k, v in ROUTE.items()}
    connectors = {
        "changes": {**shop.changes, **route},
        "copies": {**shop.copies, "topics.regex": r"copy\..*", "flush.interval": "0"},
    }
    with Standalone(tmp_path, module=PLAIN, **connectors) as node:
        node.wait_for(lambda: shop.equal(*TABLES), "the tables to be copied")
        live(shop)
        node.wait_for(lambda: shop.equal(*TABLES, LATER), "the changes to be copied")
    assert len(shop.target(TABLES[2])) == 4
    assert shop.target("order")[20]["note"] == "has a note"


def test_a_database_is_kept_equal_without_topics(shop: Shop, tmp_path: Path) -> None:
    """The same as a pipeline."""
    for name in TABLES:
        shop.add_table(name)
    transforms = [{"name": "route", **ROUTE}]
    document = {"source": shop.changes, "transforms": transforms, "sink": shop.copies}
    with Pipeline(tmp_path, document, PLAIN).running() as process:
        process.wait_for(lambda: shop.equal(*TABLES), SOON, "the tables to be copied")
        live(shop)
        process.wait_for(lambda: shop.equal(*TABLES, LATER), SOON, "the changes to be copied")
        process.stop()
        ended(process)


def envelopes(shop: Shop, *transforms: dict[str, str]) -> dict[str, object]:
    """A pipeline whose source gives Debezium's envelopes."""
    names = [{"name": f"t{n}", **one} for n, one in enumerate(transforms)]
    source = {**shop.changes, "output.format": "debezium", "topic.prefix": "at"}
    return {"source": source, "transforms": names, "sink": shop.copies}


def test_a_database_is_kept_equal_through_envelopes(shop: Shop, tmp_path: Path) -> None:
    """The transform that takes rows out of Debezium's envelopes takes them out of ours."""
    for name in TABLES:
        shop.add_table(name)
    document = envelopes(shop, {"type": "ExtractNewRecordState"})
    with Pipeline(tmp_path, document).running() as process:
        process.wait_for(lambda: shop.equal(*TABLES), SOON, "the tables to be copied")
        live(shop)
        process.wait_for(lambda: shop.equal(*TABLES, LATER), SOON, "the changes to be copied")
        process.stop()
        ended(process)


def test_envelopes_do_not_replace_rows_of_tables(shop: Shop, tmp_path: Path) -> None:
    """A table sink that is not given the rows in them says so, and names the transform."""
    shop.add_table("order")
    outcome = Pipeline(tmp_path, envelopes(shop), PLAIN).run()
    assert outcome.code
    assert "rows are Debezium's envelopes" in outcome.output
    assert "ExtractNewRecordState" in outcome.output
    assert not shop.target("order")


def test_a_column_that_appears_is_handled_as_the_policy_says(shop: Shop, tmp_path: Path) -> None:
    """Three sinks of one topic: one fails with a code, one leaves the column out, one has it."""
    shop.sql("CREATE TABLE goods (id INT PRIMARY KEY, name VARCHAR(99))")
    shop.sql("INSERT INTO goods VALUES (1, 'scooter')")
    connectors = {"changes": shop.changes} | {
        policy: {
            **shop.copies,
            "topics": "shop.goods",
            "table.name.format": f"goods_{policy}",
            "schema.evolution": policy,
            "flush.interval": "0",
        }
        for policy in POLICIES
    }
    before = {1: {"id": 1, "name": "scooter"}}
    with Standalone(tmp_path, module=PLAIN, **connectors) as node:
        there = lambda: all(shop.target(f"goods_{p}") == before for p in POLICIES)  # noqa: E731
        node.wait_for(there, "the first row in all targets")
        shop.sql("ALTER TABLE goods ADD COLUMN price DECIMAL(5,2)")
        shop.sql("INSERT INTO goods VALUES (2, 'hammer', 9.50)")
        assert node.failure("fail") == "schema.changed"
        for policy in ("ignore", "evolve"):
            copied = lambda name=f"goods_{policy}": 2 in shop.target(name)  # noqa: E731
            node.wait_for(copied, f"the row with the new column, {policy}")
        shop.sql("DELETE FROM goods WHERE id = 1")
        for policy in ("ignore", "evolve"):
            gone = lambda name=f"goods_{policy}": 1 not in shop.target(name)  # noqa: E731
            node.wait_for(gone, f"the deleted row is gone, {policy}")
    assert shop.target("goods_fail") == before
    assert shop.target("goods_ignore") == {2: {"id": 2, "name": "hammer"}}
    assert shop.target("goods_evolve") == shop.source("goods")


@pytest.mark.parametrize("unwraps", [False, True])
def test_begins_and_ends_of_transactions_come_beside_changes(
    shop: Shop, tmp_path: Path, unwraps: bool
) -> None:
    """The transform that takes rows out of envelopes leaves them as they are."""
    shop.sql("CREATE TABLE goods (id INT PRIMARY KEY, at DATETIME(6))")
    shop.sql("INSERT INTO goods VALUES (1, '2024-02-29 12:00:00.123456')")
    source = {
        **shop.changes,
        "output.format": "debezium",
        "topic.prefix": "at",
        "provide.transaction.metadata": "true",
        "time.precision.mode": "adaptive",
    }
    sink = {
        "connector.class": "file-sink",
        "file": str(tmp_path / "${topic}.jsonl"),
        "format": "jsonl",
    }
    transforms = [{"name": "unwrap", "type": "ExtractNewRecordState"}] if unwraps else []

    def rows(dataset: str) -> list[dict[str, Any]]:
        file = tmp_path / f"{dataset}.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def ends() -> list[object]:
        found = [one for one in rows("at.transaction") if one["status"] == "END"]
        return [one["data_collections"] for one in found]

    document = {"source": source, "transforms": transforms, "sink": sink}
    module = "penstock.cli" if unwraps else PLAIN
    with Pipeline(tmp_path, document, module).running() as process:
        process.wait_for(lambda: rows("at.shop.goods"), SOON, "the row that is read")
        shop.sql("INSERT INTO goods VALUES (2, NULL)", "INSERT INTO goods VALUES (3, NULL)")
        process.wait_for(ends, SOON, "the end of the transaction of two rows")
        process.stop()
        ended(process)
    assert ends() == [[{"data_collection": "shop.goods", "event_count": 2}]]
    first = rows("at.shop.goods")[0]
    assert (first if unwraps else first["after"])["at"] == 1_709_208_000_123_456
