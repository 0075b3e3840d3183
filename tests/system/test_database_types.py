"""Every type of three databases, through topics, in four: value by value what the sinks promise.

One start of the command has all of it; the tests look at what came out.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from support.databend import read_folder
from support.golden import SINKS, TABLES, height, statements
from support.mariadb import PASSWORD, USER, MariadbServer
from support.postgresql import PostgresqlServer
from support.processes import PLAIN
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(300)

REFUSING = ("mysql", "postgresql", "sqlite")


class Golden:
    """The tables in their databases, and where they go: databases `source` and `target`."""

    def __init__(self, folder: Path, mariadb: MariadbServer, postgresql: PostgresqlServer) -> None:
        self.folder, self.mariadb, self.postgresql = folder, mariadb, postgresql
        for server in (mariadb, postgresql):
            for name in ("source", "target", "refusing"):
                server.sql(f"CREATE DATABASE {name}")
        for kind, columns in TABLES.items():
            null = " NULL" if kind == "mysql" else ""
            with self.connect(kind, "source") as session:
                cursor = session.cursor()
                if kind == "postgresql":
                    cursor.execute("CREATE TYPE mood AS ENUM ('so, so', 'ok')")
                for statement in statements(kind, columns, '"' if kind != "mysql" else "`", null):
                    cursor.execute(statement)
                session.commit()

    @contextlib.contextmanager
    def connect(self, kind: str, database: str) -> Iterator[Any]:
        """Open a session in UTC."""
        if kind == "mysql":
            session: Any = pymysql.connect(
                host="127.0.0.1", port=self.mariadb.port, user=USER, password=PASSWORD,
                database=database, charset="utf8mb4", init_command="SET time_zone='+00:00'",
            )  # fmt: skip
        elif kind == "postgresql":
            where = f"host=127.0.0.1 port={self.postgresql.port} dbname={database} user=penstock"
            session = psycopg.connect(f"{where} options='-c timezone=UTC'")
        else:
            session = sqlite3.connect(self.folder / f"{database}.db", timeout=10)
        with contextlib.closing(session):
            yield session

    def keys(self, kind: str, database: str) -> dict[str, object]:
        """Return how a connector reaches a database."""
        urls = {
            "mysql": self.mariadb.url(database),
            "postgresql": f"jdbc:postgresql://127.0.0.1:{self.postgresql.port}/{database}",
            "sqlite": f"jdbc:sqlite:{self.folder}/{database}.db",
            "databend": f"databend+local://{self.folder}/databend",
        }
        login = {"connection.user": USER, "connection.password": PASSWORD}
        return {"connection.url": urls[kind], **(login if kind in {"mysql", "postgresql"} else {})}

    def source(self, kind: str) -> dict[str, object]:
        """Return the configuration of a source of a table, to the topic `golden-<kind>`."""
        return {
            "connector.class": "jdbc-source",
            **self.keys(kind, "source"),
            "mode": "incrementing",
            "incrementing.column.name": "k",
            "table.whitelist": kind,
            "topic.prefix": "golden-",
        }

    def sink(self, kind: str, database: str = "target") -> dict[str, object]:
        """Return the configuration of a sink of what it can hold; in `refusing`, of the rest."""
        refusing = database == "refusing"
        taken = [
            f"{table}_{n}"
            for table, columns in TABLES.items()
            for n, column in enumerate(columns)
            if (kind in column.refused) is refusing
        ]
        return {
            "connector.class": "databend-sink" if kind == "databend" else "jdbc-sink",
            **self.keys(kind, database),
            "auto.create": "true",
            "topics.regex": "golden-.*",
            "transforms": "keep",
            "transforms.keep.type": "ReplaceField",
            "transforms.keep.include": ",".join(["k", *taken]),
            "flush.interval": "0",
        }

    def rows(self, kind: str, table: str) -> list[dict[str, Any]]:
        """Return what a target has of a table, by its key."""
        quote = "`" if kind == "mysql" else '"'
        sql = f"SELECT * FROM {quote}golden-{table}{quote} ORDER BY k"
        if kind == "databend":
            texts = [
                f'to_string("{table}_{n}") AS "{table}_{n}"'
                for n, column in enumerate(TABLES[table])
                if column.kind == "json"  # the engine's own bytes otherwise
            ]
            others = f"* EXCLUDE ({', '.join(text.split()[-1] for text in texts)})"
            if texts:
                sql = sql.replace("*", ", ".join([others, *texts]), 1)
            rows = read_folder(self.folder / "databend", sql).to_pylist()
        else:
            with self.connect(kind, "target") as session:
                cursor = session.cursor()
                cursor.execute(sql)
                names = [column[0] for column in cursor.description]
                rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return [{name: plain(value) for name, value in row.items()} for row in rows]


def plain(value: Any) -> Any:
    """Return a value without what only tells its driver."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return value


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Golden, dict[str, str]]]:
    """All sources and sinks, at their end; and with which codes the refusing ones failed."""
    folder = tmp_path_factory.mktemp("golden")
    total = sum(map(height, TABLES.values()))
    with MariadbServer() as mariadb, PostgresqlServer() as postgresql:
        golden = Golden(folder, mariadb, postgresql)
        connectors = {f"from-{kind}": golden.source(kind) for kind in TABLES}
        connectors |= {f"to-{kind}": golden.sink(kind) for kind in SINKS}
        connectors |= {f"refuse-{kind}": golden.sink(kind, "refusing") for kind in REFUSING}
        with Standalone(folder / "node", module=PLAIN, **connectors) as node:
            codes = {kind: node.failure(f"refuse-{kind}") for kind in REFUSING}
            for kind in SINKS:
                written = lambda name=f"to-{kind}": node.written(name) == total  # noqa: E731
                node.wait_for(written, f"all rows in {kind}")
            node.process.stop()
        yield golden, codes


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("source", TABLES)
def test_every_value_is_what_the_sink_says_of_its_type(
    ran: tuple[Golden, dict[str, str]], source: str, sink: str
) -> None:
    """The row of nulls among them."""
    columns = TABLES[source]
    found = ran[0].rows(sink, source)
    assert [row["k"] for row in found] == list(range(height(columns)))
    wrong = []
    for n, column in enumerate(columns):
        name = f"{source}_{n}"
        if sink in column.refused:
            assert name not in found[0]
            continue
        values = [row[name] for row in found]
        expected = column.expected(sink, len(found))
        if repr(values) != repr(expected):
            wrong.append((column.native, values, expected))
    assert wrong == []


@pytest.mark.parametrize("sink", REFUSING)
def test_a_value_that_a_sink_cannot_hold_is_an_error_with_a_code(
    ran: tuple[Golden, dict[str, str]], sink: str
) -> None:
    """Times of more than a day and U+0000 in PostgreSQL, infinities in MariaDB and SQLite."""
    assert ran[1][sink] == "jdbc.value"
