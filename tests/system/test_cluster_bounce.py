"""Kafka's system tests of Connect in which workers go and come back: nothing is lost or repeated.

Owners are told by the sink's ledger, never by a status: its lines name task and epoch, and an older
epoch after a newer one is a defect.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.model.connector import ConnectorKind, TargetState
from penstock.model.status import RunState
from penstock.testing.checker import Kind
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow

WORKERS = ("w1", "w2", "w3")
ROUNDS = max(1, int(os.environ.get("PENSTOCK_BOUNCE_ROUNDS", "1")))
"""How often each worker goes and comes back, at least once; Kafka's test has three rounds."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three workers for all tests; each has connectors of its own, and leaves all workers there."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.workers(*WORKERS, **SPARK)
        yield cluster


def clean(cluster: Cluster, name: str) -> None:
    """Stop a worker in order, and start another under its name."""
    assert cluster.processes[name].stop(READY) == 0
    cluster.start("worker", name, **SPARK)


def hard(cluster: Cluster, name: str) -> None:
    """Kill a worker, and start another under its name."""
    cluster.processes[name].kill()
    cluster.start("worker", name, **SPARK)


def back(cluster: Cluster, *names: str) -> None:
    """Wait until workers take part again."""
    cluster.until(lambda: set(names) <= cluster.connected(), READY, f"{names} to be back")


@pytest.mark.parametrize("bounced", [clean, hard], ids=["clean", "hard"])
def test_bounce(cluster: Cluster, bounced: Callable[[Cluster, str], None]) -> None:
    """Three workers, one after the other: each row arrives exactly once."""
    flow = Flow(cluster, f"bounce-{bounced.__name__}")
    flow.start()
    for _ in range(ROUNDS):
        for name in WORKERS:
            bounced(cluster, name)
            flow.advance()
            back(cluster, name)
    flow.delete()
    assert min(flow.counts().values()) >= 300 * ROUNDS


def test_bounce_would_see_a_lost_row(tmp_path: Path) -> None:
    """The twin: a worker that stores offsets before rows dies between; the next one cannot know."""
    faults = "worker.commit_order=break,worker.offset_committed=kill@5"
    with Cluster(tmp_path) as cluster:
        first = cluster.start("worker", "w1", faults=faults, **SPARK)
        flow = Flow(cluster, tasks=1)
        flow.create()
        assert first.wait(READY) == -9
        cluster.workers("w2", **SPARK)
        flow.advance()
        assert flow.report().rows(Kind.GAP) > 0, flow.report()


def test_exactly_once_source(cluster: Cluster) -> None:
    """Rounds that leave no time to recover: all workers are killed, the next ones while their
    predecessors' tasks are still on the way.
    """
    flow = Flow(cluster, "exactly-once")
    flow.start()
    flow.advance()
    for _ in range(max(ROUNDS - 1, 1)):
        for name in WORKERS:
            hard(cluster, name)
        flow.advance()
    back(cluster, *WORKERS)
    flow.delete()


def test_pause_state_persistent(cluster: Cluster) -> None:
    """A paused connector is still paused after every process was started anew."""
    flow = Flow(cluster, "pause")
    flow.start()
    flow.advance()
    cluster.config(lambda config: config.set_target_state(flow.name, TargetState.PAUSED))

    def states() -> set[RunState]:
        status = cluster.status(flow.name)
        return {task.state for task in status.tasks} if status else set()

    cluster.until(lambda: states() == {RunState.PAUSED}, READY, "to pause", states)
    paused = flow.counts()
    for process in cluster.processes.values():
        process.kill()
    for service in ("config", "offset", "scheduler"):
        cluster.start(service, service)
    cluster.workers(*WORKERS, **SPARK)
    cluster.until(lambda: states() == {RunState.PAUSED}, READY, "to be paused again", states)
    assert flow.counts() == paused
    cluster.config(lambda config: config.set_target_state(flow.name, TargetState.RUNNING))
    flow.advance()
    flow.delete()


class Files:
    """Lines of files, through a topic, into a file."""

    def __init__(self, cluster: Cluster, name: str, read: str, *, folder: bool) -> None:
        """`read`: the files, below a folder of this name when `folder`."""
        home = cluster.folder / name if folder else cluster.folder
        home.mkdir(exist_ok=True)
        self.home, self.written, self.given = home, cluster.folder / f"{name}.out", Counter[str]()
        source = {"connector.class": "FileStreamSource", "file": home / read, "topic": name}
        sink = {"connector.class": "FileStreamSink", "file": self.written, "topics": name}
        cluster.create(f"{name}-source", source, ConnectorKind.SOURCE)
        cluster.create(f"{name}-sink", sink, ConnectorKind.SINK)

    def append(self, file: str) -> None:
        """Append some lines to a file, which may be new."""
        begin = self.given.total()
        new = [f"{file} {n}" for n in range(begin, begin + 100)]
        with (self.home / file).open("a", encoding="utf-8") as lines:
            lines.writelines(f"{line}\n" for line in new)
        self.given.update(new)

    def arrived(self) -> bool:
        """Tell whether every line is there; one that is there twice never arrives."""
        if not self.written.exists():
            return False
        return Counter(self.written.read_text(encoding="utf-8").splitlines()) == self.given


def test_file_source_and_sink(cluster: Cluster) -> None:
    """Files through a topic into a file; after a rolling restart it goes on where it was. A file
    that a task found by itself is not read again by the one that follows it.
    """
    one = Files(cluster, "one", "in.txt", folder=False)
    found = Files(cluster, "found", "*.log", folder=True)
    one.append("in.txt")
    for file in ("a.log", "b.log"):
        found.append(file)
        cluster.until(found.arrived, READY, f"the lines of {file} to arrive")
    cluster.until(one.arrived, READY, "the lines to arrive")
    for name in WORKERS:
        clean(cluster, name)
        back(cluster, name)
    one.append("in.txt")
    found.append("b.log")
    cluster.until(one.arrived, READY, "the lines after the restart")
    cluster.until(found.arrived, READY, "the lines of the found file after the restart")
