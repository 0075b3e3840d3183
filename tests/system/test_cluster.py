"""Kafka's system tests of Connect, by name, against a cluster of processes with three workers.

Those that bounce workers are in `test_cluster_bounce.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from penstock.model.connector import ConnectorKind, TargetState
from penstock.model.status import ConnectorStatus, RunState
from penstock_kit.testing import read_ledger
from support.cluster import Cluster

MOODY = Path(__file__).parent.parent / "support" / "moody"
WORKERS = ("w1", "w2", "w3")
SOON = 120.0
"""Seconds for what takes milliseconds on a machine that is idle, or a start of a JVM."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests: each has connectors of its own."""
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, **{"lease.ttl": "30s"}) as cluster:
        moody = {"plugin.path": str(MOODY), "plugin.only.sealed": "false"}
        cluster.workers(*WORKERS, **moody, **{"spark.master": "local[1,1]"})
        yield cluster


class Moody:
    """A source whose plan or tasks fail when they are told to."""

    def __init__(self, cluster: Cluster, name: str, tasks: int = 1) -> None:
        self.cluster, self.name, self.tasks = cluster, name, tasks
        self.file = cluster.folder / f"mood-{name}"

    def start(self) -> None:
        """Create the connector; returns when the scheduler knows it."""
        config = {
            "connector.class": "moody-source",
            "mood": self.file,
            "partitions": self.tasks,
            "tasks.max": self.tasks,
            "topic": self.name,
        }
        self.cluster.create(self.name, config, ConnectorKind.SOURCE)
        self.cluster.until(lambda: self.cluster.status(self.name), SOON, f"{self.name} to be known")

    def feel(self, mood: str) -> None:
        """Let it fail, or no more."""
        self.file.write_text(mood, encoding="utf-8")

    def status(self) -> ConnectorStatus:
        """Return how it is."""
        status = self.cluster.status(self.name)
        assert status is not None
        return status

    def states(self) -> list[RunState]:
        """Return how its tasks are."""
        return [task.state for task in self.status().tasks]

    def epochs(self) -> list[int]:
        """Return the epochs of its tasks."""
        return [task.epoch for task in self.status().tasks]

    def until(self, condition: Any, stage: str) -> None:
        """Wait for something about it."""
        self.cluster.until(condition, SOON, f"{self.name}: {stage}", self.status)

    def restart(self, **what: Any) -> None:
        """Ask for a restart."""
        self.cluster.config(lambda config: config.request_restart(self.name, **what))

    def runs(self) -> None:
        """Wait until it and all tasks run."""
        self.cluster.running(self.name, self.tasks)


@pytest.fixture
def moody(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Moody]:
    """A moody source with two tasks; deleted afterwards."""
    moody = Moody(cluster, request.node.name.removeprefix("test_"), tasks=2)
    yield moody
    cluster.config(lambda config: config.delete(moody.name))


def test_restart_failed_connector(moody: Moody) -> None:
    """A connector whose plan failed for good waits, and runs after a restart."""
    moody.feel("plan")
    moody.start()
    moody.until(lambda: moody.status().state is RunState.FAILED, "to fail")
    failed = moody.status()
    assert failed.diagnostic is not None
    assert failed.diagnostic.code == "moody.plan"
    assert failed.tasks == ()
    moody.feel("")
    moody.restart()
    moody.runs()


def test_restart_failed_task(moody: Moody) -> None:
    """A task that failed for good waits, and runs after its restart; the other one is untouched."""
    moody.start()
    moody.runs()
    before = moody.epochs()
    moody.feel("task 0")
    moody.until(lambda: moody.states() == [RunState.FAILED, RunState.RUNNING], "a task to fail")
    diagnostic = moody.status().tasks[0].diagnostic
    assert diagnostic is not None
    assert diagnostic.code == "moody.task"
    moody.feel("")
    task_id = moody.status().tasks[0].task_id
    moody.restart(task_id=task_id)
    moody.runs()
    assert moody.epochs()[0] > before[0]
    assert moody.epochs()[1] == before[1]


def test_restart_connector_and_tasks_failed_connector(moody: Moody) -> None:
    """Only what failed is restarted when only that is asked for: the connector, not its tasks."""
    moody.start()
    moody.runs()
    before = moody.epochs()
    moody.feel("plan")
    moody.restart()
    moody.until(lambda: moody.status().state is RunState.FAILED, "to fail")
    assert moody.states() == [RunState.RUNNING] * 2
    moody.feel("")
    moody.restart(include_tasks=True, only_failed=True)
    moody.until(lambda: moody.status().state is RunState.RUNNING, "to run")
    moody.runs()
    assert moody.epochs() == before


