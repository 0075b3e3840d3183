"""Many connectors on topics of Kafka, and one topic of many partitions.

- `--connectors` sources of a file each are created by REST, one after the other: seconds until all
  are created, until all run, until a line of each is in its topic; memory; CPU at rest. The same
  with Kafka Connect, against the same broker.
- a topic of `--partitions` partitions with `--rows` rows is read by a sink of 12 tasks on three
  workers: seconds until all rows are in the sink's files, and how tasks and partitions are spread.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import kafka_connect
from kafka_connect import KafkaConnect
from report import Report
from running import document, working_folder

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' servers
from penstock.model.connector import ConnectorKind
from penstock_kit.testing import PenstockProcess, wait_until
from support.cluster import Cluster

LIMIT = 1200.0
"""Seconds that all connectors may take to run."""

SETTLING_S = 30.0
"""Seconds after which a JVM has compiled what it ran."""

REST_S = 30.0
"""Seconds at rest in which CPU is measured."""

TASKS = 12
WORKERS = ("w1", "w2", "w3")


class Rest:
    """Kafka Connect's REST API."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer of a call."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or b"null")

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector."""
        self.call("POST", "/connectors", {"name": name, "config": dict(config)})

    def count_running(self) -> int:
        """Return the number of running tasks."""
        found = self.call("GET", "/connectors?expand=status")
        return sum(
            task["state"] == "RUNNING" for one in found.values() for task in one["status"]["tasks"]
        )


def measure_connectors(
    report: Report, label: str, rest: Rest, folder: Path, count: int, bootstrap: str
) -> str:
    """Create sources, and wait until each of them has written its line to its topic. Returns what
    their names and topics begin with.
    """
    prefix = f"many-{time.monotonic_ns()}"
    for number in range(count):
        (folder / f"{number}.txt").write_text(f"line of {number}\n", encoding="utf-8")
    began = time.monotonic()
    for number in range(count):
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(folder / f"{number}.txt"),
            "topic": f"{prefix}-{number}",
            "tasks.max": "1",
            **kafka_connect.STRINGS,
        }
        rest.create(f"{prefix}-{number}", config)
    report.add(f"{label}: all are created", "s", time.monotonic() - began)
    wait_seldom(lambda: rest.count_running() >= count, "all to run")
    report.add(f"{label}: all run", "s", time.monotonic() - began)
    wait_seldom(lambda: count_topics(bootstrap, prefix) >= count, "all topics")
    report.add(f"{label}: a line of each is in its topic", "s", time.monotonic() - began)
    return prefix


def delete_connectors(rest: Rest, prefix: str, count: int, bootstrap: str) -> None:
    """Delete the connectors and their topics."""
    for number in range(count):
        rest.call("DELETE", f"/connectors/{prefix}-{number}")
    delete_topics(bootstrap, prefix)


def wait_seldom(condition: Callable[[], bool], stage: str) -> None:
    """Wait for a condition, which is costly to ask for."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LIMIT:g} s for {stage}")
        time.sleep(2)


def count_topics(bootstrap: str, prefix: str) -> int:
    """Return the number of topics with a prefix."""
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    return sum(name.startswith(prefix) for name in topics)


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete all topics with a prefix, and wait until the broker has done it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]
    for done in admin.delete_topics(names).values():
        done.result(60)
    wait_until(lambda: not count_topics(bootstrap, prefix), LIMIT, "topics to be deleted")


def measure_partitions(report: Report, bootstrap: str, partitions: int, rows: int) -> None:
    """Read a topic of many partitions by three workers."""
    topic = f"partitions-{time.monotonic_ns()}"
    create_topic(bootstrap, topic, partitions)
    size = produce_rows(bootstrap, topic, partitions, rows)
    with working_folder() as folder, Cluster(folder) as cluster:
        cluster.workers(*WORKERS, **{"spark.master": "local[1,1]", "bootstrap.servers": bootstrap})
        config = {
            "connector.class": "file-sink",
            "path": str(folder / "out"),
            "format": "text",
            "topics": topic,
            "tasks.max": str(TASKS),
            **kafka_connect.STRINGS,
        }
        began = time.monotonic()
        cluster.create("read", config, ConnectorKind.SINK)
        cluster.running("read", TASKS)
        report.add(f"{partitions} partitions: all tasks run", "s", time.monotonic() - began)
        cluster.until(lambda: visible(folder / "out") >= size, LIMIT, "all rows")
        seconds = time.monotonic() - began
        report.add(f"{partitions} partitions: all rows are in files", "s", seconds)
        report.add(f"{partitions} partitions: rows", "rows/s", rows / seconds)
        status = cluster.status("read")
        assert status is not None
        spread = Counter(task.worker for task in status.tasks)
        report.add("tasks of the busiest worker of three", "tasks", max(spread.values()))


def visible(folder: Path) -> int:
    """Return the bytes of the visible files of a folder."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in found if not path.name.startswith((".", "_")))


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic, and wait until the broker knows it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
    wait_until(lambda: count_topics(bootstrap, topic) == 1, 60, "the topic")


def produce_rows(bootstrap: str, topic: str, partitions: int, rows: int) -> int:
    """Write rows evenly into the partitions; returns their bytes in a text file."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    size = 0
    for number in range(rows):
        row = f"row {number} of a topic with many partitions"
        size += len(row) + 1
        producer.produce(topic, row, partition=number % partitions)
        if number % 10_000 == 0:
            producer.flush(60)
    producer.flush(60)
    return size


def measure_penstock(report: Report, kafka: KafkaConnect, count: int) -> None:
    """Measure the connectors in `penstock standalone`."""
    with working_folder() as folder:
        worker = {
            "state.dir": str(folder / "state"),
            "listeners": "http://127.0.0.1:28083",
            "bootstrap.servers": kafka.bootstrap,
        }
        files = [document(folder, "worker", worker)]
        process = PenstockProcess(folder, "standalone", *files)
        try:
            process.start()
            process.wait_for(lambda: "REST at" in process.output, 90, "REST")
            rest = Rest("http://127.0.0.1:28083")
            prefix = measure_connectors(report, "Penstock", rest, folder, count, kafka.bootstrap)
            memory = process.usage().total_memory
            report.add("Penstock: memory of all processes", "MB", memory / 1e6)
            time.sleep(SETTLING_S)
            before = process.usage().total_cpu
            time.sleep(REST_S)
            used = process.usage().total_cpu - before
            report.add("Penstock: CPU at rest", "% of a core", 100 * used / REST_S)
            delete_connectors(rest, prefix, count, kafka.bootstrap)
        finally:
            process.close()


def main() -> int:
    """Measure, print, write."""
    parser = kafka_connect.options_parser(__doc__)
    parser.add_argument("--connectors", type=int, default=900, help="0: none")
    parser.add_argument("--partitions", type=int, default=200, help="0: no topic")
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = kafka_connect.parse(parser)
    report = Report("many connectors on Kafka", facts={"connectors": options.connectors})
    kafka = KafkaConnect(options.anchors, options.connect_port)
    with kafka.running():
        if options.partitions:
            measure_partitions(report, kafka.bootstrap, options.partitions, options.rows)
        if options.connectors:
            measure_penstock(report, kafka, options.connectors)
            with working_folder() as folder:
                rest = Rest(f"http://127.0.0.1:{options.connect_port}")
                count, bootstrap = options.connectors, kafka.bootstrap
                prefix = measure_connectors(report, "Kafka Connect", rest, folder, count, bootstrap)
                delete_connectors(rest, prefix, count, bootstrap)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
