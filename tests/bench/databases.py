"""Rows of one table, `(id bigint, name varchar(64), price decimal(12,2), updated_at timestamp(6))`,
between MariaDB, a topic and PostgreSQL: a cluster of one worker with its defaults, servers beside
it on the same cores.

- MariaDB → topic: a connector is created on a full table; until the last row is in the topic
- topic → PostgreSQL and MariaDB: a sink is created on the full topic; until the last row is there
- CDC of MariaDB: a snapshot of a full table; then the log of transactions of 1,000 rows that were
  committed while the connector was stopped
- one row: inserted in MariaDB until it is visible in PostgreSQL, with no topic between

Counts and sums of both sides are compared after each. Every figure has one run before it that is
not counted.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psycopg
import pymysql

from penstock.model.connector import ConnectorKind, TargetState
from penstock.model.status import RunState
from penstock.topic.embedded.topics import folder_name
from report import Report, arguments, percentile
from running import working_folder
from support.cluster import READY, Cluster
from support.mariadb import PASSWORD, USER, MariadbServer
from support.postgresql import PostgresqlServer

TABLE = (
    "id bigint primary key, name varchar(64) not null, price decimal(12,2) not null, "
    "updated_at timestamp(6) not null"
)
ROW = "seq, concat('item number ', seq, ' of the shop'), round(seq*0.37+0.5,2)"
SUMS = "count(*), coalesce(sum(price), 0), coalesce(min(id), 0), coalesce(max(id), 0)"
LOOK = 0.02
"""Seconds between two looks at what arrived: the error of each figure."""


@dataclass
class World:
    """The servers, the cluster, and connections to look at them."""

    cluster: Cluster
    maria: MariadbServer
    postgres: PostgresqlServer
    shop: Any
    store: Any
    made: int = 0
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def fill(self, table: str, rows: int, first: int = 1, each: int = 100_000) -> None:
        """Make rows in MariaDB, in transactions of `each`."""
        self.ask(f"create table if not exists {table} ({TABLE}) engine=innodb")
        for low in range(first, first + rows, each):
            high = min(low + each, first + rows) - 1
            self.ask(
                f"insert into {table} select {ROW}, "
                f"timestamp('2026-01-01') + interval seq second from seq_{low}_to_{high}"
            )

    def ask(self, sql: str) -> tuple[tuple[Any, ...], ...]:
        """Run a statement in MariaDB."""
        with self.shop.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def in_topic(self, topic: str) -> int:
        """Return how many rows were ever committed to a topic; reads only new lines of its log."""
        log = self.cluster.folder / "topics" / folder_name(topic) / "_delta_log"
        version, rows = self.seen.get(topic, (0, 0))
        while (file := log / f"{version:020}.json").exists():
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            adds = [line["add"] for line in lines if "add" in line and line["add"]["dataChange"]]
            rows += sum(json.loads(add["stats"])["numRecords"] for add in adds)
            version += 1
        self.seen[topic] = version, rows
        return rows

    def run(self, kind: ConnectorKind, config: Mapping[str, Any]) -> str:
        """Create a connector; returns its name."""
        self.made += 1
        name = f"c{self.made}"
        self.cluster.create(name, config, kind)
        return name

    def end(self, name: str) -> None:
        """Delete a connector and wait until it is gone."""
        self.cluster.config(lambda config: config.delete(name))
        self.cluster.until(lambda: self.cluster.status(name) is None, READY, f"{name} to end")

    def until(self, name: str, arrived: Callable[[], int], rows: int) -> None:
        """Wait until so many rows arrived; a connector that failed ends the benchmark."""
        deadline, checked = time.monotonic() + 300, time.monotonic()
        while arrived() < rows:
            time.sleep(LOOK)
            if time.monotonic() - checked > 1:
                checked = time.monotonic()
                status = self.cluster.status(name)
                if status and any(task.state is RunState.FAILED for task in status.tasks):
                    sys.exit(f"{name} failed: {status}")
            if time.monotonic() > deadline:
                sys.exit(f"{name}: {arrived()} of {rows} rows after 300 s")


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Start everything."""
    with MariadbServer() as maria, PostgresqlServer() as postgres, Cluster(folder) as cluster:
        maria.sql("CREATE DATABASE shop")
        where = {"host": "127.0.0.1", "port": maria.port, "user": USER, "password": PASSWORD}
        shop = pymysql.connect(database="shop", autocommit=True, **where)
        store = psycopg.connect(postgres_text(postgres), autocommit=True)
        cluster.workers("worker", **{"spark.driver.memory": "1g"})
        try:
            yield World(cluster, maria, postgres, shop, store)
        finally:
            shop.close()
            store.close()


