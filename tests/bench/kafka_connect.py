"""The same lines through Kafka Connect and through Penstock, in one session, and the ratio.

file → topic → file with both connectors running at once. Both systems are measured the same way:
started, warmed with 100,000 lines, then all lines are appended at once, and the clock stops when
the last of them is in the output file. Kafka Connect runs with its defaults (and string converters,
which suit it best); `brokers.py` measures it with settings for many rows, too. The scripts that
start a broker and a Connect worker are given by `--anchors`: a folder with `fetch.sh`,
`kafka-up.sh`, `connect-up.sh` and `down.sh`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lines
import through_topic
from file_to_file import WARM_UP
from penstock_kit.testing import Usage, usage_of, wait_until
from report import Report, arguments
from running import working_folder

LIMIT = 300.0
"""Seconds that Kafka Connect may take for one run."""

REBALANCING = 409


class KafkaConnect:
    """A broker and a Connect worker, started by the anchors' scripts."""

    bootstrap = "127.0.0.1:19092"
    """The broker of the scripts."""

    def __init__(self, anchors: Path, port: str) -> None:
        self._anchors = anchors
        self._rest = f"http://127.0.0.1:{port}"
        home = os.environ.get("KLAB_HOME", str(lines.home() / "kafka"))
        self._env = {**os.environ, "KLAB_HOME": home, "CONNECT_PORT": port}

    def usage(self) -> Usage:
        """Return what the Connect worker uses now."""
        data = Path(self._env["KLAB_HOME"], "data", f"connect-{self._env['CONNECT_PORT']}")
        return usage_of(int((data / "connect.pid").read_text(encoding="ascii")))

    def script(self, name: str, *arguments: str) -> None:
        """Run one of the anchors' scripts."""
        subprocess.run(["bash", self._anchors / name, *arguments], env=self._env, check=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start what is needed, and stop it afterwards."""
        self.script("fetch.sh", "broker", "connect", "plugin-file")
        try:
            self.script("kafka-up.sh")
            self.script("connect-up.sh")
            yield
        finally:
            self.script("down.sh", "connect", "kafka")

    def put(self, name: str, config: dict[str, str]) -> None:
        """Create a connector; tries again while the worker rebalances."""
        wait_until(lambda: self._call("PUT", f"/connectors/{name}/config", config), 60, name)

    def delete(self, name: str) -> None:
        """Remove a connector."""
        wait_until(lambda: self._call("DELETE", f"/connectors/{name}"), 60, name)

    def _call(self, method: str, path: str, body: dict[str, str] | None = None) -> bool:
        request = urllib.request.Request(
            self._rest + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=90):
                return True
        except urllib.error.HTTPError as error:
            if error.code == REBALANCING:
                return False
            raise


STRINGS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}


TUNED: Mapping[str, Mapping[str, str]] = {
    "in": {
        "batch.size": "20000",
        "producer.override.batch.size": "524288",
        "producer.override.linger.ms": "20",
        "producer.override.compression.type": "lz4",
        "producer.override.buffer.memory": "134217728",
    },
    "out": {
        "consumer.override.max.poll.records": "20000",
        "consumer.override.fetch.min.bytes": "262144",
        "consumer.override.max.partition.fetch.bytes": "8388608",
        "consumer.override.fetch.max.wait.ms": "50",
    },
}
"""Keys of the two connectors for many rows: those of the anchors' scripts."""


@dataclass(frozen=True)
class Measured:
    """What some runs took: the seconds and the CPU seconds of each, and memory after them."""

    seconds: list[float]
    cpu_s: list[float]
    memory: int


def connectors(
    source: Path,
    output: Path,
    topic: str,
    converter: Mapping[str, str] = STRINGS,
    *,
    tuned: bool = False,
) -> dict[str, dict[str, str]]:
    """Return the two file connectors. `converter` has the keys of the values' converter."""
    package = "org.apache.kafka.connect.file.FileStream"
    shared = {"tasks.max": "1", **converter}
    into = {"connector.class": f"{package}SourceConnector", "file": str(source), "topic": topic}
    out = {"connector.class": f"{package}SinkConnector", "file": str(output), "topics": topic}
    more = TUNED if tuned else {"in": {}, "out": {}}
    return {
        f"{topic}-in": {**into, **shared, **more["in"]},
        f"{topic}-out": {**out, **shared, **more["out"]},
    }


@contextmanager
def both_connectors(
    kafka: KafkaConnect, converter: Mapping[str, str] = STRINGS, *, tuned: bool = False
) -> Iterator[tuple[Path, Path]]:
    """Run the two file connectors; yields the file that is read and the one that is written."""
    with working_folder() as folder:
        source, output = folder / "in.txt", folder / "out.txt"
        source.touch()
        pair = connectors(source, output, f"lines-{time.monotonic_ns()}", converter, tuned=tuned)
        for name, config in pair.items():
            kafka.put(name, config)
        try:
            yield source, output
        finally:
            for name in pair:
                kafka.delete(name)


def measure(
    kafka: KafkaConnect,
    count: int,
    runs: int,
    converter: Mapping[str, str] = STRINGS,
    *,
    tuned: bool = False,
) -> Measured:
    """Append the lines once to make all warm, then `runs` times; returns what those took."""
    seconds, cpu = [], []
    with (
        kafka.running(),
        both_connectors(kafka, converter, tuned=tuned) as (source, output),
    ):
        for n in (WARM_UP, *[count] * (runs + 1)):
            before = kafka.usage().total_cpu
            seconds.append(_append(lines.plain(n), source, output))
            cpu.append(kafka.usage().total_cpu - before)
        memory = kafka.usage().total_memory
        if lines.digest([output]) != lines.digest([source]):
            sys.exit(f"WRONG OUTPUT of Kafka Connect: {output.stat().st_size:,} bytes")
    return Measured(seconds[2:], cpu[2:], memory)


def _append(part: Path, source: Path, output: Path) -> float:
    size = source.stat().st_size + part.stat().st_size
    began = time.monotonic()
    lines.append(part, source)
    wait_until(lambda: output.exists() and output.stat().st_size >= size, LIMIT, "Kafka Connect")
    return time.monotonic() - began


def main() -> int:
    """Measure both, print, write."""
    options = read_options(__doc__)
    for count in (WARM_UP, options.lines):
        lines.plain(count)
    report = Report("Kafka Connect beside Penstock", facts={"lines": options.lines})
    kafka = KafkaConnect(options.anchors, options.connect_port)
    theirs = measure(kafka, options.lines, options.runs)
    ours = through_topic.measure(options.lines, options.runs, report, keep=options.keep)
    rates = (options.lines / seconds for seconds in theirs.seconds)
    report.add("Kafka Connect, append → last line in the file", "rows/s", *rates)
    ratio = statistics.median(theirs.seconds) / statistics.median(ours)
    report.add("Penstock : Kafka Connect", "times", ratio, at_least=4, note="its defaults")
    return report.finish(options)


def read_options(about: str | None) -> Any:
    """Return the options: of all benchmarks, and where Kafka Connect's scripts are."""
    return parse(options_parser(about))


def options_parser(about: str | None) -> argparse.ArgumentParser:
    """Return what `parse` reads the options with."""
    parser = arguments(about)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--anchors", type=Path, default=os.environ.get("PENSTOCK_ANCHORS"))
    parser.add_argument("--connect-port", default="18083")
    return parser


def parse(parser: argparse.ArgumentParser) -> Any:
    """Return the options, and end where Kafka Connect's scripts are not named."""
    options: argparse.Namespace = parser.parse_args()
    if options.anchors is None or not (Path(options.anchors) / "connect-up.sh").is_file():
        parser.error("name the folder of the Kafka Connect scripts: --anchors or PENSTOCK_ANCHORS")
    return options


if __name__ == "__main__":
    sys.exit(main())
