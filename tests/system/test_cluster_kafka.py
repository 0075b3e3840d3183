"""Kafka's system tests of Connect, by name, with topics of a real broker between source and sink.

The same names are in `test_cluster.py` and `test_cluster_bounce.py` with embedded topics. Here a
consumer that is not ours reads the topic, too: what it sees is what others see.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from penstock.model.connector import ConnectorKind, TargetState
from penstock.model.status import RunState
from penstock_builtin.verifiable.rows import make_rows
from penstock_kit.testing import (
    Entry,
    Spans,
    check_delivery,
    check_delivery_so_far,
    read_ledger,
)
from support.cluster import READY, Cluster
from support.flow import SPARK
from support.kafka import KafkaServer

MOODY: Final = Path(__file__).parent.parent / "support" / "moody"
WORKERS: Final = ("w1", "w2", "w3")
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
TASKS: Final = 3

pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True)
class Site:
    """A broker, and a cluster whose workers have its topics."""

    kafka: KafkaServer
    cluster: Cluster
    keys: Mapping[str, str]

    def start(self, *names: str) -> None:
        """Start workers anew."""
        for name in names:
            self.cluster.start("worker", name, **self.keys)

    def until(self, condition: Callable[[], object], stage: str, show: Any = str) -> None:
        """Wait for a condition."""
        self.cluster.until(condition, READY, stage, show)

    def back(self) -> None:
        """Wait until all workers take part."""
        self.until(lambda: set(WORKERS) <= self.cluster.connected(), "all workers to be back")

    def source(self, name: str, **config: object) -> None:
        """Create a source."""
        self.cluster.create(name, config, ConnectorKind.SOURCE)

    def sink(self, name: str, **config: object) -> None:
        """Create a sink."""
        self.cluster.create(name, config, ConnectorKind.SINK)

    def delete(self, *names: str) -> None:
        """Delete connectors, and wait until they are gone."""
        for name in names:
            self.cluster.config(lambda config, name=name: config.delete(name))
        self.until(lambda: not any(map(self.cluster.status, names)), f"{names} to be gone")

    def set_state(self, name: str, state: TargetState) -> None:
        """Set a target state, and wait until all tasks have it. STOPPED is without tasks."""
        self.cluster.config(lambda config: config.set_target_state(name, state))
        if state is not TargetState.STOPPED:
            self.wait_for(name, {RunState[state.name]})
            return
        generation = self.cluster.config(lambda config: config.get(name)).generation

        def let_go() -> bool:
            status = self.cluster.status(name)
            held = self.cluster.scheduler(lambda client: client.list_held_tasks(generation)).tasks
            return status is not None and status.state is RunState.STOPPED and not held

        self.until(let_go, f"{name} to be stopped", lambda: self.cluster.status(name))

    def wait_for(self, name: str, states: set[RunState]) -> None:
        """Wait until the tasks of a connector have these states."""

        def have() -> bool:
            status = self.cluster.status(name)
            return status is not None and {task.state for task in status.tasks} == states

        self.until(have, f"{name} to be {states}", lambda: self.cluster.status(name))

    def restart(self, name: str, *, tasks: bool) -> None:
        """Request a restart of a connector."""
        self.cluster.config(lambda config: config.request_restart(name, include_tasks=tasks))

    def failure(self, name: str) -> str:
        """Wait until a connector or a task of it is FAILED; return the code."""
        found: list[str] = []

        def failed() -> bool:
            status = self.cluster.status(name)
            parts = [status, *status.tasks] if status else []
            found[:] = [
                one.diagnostic.code
                for one in parts
                if one.state is RunState.FAILED and one.diagnostic is not None
            ]
            return bool(found)

        self.until(failed, f"{name} to fail", lambda: self.cluster.status(name))
        return found[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One broker and one cluster for all tests: each has topics and connectors of its own."""
    folder = tmp_path_factory.mktemp("site")
    with KafkaServer(folder / "kafka") as kafka, Cluster(folder, plain=True) as cluster:
        keys = {
            **SPARK,
            "bootstrap.servers": kafka.bootstrap,
            "key.converter": JSON,
            "value.converter": JSON,
            "plugin.path": str(MOODY),
            "plugin.only.sealed": "false",
        }
        cluster.workers(*WORKERS, **keys)
        yield Site(kafka, cluster, keys)


