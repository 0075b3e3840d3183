"""The scenarios that RocketMQ Connect is described by, over a real RocketMQ: a database feeds a
search server and a database for analysis over one topic, with all of its inserts, updates and
deletes; and messages of ActiveMQ move to RocketMQ while producers go on.

The node is killed in the middle of each.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.activemq import ActivemqBroker
from support.mariadb import PASSWORD, USER, MariadbServer
from support.postgresql import PostgresqlServer
from support.processes import PLAIN
from support.rocketmq import RocketmqCluster
from support.search_servers import ElasticsearchServer
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(600)

ROWS = 2_000


@pytest.fixture(scope="module")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketmqCluster]:
    """The broker of both scenarios."""
    with RocketmqCluster(tmp_path_factory.mktemp("rocketmq")) as cluster:
        yield cluster


def node(rocketmq: RocketmqCluster, **more: str) -> dict[str, str]:
    """Keys of a node whose topics are RocketMQ's."""
    login = {f"rocketmq.{key}": text for key, text in rocketmq.login.items()}
    return {"namesrv.addr": rocketmq.namesrv, "key.converter": "json", **login, **more}


def columns_of(row: dict[str, Any]) -> tuple[int, str, int]:
    return row["id"], row["name"], row["amount"]


def orders_of(mariadb: MariadbServer) -> set[tuple[int, str, int]]:
    lines = mariadb.sql("SELECT id, name, amount FROM orders", "shop").splitlines()
    rows = [line.split("\t") for line in lines if line.split("\t")[0].isdecimal()]
    return {(int(id_), name, int(amount)) for id_, name, amount in rows}


def found_orders(search: ElasticsearchServer) -> set[tuple[int, str, int]]:
    query = "/orders/_search?size=10000"
    search.request("POST", "/orders/_refresh?ignore_unavailable=true")
    hits = search.request("GET", f"{query}&ignore_unavailable=true")["hits"]["hits"]
    return {columns_of(hit["_source"]) for hit in hits}


def analysed_orders(postgresql: PostgresqlServer) -> set[tuple[int, str, int]]:
    where = f"host=127.0.0.1 port={postgresql.port} dbname=postgres user=penstock"
    with psycopg.connect(where, row_factory=psycopg.rows.dict_row) as session:
        try:
            return {columns_of(row) for row in session.execute("SELECT * FROM orders")}
        except psycopg.errors.UndefinedTable:
            return set()


def test_a_database_feeds_search_and_analysis_over_one_topic(
    rocketmq: RocketmqCluster, tmp_path: Path
) -> None:
    with (
        MariadbServer() as mariadb,
        PostgresqlServer() as postgresql,
        ElasticsearchServer(tmp_path / "elasticsearch") as search,
    ):
        sql = partial(mariadb.sql, database="shop")
        mariadb.sql("CREATE DATABASE shop")
        sql("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(40), amount INT)")
        sql(f"INSERT INTO orders SELECT seq, CONCAT('n', seq), 0 FROM seq_1_to_{ROWS}")
        connectors = {
            "changes": {
                "connector.class": "mysql-cdc",
                "connection.url": mariadb.url(),
                "connection.user": USER,
                "connection.password": PASSWORD,
                "table.include.list": "shop.orders",
                "transforms": "route",
                "transforms.route.type": "RegexRouter",
                "transforms.route.regex": "shop[.](.*)",
                "transforms.route.replacement": "$1",
            },
            "search": {
                "connector.class": "elasticsearch-sink",
                "connection.url": search.url,
                "behavior.on.null.values": "delete",
                "topics": "orders",
            },
            "analysis": {
                "connector.class": "jdbc-sink",
                "connection.url": f"jdbc:postgresql://127.0.0.1:{postgresql.port}/postgres",
                "connection.user": "penstock",
                "auto.create": "true",
                "insert.mode": "upsert",
                "pk.mode": "record_key",
                "delete.enabled": "true",
                "topics": "orders",
            },
        }

        def is_equal() -> bool:
            wanted = orders_of(mariadb)
            return wanted == found_orders(search) == analysed_orders(postgresql)

        started = partial(Standalone, tmp_path / "node", node(rocketmq), module=PLAIN, **connectors)
        with started() as running:
            running.wait_for(lambda: len(found_orders(search)) > ROWS / 2, "half of the rows")
            sql("UPDATE orders SET amount = amount + id WHERE id % 3 = 0")
            sql("DELETE FROM orders WHERE id % 5 = 0")
            running.process.kill()
        sql("UPDATE orders SET name = 'changed' WHERE id = 1")
        sql(f"INSERT INTO orders VALUES ({ROWS + 1}, 'new', 7), (5, 'again', 8)")
        with started() as running:
            running.wait_for(is_equal, "the same rows in all three")
            sql("UPDATE orders SET id = 0 WHERE id = 1")
            sql("DELETE FROM orders WHERE id = 2")
            running.wait_for(is_equal, "the last changes in all three")
        assert len(orders_of(mariadb)) == ROWS - ROWS / 5 + 1


def test_messages_move_from_activemq_to_rocketmq_while_producers_go_on(
    rocketmq: RocketmqCluster, tmp_path: Path
) -> None:
    """With the configuration of RocketMQ Connect's source."""
    rocketmq.create_topic("moved")
    with ActivemqBroker("classic", tmp_path / "activemq") as activemq:
        stopped, sent = threading.Event(), list[int]()

        def produce() -> None:
            while not stopped.is_set():
                numbers = range(len(sent), len(sent) + 5)
                activemq.send("orders", *(json.dumps({"n": n}).encode() for n in numbers))
                sent.extend(numbers)
                stopped.wait(0.1)

        login = activemq.login
        move = {
            "connector.class": (
                "org.apache.rocketmq.connect.activemq.connector.ActivemqSourceConnector"
            ),
            "activemqUrl": login["activemq.url"],
            "activemqUsername": login["activemq.username"],
            "activemqPassword": login["activemq.password"],
            "destinationName": "orders",
            "destinationType": "queue",
            "value.converter.schemas.enable": "false",
            "connect.topicname": "moved",
        }

        settings = node(rocketmq, **{"value.converter.schemas.enable": "false"})

        def moved() -> list[int]:
            return [json.loads(body)["n"] for body in rocketmq.read("moved").bodies]

        started = partial(Standalone, tmp_path / "node", settings, module=PLAIN, move=move)
        producer = threading.Thread(target=produce)
        producer.start()
        try:
            with started() as running:
                running.wait_for(lambda: len(moved()) > 100, "messages")
                running.process.kill()
            with started() as running:
                before = len(sent)
                running.wait_for(lambda: len(set(moved())) > before, "messages after the restart")
                stopped.set()
                producer.join()
                running.wait_for(lambda: set(moved()) >= set(sent), "all messages")
        finally:
            stopped.set()
            producer.join()
        found = moved()
    assert list(dict.fromkeys(found)) == sent, "all, in their order, and nothing else"
