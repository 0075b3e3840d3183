"""Kafka's system tests of Connect in which workers go and come back: nothing is lost or repeated.

Owners are told by the sink's ledger, never by a status: its lines name task and epoch, and an older
epoch after a newer one is a defect.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from penstock.model.connector import ConnectorKind, TargetState
from penstock.model.status import RunState
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


def bounce(cluster: Cluster, flow: Flow, restart: Callable[[Cluster, str], None]) -> None:
    """Restart three workers, one after the other, while each task of the flow goes on."""
    for _ in range(ROUNDS):
        for name in WORKERS:
            restart(cluster, name)
            flow.advance()
            back(cluster, name)
    flow.delete()
    assert min(flow.counts().values()) >= 300 * ROUNDS


def test_bounce_hard(cluster: Cluster) -> None:
    """Each row arrives exactly once. The twin is in `chaos/test_twins.py`: offsets before rows."""
    flow = Flow(cluster, "bounce-hard")
    flow.start()
    bounce(cluster, flow, hard)


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
    """Every process of the cluster is killed and started anew: a paused connector is still paused,
    and the rows of another one continue where they were.
    """
    flow, running = Flow(cluster, "pause"), Flow(cluster, "running")
    for one in (flow, running):
        one.start()
        one.advance()
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
    running.advance()
    running.delete()
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
        """Return whether every line is there; one that is there twice never arrives."""
        if not self.written.exists():
            return False
        return Counter(self.written.read_text(encoding="utf-8").splitlines()) == self.given


def test_bounce_clean_and_file_source_and_sink(cluster: Cluster) -> None:
    """A rolling restart: each numbered row arrives exactly once, and files that go through a topic
    into a file continue where they were. A file that a task found by itself is not read again by
    the task that follows it.
    """
    flow = Flow(cluster, "bounce-clean")
    flow.start()
    one = Files(cluster, "one", "in.txt", folder=False)
    found = Files(cluster, "found", "*.log", folder=True)
    one.append("in.txt")
    for file in ("a.log", "b.log"):
        found.append(file)
        cluster.until(found.arrived, READY, f"the lines of {file} to arrive")
    cluster.until(one.arrived, READY, "the lines to arrive")
    bounce(cluster, flow, clean)
    one.append("in.txt")
    found.append("b.log")
    cluster.until(one.arrived, READY, "the lines after the restart")
    cluster.until(found.arrived, READY, "the lines of the found file after the restart")