class Numbers:
    """Numbered rows through a topic of the broker into a ledger.

    All rows of a source task have one key, so that each partition of the topic has them in order.
    """

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.topic = site, name
        self.feed, self.drain = f"{name}-source", f"{name}-sink"
        self.ledger = site.cluster.folder / f"{name}-ledger"

    def start_source(self) -> None:
        """Create the source."""
        self.site.source(
            self.feed,
            **{
                "connector.class": "VerifiableSource",
                "partitions": TASKS,
                "rate": 100,
                "batch.rows": 20,
                "tasks.max": TASKS,
                "topic": self.topic,
                "topic.creation.default.partitions": TASKS,
                "topic.creation.default.replication.factor": 1,
                "transforms": "key",
                "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
                "transforms.key.fields": "task",
                "flush.interval": "200ms",
            },
        )
        self.site.cluster.running(self.feed, TASKS)

    def start_sink(self) -> None:
        """Create the sink, once there are partitions that it can read."""
        self.advance(self.in_topic, 1)
        self.site.sink(
            self.drain,
            **{
                "connector.class": "VerifiableSink",
                "ledger": self.ledger,
                "tasks.max": TASKS,
                "topics": self.topic,
                "flush.interval": "200ms",
            },
        )
        self.site.cluster.running(self.drain, TASKS)

    def in_topic(self, isolation: str = "read_committed") -> dict[int, list[int]]:
        """Return the numbers of each source task, in the order in which the topic has them."""
        found: dict[int, list[int]] = defaultdict(list)
        if self.topic in self.site.kafka.admin().list_topics(timeout=10).topics:
            for message in self.site.kafka.read(self.topic, isolation):
                row = json.loads(message.value())["payload"]
                found[row["task"]].append(row["seq"])
        return found

    def in_ledger(self) -> dict[int, list[int]]:
        """Return the numbers of each source task in the order in which the sink committed them."""
        found: dict[int, list[int]] = defaultdict(list)
        for entry in read_ledger(self.ledger).entries if self.ledger.exists() else ():
            for first, last in entry.sequences:
                found[int(entry.partition)] += range(first, last + 1)
        return found

    def advance(self, place: Callable[[], dict[int, list[int]]], rows: int = 50) -> None:
        """Wait until a place has so many more rows of each source task."""
        before = {task: len(numbers) for task, numbers in place().items()}

        def advanced() -> bool:
            now = place()
            return all(len(now[n]) >= before.get(n, 0) + rows for n in range(TASKS))

        self.site.until(advanced, f"{rows} more rows in {self.topic} after {before}")

    def finish(self, *, sink: bool = True) -> None:
        """Stop the source, and check that topic and ledger have each number once, in order."""
        self.site.set_state(self.feed, TargetState.STOPPED)
        sent = self.in_topic()
        assert sent == {task: list(range(len(sent[task]))) for task in range(TASKS)}
        if sink:
            self.site.until(
                lambda: (
                    {n: len(of) for n, of in self.in_ledger().items()}
                    == {n: len(of) for n, of in sent.items()}
                ),
                f"all rows of {self.topic} in the ledger",
            )
            assert self.in_ledger() == sent
            check_delivery_so_far(read_ledger(self.ledger).entries).require()
        self.site.delete(self.feed, *([self.drain] if sink else []))


class Lines:
    """Lines of a file through a topic of the broker into a file, with the JSON converter."""

    def __init__(self, site: Site, name: str, schemas: str) -> None:
        self.site, self.topic = site, name
        keys = {"value.converter": JSON, "value.converter.schemas.enable": schemas}
        self.read, self.written = (site.cluster.folder / f"{name}.{end}" for end in ("in", "out"))
        self.given: list[str] = []
        one = {"connector.class": "FileStreamSource", "file": self.read, "topic": name}
        other = {"connector.class": "FileStreamSink", "file": self.written, "topics": name}
        site.kafka.create_topic(name)
        site.source(f"{name}-source", **one, **keys)
        site.sink(f"{name}-sink", **other, **keys)

    def append(self) -> None:
        """Append lines, and wait until they are at the other end."""
        begin = len(self.given)
        new = [f"line {n}" for n in range(begin, begin + 20)]
        with self.read.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in new)
        self.given += new
        self.site.until(
            lambda: len(lines_of(self.written)) >= len(self.given), f"lines of {self.topic}"
        )
        assert lines_of(self.written) == self.given

    def values(self) -> list[Any]:
        """Return what the topic has."""
        return [json.loads(message.value()) for message in self.site.kafka.read(self.topic)]


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def clean(site: Site, name: str) -> None:
    """Stop a worker in order, and start another under its name."""
    assert site.cluster.processes[name].stop(READY) == 0
    site.start(name)


