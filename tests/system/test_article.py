"""An article for Kafka Connect, step by step, with its files as they are: MySQL → Kafka → Databend.

https://www.databend.com/blog, "Building Real-time Data Synchronization with Databend Kafka
Connect". What differs: where the servers are, and who logs in.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock_kit.testing import PenstockProcess
from support.databend import PASSWORD as DATABEND_PASSWORD
from support.databend import USER as DATABEND_USER
from support.databend import DatabendServer
from support.kafka import KafkaServer
from support.mariadb import PASSWORD, USER, MariadbServer
from system.pipelines import ended, nothing_left

STANDALONE = """\
bootstrap.servers={kafka}
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.file.filename={folder}/connect.offsets
offset.flush.interval.ms=10000
"""

MYSQL = """\
name=test-source-mysql-autoincrement
connector.class=io.confluent.connect.jdbc.JdbcSourceConnector
tasks.max=1
connection.url=jdbc:mysql://127.0.0.1:{mysql}/mydb?useSSL=false
connection.user={user}
connection.password={password}
#mode=timestamp+incrementing
mode=incrementing
table.whitelist=mydb.test_kafka
poll.interval.ms=1000
table.poll.interval.ms=3000
incrementing.column.name=id
#timestamp.column.name=tms
topics=test_kafka
"""

DATABEND = """\
name=databend
connector.class=com.databend.kafka.connect.DatabendSinkConnector

connection.url=jdbc:databend://127.0.0.1:{databend}
connection.user={databend_user}
connection.password={databend_password}
connection.attempts=5
connection.backoff.ms=10000
connection.database=default

table.name.format=default.${topic}
max.retries=10
batch.size=1
auto.create=true
auto.evolve=true
insert.mode=upsert
pk.mode=record_value
pk.fields=id
topics=test_kafka
errors.tolerance=all
"""

CREATE = """\
CREATE DATABASE mydb;
USE mydb;
CREATE TABLE test_kafka (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(255) NOT NULL, description VARCHAR(512));
ALTER TABLE test_kafka AUTO_INCREMENT = 10;
"""

INSERT = """\
INSERT INTO test_kafka VALUES (default,"scooter","Small 2-wheel scooter"),
(default,"car battery","12V car battery"),
(default,"12-pack drill bits","12-pack of drill bits with sizes ranging from #40 to #3"),
(default,"hammer","12oz carpenter's hammer"),
(default,"hammer","14oz carpenter's hammer"),
(default,"hammer","16oz carpenter's hammer"),
(default,"rocks","box of assorted rocks"),
(default,"jacket","water resistent black wind breaker"),
(default,"cloud","test for databend"),
(default,"spare tire","24 inch spare tire");
"""

STARTED = 180.0
"""Seconds until rows arrive, with a start of a JVM before the first."""


class Walk:
    """The servers of the article, and its files in a folder."""

    def __init__(
        self, folder: Path, kafka: KafkaServer, mysql: MariadbServer, databend: DatabendServer
    ) -> None:
        self.folder, self.kafka, self.mysql, self.databend = folder, kafka, mysql, databend
        self.runs = 0
        texts = {"connect-standalone": STANDALONE, "databend": DATABEND, "mysql": MYSQL}
        self.files = [self.write(name, text) for name, text in texts.items()]

    def write(self, name: str, text: str) -> Path:
        """Write a file of the article."""
        values = {
            "folder": self.folder, "kafka": self.kafka.bootstrap,
            "mysql": self.mysql.port, "databend": self.databend.port,
            "user": USER, "password": PASSWORD,
            "databend_user": DATABEND_USER, "databend_password": DATABEND_PASSWORD,
        }  # fmt: skip
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", str(value))
        path = self.folder / f"{name}.properties"
        path.write_text(text, encoding="utf-8")
        return path

    def standalone(self) -> PenstockProcess:
        """Return the next start of the command."""
        self.runs += 1
        return PenstockProcess(self.folder / f"run{self.runs}", "standalone", *self.files)

    def sql(self, statement: str) -> None:
        """Run a statement in the source's database."""
        self.mysql.sql(statement, "mydb")

    def target(self) -> list[tuple]:
        """Return the target table's rows in order of `id`; none while there is no table."""
        there = "SELECT 1 FROM system.tables WHERE database = 'default' AND name = 'test_kafka'"
        if not self.databend.read(there).num_rows:
            return []
        table = self.databend.read('SELECT * FROM "default"."test_kafka" ORDER BY id')
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture
def walk(tmp_path: Path):
    """The article's servers: a timestamp of MySQL 5.7 is not null, and follows updates."""
    with (
        KafkaServer(tmp_path / "kafka") as kafka,
        MariadbServer("--explicit-defaults-for-timestamp=OFF") as mysql,
        DatabendServer() as databend,
    ):
        yield Walk(tmp_path, kafka, mysql, databend)


def arrives(process: PenstockProcess, holds: Callable[[], object], stage: str) -> None:
    """Wait for a condition."""
    process.wait_for(holds, STARTED, stage)


@pytest.mark.timeout(600)
def test_the_article_runs_from_beginning_to_end(walk: Walk) -> None:
    """Insert, DDL, upsert."""
    walk.mysql.sql(CREATE)
    with walk.standalone() as process:
        assert walk.target() == [], "before inserting data, no table is created"
        walk.sql(INSERT)
        arrives(process, lambda: len(walk.target()) == 10, "ten rows in the target")
        stop(process)
    rows = walk.target()
    assert [row[0] for row in rows] == list(range(10, 20))
    assert rows[3] == (13, "hammer", "12oz carpenter's hammer")

    # Support DDL: a new column, and the mode that reads by it
    walk.sql("alter table test_kafka add column tms timestamp")
    text = MYSQL.replace("#mode=", "mode=", 1).replace("\nmode=inc", "\n#mode=inc")
    walk.write("mysql", text.replace("#timestamp.column.name", "timestamp.column.name"))
    with walk.standalone() as process:
        walk.sql("insert into test_kafka values(20,'new data','from kafka',now())")
        arrives(process, lambda: len(walk.target()) == 11, "the new row in the target")
        assert walk.target()[-1][:3] == (20, "new data", "from kafka")
        assert walk.target()[-1][3] is not None, "the new column is there, with its value"

        # Upsert
        walk.sql("update test_kafka set name='update from kafka test' where id=20")
        updated = lambda: walk.target()[-1][1] == "update from kafka test"  # noqa: E731
        arrives(process, updated, "the update in the target")
        assert len(walk.target()) == 11
        stop(process)
    assert DATABEND_PASSWORD not in process.output
    assert len(walk.kafka.read("test_kafka")) >= 12, "all rows went through the broker"


def stop(process: PenstockProcess) -> None:
    """End the command as Ctrl-C does, and see that nothing is left."""
    process.stop()
    assert ended(process).code == 0
    nothing_left(process)