def postgres_text(server: PostgresqlServer) -> str:
    """Return libpq's text for the server."""
    return f"host=127.0.0.1 port={server.port} user=penstock dbname=postgres"


# ── the connectors
# ──────────────────────────────────────────────────────────────────────────────────────────────────


def at_maria(world: World, prefix: str = "") -> dict[str, str]:
    """Return how connectors reach MariaDB."""
    keys = {"url": world.maria.url("shop"), "user": USER, "password": PASSWORD}
    return {f"{prefix}connection.{key}": value for key, value in keys.items()}


def at_postgres(world: World, prefix: str = "") -> dict[str, str]:
    """Return how connectors reach PostgreSQL."""
    url = f"jdbc:postgresql://127.0.0.1:{world.postgres.port}/postgres"
    keys = {"url": url, "user": "penstock"}
    return {f"{prefix}connection.{key}": value for key, value in keys.items()}


def polling(world: World, table: str, prefix: str = "") -> dict[str, Any]:
    """Return a source that reads what is new in a table."""
    return {
        f"{prefix}connector.class": "jdbc-source",
        **at_maria(world, prefix),
        f"{prefix}mode": "incrementing",
        f"{prefix}incrementing.column.name": "id",
        f"{prefix}table.whitelist": table,
    }


def capturing(world: World, table: str, prefix: str = "") -> dict[str, Any]:
    """Return a source that reads a table's log, after a snapshot."""
    return {
        f"{prefix}connector.class": "mysql-cdc",
        **at_maria(world, prefix),
        f"{prefix}table.include.list": f"shop.{table}",
    }


def storing(where: Mapping[str, str], mode: str, table: str, prefix: str = "") -> dict[str, Any]:
    """Return a sink that makes its table."""
    return {
        f"{prefix}connector.class": "jdbc-sink",
        **where,
        f"{prefix}auto.create": True,
        f"{prefix}insert.mode": mode,
        f"{prefix}pk.mode": "record_value",
        f"{prefix}pk.fields": "id",
        f"{prefix}table.name.format": table,
    }


# ── measurements
# ──────────────────────────────────────────────────────────────────────────────────────────────────


def source_leg(world: World, rows: int, runs: int, report: Report) -> str:
    """MariaDB → topic; returns a topic with all rows."""
    rates = []
    for n in range(runs + 1):
        table = f"items{n}"
        world.fill(table, rows)
        began = time.monotonic()
        name = world.run(ConnectorKind.SOURCE, polling(world, table))
        world.until(name, lambda topic=table: world.in_topic(topic), rows)
        rates.append(rows / (time.monotonic() - began))
        world.end(name)
    report.add("MariaDB → topic, incrementing", "rows/s", *rates[1:], at_least=350_000)
    return table


def sink_leg(world: World, topic: str, rows: int, runs: int, report: Report) -> None:
    """Topic → PostgreSQL and MariaDB."""
    expected = sums(world.ask(f"select {SUMS} from {topic}"))
    for what, mode, goal in (
        ("PostgreSQL", "insert", 300_000),
        ("PostgreSQL", "upsert", 200_000),
        ("MariaDB", "insert", 150_000),
    ):
        rates = []
        for n in range(runs + 1):
            table = f"out_{mode}{n}"
            there = at_postgres(world) if what == "PostgreSQL" else at_maria(world)
            look = in_postgres(world, table) if what == "PostgreSQL" else in_maria(world, table)
            began = time.monotonic()
            config = {**storing(there, mode, table), "topics": topic}
            name = world.run(ConnectorKind.SINK, config)
            world.until(name, lambda look=look: int(look("coalesce(max(id), 0)")[0]), rows)
            rates.append(rows / (time.monotonic() - began))
            world.end(name)
            if sums([look(SUMS)]) != expected:
                sys.exit(f"WRONG ROWS in {what}: {look(SUMS)}, not {expected}")
        report.add(f"topic → {what}, {mode}", "rows/s", *rates[1:], at_least=goal)