def hard(site: Site, name: str) -> None:
    """Kill a worker, and start another under its name."""
    site.cluster.processes[name].kill()
    site.start(name)


def test_file_source_and_sink(site: Site) -> None:
    """With and without schemas in the JSON: each line arrives once, also behind a restart of all
    workers, and the topic has the form that was asked for.
    """
    forms = {name: Lines(site, f"file-{name}", schemas=name) for name in ("true", "false")}
    for lines in forms.values():
        lines.append()
    for name in WORKERS:
        clean(site, name)
    site.back()
    for lines in forms.values():
        lines.append()
    text = {"type": "string", "optional": True}
    given = forms["true"].given
    assert forms["true"].values() == [{"schema": text, "payload": line} for line in given]
    assert forms["false"].values() == given
    site.delete(*(f"file-{form}-{end}" for form in forms for end in ("source", "sink")))


def test_pause_and_resume_source(site: Site) -> None:
    """A paused source sends nothing, and goes on with the next number."""
    rows = Numbers(site, "pause-source")
    rows.start_source()
    rows.advance(rows.in_topic)
    site.set_state(rows.feed, TargetState.PAUSED)
    paused = rows.in_topic()
    other = Numbers(site, "pause-source-beside")  # by its rows we know that time went by
    other.start_source()
    other.advance(other.in_topic)
    assert rows.in_topic() == paused
    site.set_state(rows.feed, TargetState.RUNNING)
    rows.advance(rows.in_topic)
    for one in (rows, other):
        one.finish(sink=False)


def test_pause_and_resume_sink(site: Site) -> None:
    """A paused sink takes nothing while its topic grows, and gets all of it afterwards."""
    rows = Numbers(site, "pause-sink")
    rows.start_source()
    rows.start_sink()
    rows.advance(rows.in_ledger)
    site.set_state(rows.drain, TargetState.PAUSED)
    paused = rows.in_ledger()
    rows.advance(rows.in_topic, 100)
    assert rows.in_ledger() == paused
    site.set_state(rows.drain, TargetState.RUNNING)
    rows.finish()


def test_pause_state_persistent(site: Site) -> None:
    """Every worker and service is killed: what was paused is paused, what ran goes on."""
    paused, running = Numbers(site, "persistent"), Numbers(site, "persistent-beside")
    for rows in (paused, running):
        rows.start_source()
        rows.advance(rows.in_topic)
    site.set_state(paused.feed, TargetState.PAUSED)
    before = paused.in_topic()
    for process in site.cluster.processes.values():
        process.kill()
    for service in ("config", "offset", "scheduler"):
        site.cluster.start(service, service)
    site.start(*WORKERS)
    site.back()
    site.wait_for(paused.feed, {RunState.PAUSED})
    running.advance(running.in_topic)
    assert paused.in_topic() == before
    site.set_state(paused.feed, TargetState.RUNNING)
    paused.advance(paused.in_topic)
    for rows in (paused, running):
        rows.finish(sink=False)


def test_restart_failed_connector_and_task(site: Site) -> None:
    """A plan and a task that failed go on after their restarts: the topic, which has the name of
    the dataset, has each row once, in order.
    """
    mood = site.cluster.folder / "mood"
    mood.write_text("plan", encoding="ascii")
    site.source("moody", **{"connector.class": "moody-source", "mood": mood, "topic": "moods"})
    assert site.failure("moody") == "moody.plan"
    mood.write_text("", encoding="ascii")
    site.restart("moody", tasks=False)

    def sent() -> list[int]:
        if "moods" not in site.kafka.admin().list_topics(timeout=10).topics:
            return []
        found = (json.loads(one.value())["payload"] for one in site.kafka.read("moods"))
        return [row["seq"] for row in found]

    site.until(sent, "rows after the restart of the connector")
    mood.write_text("tasks", encoding="ascii")
    assert site.failure("moody") == "moody.task"
    before = len(sent())
    mood.write_text("", encoding="ascii")
    site.restart("moody", tasks=True)
    site.until(lambda: len(sent()) > before, "rows after the restart of the task")
    site.set_state("moody", TargetState.STOPPED)
    assert sent() == list(range(len(sent())))
    site.delete("moody")


