"""A cluster of processes on this machine, with its defaults: what a fault and a change cost.

- a worker is killed: seconds until rows of its tasks arrive again
- a worker is drained by SIGTERM: seconds until rows of its tasks arrive again
- the leading scheduler is killed or paused: seconds until another one leads, and tasks that were
  restarted
- a connector is created: seconds until its task runs
- the three control services: seconds until they answer, and memory

Rows are counted in the sink's ledger; it must have neither gap nor duplicate at the end.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from penstock.etcd import Etcd
from penstock.model.connector import ConnectorKind
from penstock_kit.testing import check_delivery_so_far, read_ledger
from report import Report, arguments, percentile
from support.cluster import READY, Cluster

TASKS = 4
SPARK = {"spark.master": "local[1,1]"}


class Measured:
    """A cluster with two workers and a pipeline, and what happens to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ledger = cluster.folder / "ledger"

    def start(self) -> None:
        """Let rows flow through both workers."""
        config = {
            "source.connector.class": "verifiable-source",
            "source.partitions": TASKS,
            "source.rate": 200,
            "source.batch.rows": 10,
            "sink.connector.class": "verifiable-sink",
            "sink.ledger": self.ledger,
            "tasks.max": TASKS,
            "flush.interval": "100ms",
        }
        self.cluster.create("flow", config, ConnectorKind.PIPELINE)
        self.cluster.running("flow", TASKS)
        self.cluster.until(lambda: len(self.counts()) == TASKS, READY, "rows of all tasks")

    def counts(self) -> dict[str, int]:
        """Return the highest number that arrived, by partition."""
        found: dict[str, int] = {}
        for entry in read_ledger(self.ledger).entries:
            last = max((last for _, last in entry.sequences), default=0)
            found[entry.partition] = max(last, found.get(entry.partition, 0))
        return found

    def epochs(self) -> list[int]:
        """Return the epochs of its tasks, once all run."""
        return [task.epoch for task in self.cluster.running("flow", TASKS).tasks]

    def moved(self, victim: str, end: Callable[[], object]) -> float:
        """End a worker; returns the seconds until rows of all its tasks arrive from another."""
        status = self.cluster.status("flow")
        assert status is not None
        lost = [task.number for task in status.tasks if task.worker.startswith(f"{victim}-")]
        epochs = {task.number: task.epoch for task in status.tasks}
        began = time.monotonic()
        end()

        def flows() -> bool:
            entries = read_ledger(self.ledger).entries
            newer = {e.task for e in entries if e.epoch > epochs[int(e.task.rpartition("-")[2])]}
            return {int(task.rpartition("-")[2]) for task in newer} >= set(lost)

        self.cluster.until(flows, READY, f"rows of tasks {lost}")
        return time.monotonic() - began

    def even(self, *names: str) -> None:
        """Wait until workers share the tasks evenly."""

        def shared() -> bool:
            cluster = self.cluster.cluster()
            counts = [w.tasks for w in cluster.workers if w.connected and w.name in names]
            return cluster.moving == 0 and counts == [TASKS // len(names)] * len(names)

        self.cluster.until(shared, READY, "tasks to be shared")
        self.cluster.running("flow", TASKS)


def main() -> int:
    """Measure, print, write."""
    options = arguments(__doc__).parse_args()
    report = Report("a cluster on one machine", facts={"tasks": TASKS, "lease": "5 s"})
    scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with scratch as folder, Cluster(Path(folder)) as cluster:
        measure(report, Measured(cluster), options.runs)
    return report.finish(options)


def measure(report: Report, measured: Measured, runs: int) -> None:
    """Measure one thing after the other."""
    cluster = measured.cluster
    ready(report, cluster)
    cluster.workers("w1", "w2", **SPARK)
    measured.start()
    killed, drained = [], []
    for run in range(2 * runs):
        measured.even("w1", "w2")
        process, in_order = cluster.processes["w1"], run % 2
        if in_order:
            drained.append(measured.moved("w1", lambda p=process: p.stop(READY)))
        else:
            killed.append(measured.moved("w1", process.kill))
        cluster.workers("w1", **SPARK)
    report.add("worker killed → its rows flow", "s", *killed, at_most=6)
    report.add("the slowest of these", "s", max(killed), at_most=10)
    report.add("worker drained → its rows flow", "s", *drained, at_most=3)
    leaders(report, measured, runs)
    creations(report, cluster)
    for name in ("config", "offset", "scheduler"):
        process = next(p for n, p in cluster.processes.items() if n.startswith(name))
        report.add(f"{name}: memory", "MiB", process.usage().total_memory / 2**20, at_most=120)
    defects = check_delivery_so_far(read_ledger(measured.ledger).entries).violations()
    report.add("gaps, duplicates, rows out of order", "", len(defects), at_most=0)


def ready(report: Report, cluster: Cluster) -> None:
    """Start another instance of each control service."""
    for service in ("config", "offset", "scheduler"):
        began = time.monotonic()
        process = cluster.start(service, f"{service}-2")
        cluster.until(lambda p=process: "reached at" in p.output, READY, f"{service} to be ready")
        report.add(f"{service}: ready", "s", time.monotonic() - began, at_most=2)


def leaders(report: Report, measured: Measured, runs: int) -> None:
    """Kill or pause the leading scheduler beside a second one."""
    cluster = measured.cluster
    killed: list[float] = []
    paused: list[float] = []
    measured.even("w1", "w2")
    epochs = measured.epochs()
    for run in range(2 * runs):
        before, place = leading(cluster), cluster.cluster().leader
        names = [n for n in cluster.processes if n.startswith("scheduler")]
        name = next(n for n in names if f"reached at {place}" in cluster.processes[n].output)
        process, began = cluster.processes[name], time.monotonic()
        process.signal(signal.SIGSTOP if run % 2 else signal.SIGKILL)
        cluster.until(lambda b=before: leading(cluster) not in {"", b}, READY, "another leader")
        (paused if run % 2 else killed).append(time.monotonic() - began)
        if run % 2:
            process.signal(signal.SIGCONT)
        else:
            process = cluster.start("scheduler", name)
        cluster.until(lambda: {"w1", "w2"} <= cluster.connected(), READY, "its sessions")
        cluster.until(lambda p=process: "reached at" in p.output, READY, "two schedulers")
    report.add("leader killed → another leads, the slowest", "s", max(killed), at_most=7)
    report.add("leader paused → another leads, the slowest", "s", max(paused), at_most=7)
    report.add("tasks restarted by it", "", measured.epochs() != epochs, at_most=0)


def leading(cluster: Cluster) -> str:
    """Return what the leader wrote into etcd; nothing when nobody leads. A client that asks one
    which hangs waits for it: its patience is not what is measured.
    """

    async def read(etcd: Etcd) -> str:
        found = await etcd.range(f"{etcd.prefix}elections/scheduler")
        return found.entries[0].value.decode() if found.entries else ""

    return cluster.in_etcd(read)


def creations(report: Report, cluster: Cluster, count: int = 100) -> None:
    """Create connectors, one after the other; their plugins are up already."""
    seconds = []
    for n in range(count):
        config = {"connector.class": "verifiable-source", "rows": 1, "topic": f"t{n}"}
        began = time.monotonic()
        cluster.create(f"c{n}", config, ConnectorKind.SOURCE)
        cluster.until(lambda n=n: runs(cluster, f"c{n}"), READY, "the connector to run")
        seconds.append(time.monotonic() - began)
    report.add("connector created → its task runs, p50", "s", percentile(seconds, 50))
    report.add("connector created → its task runs, p99", "s", percentile(seconds, 99), at_most=1.5)


def runs(cluster: Cluster, name: str) -> bool:
    """Return whether a connector's tasks run, or have run to their end."""
    status = cluster.status(name)
    return bool(status and status.tasks and all(t.state.name in DONE for t in status.tasks))


DONE = frozenset({"RUNNING", "COMPLETED"})


if __name__ == "__main__":
    sys.exit(main())