def cdc_leg(world: World, snapshot: int, streamed: int, runs: int, report: Report) -> None:
    """A snapshot, and the log of what was committed while the connector was stopped."""
    rates: dict[str, list[float]] = {"snapshot": [], "log": []}
    for n in range(runs + 1):
        table = f"captured{n}"
        topic = f"shop.{table}"
        world.fill(table, snapshot)
        began = time.monotonic()
        name = world.run(ConnectorKind.SOURCE, capturing(world, table))
        world.until(name, lambda topic=topic: world.in_topic(topic), snapshot)
        rates["snapshot"].append(snapshot / (time.monotonic() - began))
        world.cluster.config(
            lambda config, name=name: config.set_target_state(name, TargetState.STOPPED)
        )
        stopped = lambda name=name: not (world.cluster.status(name) or _NOTHING).tasks  # noqa: E731
        world.cluster.until(stopped, READY, "the connector to stop")
        world.fill(table, streamed, first=snapshot + 1, each=1000)
        began = time.monotonic()
        world.cluster.config(
            lambda config, name=name: config.set_target_state(name, TargetState.RUNNING)
        )
        world.until(name, lambda topic=topic: world.in_topic(topic), snapshot + streamed)
        rates["log"].append(streamed / (time.monotonic() - began))
        world.end(name)
    report.add("MariaDB snapshot → topic", "rows/s", *rates["snapshot"][1:], at_least=200_000)
    report.add("MariaDB log → topic", "rows/s", *rates["log"][1:], at_least=60_000)


def latency_leg(world: World, samples: int, report: Report) -> None:
    """One row at a time, MariaDB → PostgreSQL, directly."""
    for how, source in (("jdbc-source", polling), ("mysql-cdc", capturing)):
        table = f"one_{how.partition('-')[0]}"
        world.fill(table, 1)
        sink = storing(at_postgres(world, "sink."), "upsert", table, "sink.")
        config = {**source(world, table, "source."), **sink}
        name = world.run(ConnectorKind.PIPELINE, config)
        look = in_postgres(world, table)
        world.until(name, lambda look=look: int(look("count(*)")[0]), 1)
        taken = [one_row(world, table, n) for n in range(2, samples + 22)][20:]
        world.end(name)
        report.add(f"one row, {how}, p50", "ms", statistics.median(taken), at_most=100)
        report.add(f"one row, {how}, p99", "ms", percentile(taken, 99), at_most=300)


def one_row(world: World, table: str, n: int) -> float:
    """Insert a row; returns the milliseconds until it is visible in PostgreSQL."""
    time.sleep(0.1 + random.Random(n).random() / 5)  # out of step with every poll
    began = time.monotonic()
    world.ask(f"insert into {table} values ({n}, 'one', 1.5, now(6))")
    while not world.store.execute(f"select 1 from {table} where id = {n}").fetchone():
        if time.monotonic() - began > 30:
            sys.exit(f"row {n} did not arrive")
    return (time.monotonic() - began) * 1000


def in_postgres(world: World, table: str) -> Callable[[str], tuple[Any, ...]]:
    """Return what asks a table in PostgreSQL; zeros while there is none."""

    def look(what: str) -> tuple[Any, ...]:
        try:
            return world.store.execute(f"select {what} from {table}").fetchone()
        except psycopg.errors.UndefinedTable:
            return (0,)

    return look


def in_maria(world: World, table: str) -> Callable[[str], tuple[Any, ...]]:
    """Return what asks a table in MariaDB; zeros while there is none."""

    def look(what: str) -> tuple[Any, ...]:
        try:
            return world.ask(f"select {what} from {table}")[0]
        except pymysql.err.ProgrammingError:
            return (0,)

    return look


def sums(rows: Any) -> tuple[float, ...]:
    """Return what two tables are compared by."""
    return tuple(float(value) for value in rows[0])


class _Nothing:
    tasks = ()


_NOTHING = _Nothing()


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--legs", default="source,sink,cdc,latency")
    options = parser.parse_args()
    legs = options.legs.split(",")
    report = Report("databases", facts={"rows": options.rows})
    with working_folder(keep=options.keep) as folder, world(folder) as servers:
        if {"source", "sink"} & set(legs):
            topic = source_leg(servers, options.rows, options.runs, report)
            if "sink" in legs:
                sink_leg(servers, topic, options.rows, options.runs, report)
        if "cdc" in legs:
            half, third = options.rows // 2, options.rows * 3 // 10
            cdc_leg(servers, half, third, options.runs, report)
        if "latency" in legs:
            latency_leg(servers, options.samples, report)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
