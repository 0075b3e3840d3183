"""The same lines through a topic of a broker by Penstock and by Kafka Connect, in one session.

file → Kafka → file with both connectors running at once, one partition, with each converter that
`--converters` names; then the latency of one line (`--latency`), and file → RocketMQ → file
(`--rocketmq`). Both systems are measured as by `kafka_connect.py`, against the same broker; Kafka
Connect has no Avro of its own, and RocketMQ Connect is not on Maven Central: there, only ours.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import kafka_connect
import latency
import lines
import through_topic
from file_to_file import WARM_UP
from kafka_connect import KafkaConnect
from report import Report, percentile
from running import Output, standalone, working_folder

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' servers
from support.registry import SchemaRegistryServer
from support.rocketmq import RocketmqCluster

_JSON = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS: dict[str, dict[str, str]] = {
    "string": kafka_connect.STRINGS,
    "json": {"value.converter": _JSON, "value.converter.schemas.enable": "false"},
    "json-schemas": {"value.converter": _JSON, "value.converter.schemas.enable": "true"},
    "avro": {"value.converter": "io.confluent.connect.avro.AvroConverter"},
}


def measure_converter(
    name: str, kafka: KafkaConnect, options: argparse.Namespace, report: Report
) -> None:
    """Measure file → Kafka → file with one converter, Penstock's and Kafka Connect's."""
    with ExitStack() as stack:
        converter = dict(CONVERTERS[name])
        if name == "avro":
            folder = stack.enter_context(working_folder())
            registry = stack.enter_context(SchemaRegistryServer(folder / "registry"))
            converter["value.converter.schema.registry.url"] = registry.url
        stack.enter_context(kafka.running())
        ours = through_topic.measure(
            options.lines,
            options.runs,
            report,
            keep=options.keep,
            worker=_worker(kafka, converter),
            topic=_new_topic(),
            label=f"{name}: ",
        )
    if name == "avro":
        return
    for tuned in (False, True):
        theirs = kafka_connect.measure(kafka, options.lines, options.runs, converter, tuned=tuned)
        label = f"{name}: Kafka Connect, {'tuned' if tuned else 'defaults'}"
        report.add(label, "rows/s", *(options.lines / seconds for seconds in theirs.seconds))
        costs = (cpu_s / options.lines * 1e6 for cpu_s in theirs.cpu_s)
        report.add(f"{label}: CPU a line", "µs", *costs)
        report.add(f"{label}: memory", "MiB", theirs.memory / 2**20)
        ratio = statistics.median(theirs.seconds) / statistics.median(ours)
        report.add(f"{label}: Penstock to it", "times", ratio)


def measure_latency(kafka: KafkaConnect, count: int, report: Report) -> None:
    """Measure one line, file → Kafka → file, with both systems."""

    @contextmanager
    def path(folder: Path, source: Path, output: Output) -> Iterator[Any]:
        pair = through_topic.connectors(source, output, _new_topic())
        with standalone(folder, *pair, worker=_worker(kafka, CONVERTERS["string"])) as process:
            yield process

    with kafka.running():
        ours = latency.samples(path, count)
        with kafka_connect.both_connectors(kafka) as (source, written):
            size_of = lambda: written.stat().st_size if written.exists() else 0  # noqa: E731
            theirs = latency.take(source, size_of, count)
    for name, taken, goal in (("Penstock", ours, 60), ("Kafka Connect", theirs, None)):
        report.add(f"one line: {name}, p50", "ms", statistics.median(taken), at_most=goal)
        report.add(f"one line: {name}, p99", "ms", percentile(taken, 99))


def measure_rocketmq(options: argparse.Namespace, report: Report) -> None:
    """Measure file → RocketMQ → file, Penstock's only."""
    with working_folder() as folder, RocketmqCluster(folder / "rocketmq") as cluster:
        topic = _new_topic()
        cluster.create_topic(topic, 1)
        login = {f"rocketmq.{key}": value for key, value in cluster.login.items()}
        through_topic.measure(
            options.lines,
            options.runs,
            report,
            keep=options.keep,
            worker={
                "topics.backend": "rocketmq",
                "namesrv.addr": login.pop("rocketmq.namesrv.addr"),
                **login,
                **CONVERTERS["string"],
            },
            topic=topic,
            label="RocketMQ: ",
            goal=30_000,
        )


def _worker(kafka: KafkaConnect, converter: Mapping[str, str]) -> dict[str, str]:
    return {"topics.backend": "kafka", "bootstrap.servers": kafka.bootstrap, **converter}


def _new_topic() -> str:
    """Return a name that no earlier run has used: the broker keeps its topics."""
    return f"penstock-{os.getpid()}-{time.monotonic_ns()}"


def main() -> int:
    """Measure, print, write."""
    parser = kafka_connect.options_parser(__doc__)
    parser.add_argument("--converters", nargs="*", choices=CONVERTERS, default=["string"])
    parser.add_argument("--latency", type=int, default=0, help="lines whose latency is measured")
    parser.add_argument("--rocketmq", action="store_true", help="measure it, too")
    options = kafka_connect.parse(parser)
    for count in (WARM_UP, options.lines):
        lines.plain(count)
    report = Report("file → broker → file", facts={"lines": options.lines})
    kafka = KafkaConnect(options.anchors, options.connect_port)
    for name in options.converters:
        measure_converter(name, kafka, options, report)
    if options.latency:
        measure_latency(kafka, options.latency, report)
    if options.rocketmq:
        measure_rocketmq(options, report)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