def test_restart_connector_and_tasks_failed_task(moody: Moody) -> None:
    """Only what failed is restarted when only that is asked for: one task of two."""
    moody.start()
    moody.runs()
    before = moody.epochs()
    moody.feel("task 1")
    moody.until(lambda: moody.states() == [RunState.RUNNING, RunState.FAILED], "a task to fail")
    moody.feel("")
    moody.restart(include_tasks=True, only_failed=True)
    moody.runs()
    assert moody.epochs()[0] == before[0]
    assert moody.epochs()[1] > before[1]


def rows_of(cluster: Cluster, topic: str) -> int:
    """Return how many rows a topic has."""
    try:
        return int(DeltaTable(cluster.folder / "topics" / topic).to_pyarrow_dataset().count_rows())
    except TableNotFoundError:
        return 0


def pause(cluster: Cluster, name: str) -> None:
    """Pause a connector; returns when its tasks are."""
    cluster.config(lambda config: config.set_target_state(name, TargetState.PAUSED))

    def paused() -> bool:
        status = cluster.status(name)
        return status is not None and {t.state for t in status.tasks} == {RunState.PAUSED}

    cluster.until(paused, SOON, f"{name} to pause", lambda: cluster.status(name))


def resume(cluster: Cluster, name: str, tasks: int = 1) -> None:
    """Let a connector run again."""
    cluster.config(lambda config: config.set_target_state(name, TargetState.RUNNING))
    cluster.running(name, tasks)


def source(topic: str, rows: int = 0) -> dict[str, Any]:
    """Return a source of numbered rows, 200 a second."""
    return {
        "connector.class": "verifiable-source",
        "rows": rows,
        "rate": 200,
        "batch.rows": 20,
        "topic": topic,
        "flush.interval": "100ms",
    }


def test_pause_and_resume_source(cluster: Cluster) -> None:
    """No row comes while a source is paused, and its task is not started anew."""
    cluster.create("paused-source", source("paused-source"), ConnectorKind.SOURCE)
    (epoch,) = [task.epoch for task in cluster.running("paused-source", 1).tasks]
    cluster.until(lambda: rows_of(cluster, "paused-source") > 100, SOON, "rows")
    pause(cluster, "paused-source")
    settled = settle(lambda: rows_of(cluster, "paused-source"))
    resume(cluster, "paused-source")
    cluster.until(lambda: rows_of(cluster, "paused-source") > settled + 100, SOON, "more rows")
    status = cluster.status("paused-source")
    assert status is not None
    assert [task.epoch for task in status.tasks] == [epoch]
    cluster.config(lambda config: config.delete("paused-source"))


def test_pause_and_resume_sink(cluster: Cluster) -> None:
    """A paused sink writes nothing while its source goes on, and loses nothing."""
    ledger = cluster.folder / "paused-sink"
    cluster.create("sink-feed", source("sink-feed"), ConnectorKind.SOURCE)
    sink = {"connector.class": "verifiable-sink", "ledger": ledger, "topics": "sink-feed"}
    cluster.create("paused-sink", {**sink, "flush.interval": "100ms"}, ConnectorKind.SINK)
    cluster.running("paused-sink", 1)
    cluster.until(lambda: read_ledger(ledger).rows > 100, SOON, "rows")
    pause(cluster, "paused-sink")
    settled = settle(lambda: read_ledger(ledger).rows)
    before = rows_of(cluster, "sink-feed")
    cluster.until(lambda: rows_of(cluster, "sink-feed") > before + 200, SOON, "the source goes on")
    assert read_ledger(ledger).rows == settled
    resume(cluster, "paused-sink")
    cluster.until(lambda: read_ledger(ledger).rows > before, SOON, "the sink catches up")
    for name in ("sink-feed", "paused-sink"):
        cluster.config(lambda config, name=name: config.delete(name))


def settle(count: Any) -> int:
    """Return a count once it has stayed the same for several looks, a tenth of a second apart."""
    same, last = 0, -1
    while same < 5:
        now = count()
        same, last = (same + 1, now) if now == last else (0, now)
        time.sleep(0.1)
    return int(last)


def test_transformations(cluster: Cluster) -> None:
    """A chain of transforms and predicates changes rows and routes them."""
    config = {
        **source("plain", rows=200),
        "transforms": "keep,mark,route",
        "transforms.keep.type": "Filter",
        "transforms.keep.condition": "seq % 2 = 0",
        "transforms.mark.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.mark.static.field": "origin",
        "transforms.mark.static.value": "here",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "plain",
        "transforms.route.replacement": "changed",
    }
    cluster.create("changes", config, ConnectorKind.SOURCE)
    cluster.until(
        lambda: rows_of(cluster, "changed") == 100,
        SOON,
        "rows",
        lambda: rows_of(cluster, "changed"),
    )
    table = DeltaTable(cluster.folder / "topics" / "changed").to_pyarrow_table()
    assert set(table["origin"].to_pylist()) == {"here"}
    assert sorted(table["seq"].to_pylist()) == list(range(0, 200, 2))
    assert not (cluster.folder / "topics" / "plain").exists()
    cluster.config(lambda config: config.delete("changes"))