def test_restart_failed_sink_task(site: Site) -> None:
    """A sink's task that failed goes on after its restart: it takes each row once, in order."""
    mood, taken = site.cluster.folder / "sink-mood", site.cluster.folder / "taken"
    form = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    site.kafka.create_topic("sunk")
    site.kafka.produce("sunk", [(None, b'{"seq": %d}' % n) for n in range(3)])
    sink = {"connector.class": "moody-sink", "mood": mood, "taken": taken, "topics": "sunk"}
    site.sink("moody-sink", **sink, **form)
    site.until(lambda: lines_of(taken) == ["0", "1", "2"], "the first rows")
    mood.write_text("refuse", encoding="ascii")
    site.kafka.produce("sunk", [(None, b'{"seq": %d}' % n) for n in range(3, 6)])
    assert site.failure("moody-sink") == "moody.refuse"
    assert lines_of(taken) == ["0", "1", "2"]
    mood.write_text("", encoding="ascii")
    site.restart("moody-sink", tasks=True)
    site.until(lambda: lines_of(taken)[5:], "rows after the restart of the task")
    assert lines_of(taken) == [f"{n}" for n in range(6)]
    site.delete("moody-sink")


def test_a_topic_of_many_partitions_is_shared(site: Site) -> None:
    """Each of three tasks, on three workers, reads a third of the partitions; all rows arrive,
    also in partitions that had none before.
    """
    many, rows, ledger = 200, 20, site.cluster.folder / "many-ledger"
    site.kafka.create_topic("many", many)
    producer = Producer({"bootstrap.servers": site.kafka.bootstrap, "enable.idempotence": True})

    def produce(first: int, numbers: Iterable[int]) -> None:
        for number in numbers:
            for row in make_rows("many", number, first, rows).to_pylist():
                producer.produce("many", json.dumps(row).encode(), partition=number)
        assert producer.flush(READY) == 0

    def entries() -> Sequence[Entry]:
        return read_ledger(ledger).entries if ledger.exists() else ()

    def await_rows(count: int) -> None:
        site.until(lambda: sum(one.rows for one in entries()) >= count, f"{count} rows")

    produce(0, range(0, many, 2))
    form = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    sink = {"connector.class": "VerifiableSink", "ledger": ledger, "topics": "many"}
    site.sink("many", **sink, **form, **{"tasks.max": TASKS})
    status = site.cluster.running("many", TASKS)
    assert len({task.worker for task in status.tasks}) == len(WORKERS)
    await_rows(rows * many // 2)
    produce(0, range(1, many, 2))
    produce(rows, range(many))
    await_rows(2 * rows * many)
    expected = {f"{number}": Spans([(0, 2 * rows - 1)]) for number in range(many)}
    check_delivery(expected, entries()).require()
    readers = {(one.partition, one.task) for one in entries()}
    assert len(readers) == many, "no partition has two readers"
    shares = Counter(task for _, task in readers)
    assert sorted(shares.values()) == [66, 67, 67]
    site.delete("many")


def test_a_sink_reads_partitions_that_are_added_and_its_group_has_its_offsets(site: Site) -> None:
    """Within ten seconds; who asks the brokers sees how far it is, in both partitions."""
    topic, file = "growing", site.cluster.folder / "growing-out"
    site.kafka.create_topic(topic)
    site.kafka.produce(topic, [(None, b"first")])
    sink = {"connector.class": "FileStreamSink", "file": file, "topics": topic}
    text = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    site.sink("grown", **sink, **text, **{"consumer.override.max.poll.records": 1})
    site.until(lambda: lines_of(file) == ["first"], "the first line")
    admin = site.kafka.admin()  # it must live until the answer is there
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    site.kafka.produce(topic, [(None, b"second"), (None, b"third")], partition=1)
    site.until(lambda: lines_of(file) == ["first", "second", "third"], "lines of the new partition")

    def offsets() -> list[int | None]:
        return [site.kafka.group_offset("connect-grown", topic, number) for number in range(2)]

    site.until(lambda: offsets() == [1, 2], "the offsets of the group", offsets)
    site.delete("grown")


@pytest.mark.parametrize("restart", [clean, hard])
def test_bounce(site: Site, restart: Callable[[Site, str], None]) -> None:
    """Each worker in turn is stopped, or killed, while rows go into the topic and out of it."""
    rows = Numbers(site, f"bounce-{restart.__name__}")
    rows.start_source()
    rows.start_sink()
    for name in WORKERS:
        restart(site, name)
        rows.advance(rows.in_ledger)
        site.back()
    rows.finish()


def test_exactly_once_source(site: Site) -> None:
    """All workers are killed at once, and again before they have recovered: a consumer that reads
    committed messages sees each number once, in order.
    """
    rows = Numbers(site, "exactly-once")
    rows.start_source()
    rows.advance(rows.in_topic)
    for _ in range(2):
        for name in WORKERS:
            hard(site, name)
        rows.advance(rows.in_topic)
    site.back()
    rows.finish(sink=False)
