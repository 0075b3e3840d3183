"""Numbered rows that flow through a cluster to a ledger, exactly once, as long as a test wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from penstock.model.connector import ConnectorKind, TargetState
from penstock.model.status import RunState
from penstock_kit.testing import Report, check_delivery_so_far, read_ledger
from support.cluster import READY, Cluster

ROWS: Final = 100
"""Rows of each task that show that it goes on."""

SPARK: Final[Mapping[str, str]] = {"spark.master": "local[1,1]"}
"""Keys of a worker that shares two cores with others."""


class Flow:
    """A pipeline of numbered rows. Owners are told by its ledger: lines name task and epoch."""

    def __init__(self, cluster: Cluster, name: str = "flow", tasks: int = 3) -> None:
        self.cluster, self.name, self.tasks = cluster, name, tasks
        self.ledger = cluster.folder / f"ledger-{name}"

    def start(self, **more: Any) -> None:
        """Create it; returns when every task runs."""
        self.create(**more)
        self.cluster.running(self.name, self.tasks)

    def create(self, state: TargetState = TargetState.RUNNING, **more: Any) -> None:
        """Create it in a state. `more`: keys."""
        config = {
            "source.connector.class": "verifiable-source",
            "source.partitions": self.tasks,
            "source.rate": 60,
            "source.batch.rows": 50,
            "sink.connector.class": "verifiable-sink",
            "sink.ledger": self.ledger,
            "tasks.max": self.tasks,
            "flush.interval": "500ms",
            **more,
        }
        self.cluster.create(self.name, config, ConnectorKind.PIPELINE, state)

    def counts(self) -> Counter[str]:
        """Return how many rows of each partition arrived."""
        found: Counter[str] = Counter()
        for entry in read_ledger(self.ledger).entries:
            found[entry.partition] += entry.rows
        return found

    def advance(self, rows: int = ROWS) -> None:
        """Wait until every partition has so many more rows."""
        before = self.counts()
        wanted = {str(n): before[str(n)] + rows for n in range(self.tasks)}

        def advanced() -> bool:
            now = self.counts()
            return all(now[key] >= count for key, count in wanted.items())

        self.cluster.until(advanced, READY, f"{wanted} rows", lambda: (before, self.counts()))

    def report(self) -> Report:
        """Compare what came with itself."""
        return check_delivery_so_far(read_ledger(self.ledger).entries)

    def epochs(self) -> dict[str, int]:
        """Return the epoch under which each task writes now, as its ledger has it."""
        self.advance(1)
        return {task: epochs[-1] for task, epochs in self.epochs_in_ledger().items()}

    def owners(self) -> dict[str, str]:
        """Return the id of each task's worker, as the scheduler has it."""
        status = self.cluster.status(self.name)
        return {task.task_id: task.worker for task in status.tasks} if status else {}

    def even(self, each: int, *workers: str) -> None:
        """Wait until each worker runs so many of its tasks."""

        def shared() -> bool:
            status = self.cluster.status(self.name)
            if status is None or {t.state for t in status.tasks} != {RunState.RUNNING}:
                return False
            counts = Counter(task.worker.rpartition("-")[0] for task in status.tasks)
            return counts == dict.fromkeys(workers, each)

        self.cluster.until(shared, READY, f"{each} tasks on each of {workers}", self.owners)

    def epochs_in_ledger(self) -> dict[str, list[int]]:
        """Return the epochs under which each task wrote, in order."""
        found: dict[str, list[int]] = {}
        for entry in read_ledger(self.ledger).entries:
            epochs = found.setdefault(entry.task, [])
            if entry.epoch not in epochs:
                epochs.append(entry.epoch)
        return found

    def delete(self) -> None:
        """Delete it, and check what arrived."""
        self.cluster.config(lambda config: config.delete(self.name))
        self.report().require()
