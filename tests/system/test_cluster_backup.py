"""A cluster whose etcd is lost, and which is restored into a new one from a backup."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from penstock.cli.__main__ import main
from penstock.etcd import Etcd, operations
from penstock.model.connector import ConnectorKind
from support.cluster import READY, Cluster
from support.flow import SPARK

NAME = "copied"
ROWS = 200


def arrived(database: Path) -> Counter[int]:
    """Return how often each row is in the sink's table."""
    if not database.exists():
        return Counter()
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        try:
            return Counter(seq for (seq,) in connection.execute("SELECT seq FROM numbered"))
        except sqlite3.OperationalError:  # no table yet
            return Counter()


def more_rows(cluster: Cluster, database: Path) -> None:
    """Wait until there are more rows."""
    wanted = len(arrived(database)) + ROWS
    cluster.until(
        lambda: len(arrived(database)) >= wanted, READY, f"{wanted} rows", lambda: arrived(database)
    )


async def grow(etcd: Etcd) -> None:
    """Let revisions grow, as in a cluster that has run for a while."""
    for _ in range(3000):
        await etcd.txn([], [operations.put("/grown", b"")], stage="grow")


def epoch(cluster: Cluster) -> int:
    """Return the epoch of the task."""
    (task,) = cluster.running(NAME, 1).tasks
    return task.epoch


@pytest.mark.timeout(300)
def test_a_restored_cluster_goes_on_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sink is past the backup, and has seen epochs that etcd's new revisions are far below."""
    database, file = tmp_path / "sink.db", tmp_path / "cluster.backup"
    with Cluster(tmp_path, plain=True) as cluster:
        monkeypatch.setenv("PENSTOCK_ETCD_ENDPOINTS", ",".join(cluster.etcd.endpoints))
        cluster.in_etcd(grow)
        cluster.workers("w1", **SPARK)
        config = {
            "source.connector.class": "verifiable-source",
            "source.partitions": 1,
            "source.rate": 60,
            "source.batch.rows": 50,
            "sink.connector.class": "jdbc-sink",
            "sink.connection.url": f"jdbc:sqlite:{database}",
            "sink.auto.create": True,
            "sink.table.name.format": "numbered",
            "flush.interval": "500ms",
        }
        cluster.create(NAME, config, ConnectorKind.PIPELINE)
        more_rows(cluster, database)
        assert main(["backup", str(file), "-o", "json"]) == 0
        taken = json.loads(capsys.readouterr().out)
        more_rows(cluster, database)  # the offsets of the backup are old now
        before = epoch(cluster)

        for process in cluster.processes.values():
            process.kill()
        cluster.etcd.lose(0)
        cluster.etcd.start(0)
        assert main(["restore", str(file), "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["epochs_above"] > taken["revision"]

        for service in ("config", "offset", "scheduler"):
            cluster.start(service, service)
        cluster.workers("w2", **SPARK)
        cluster.running(NAME, 1)
        more_rows(cluster, database)
        assert epoch(cluster) > before
        rows = arrived(database)
        assert set(rows.values()) == {1}
        assert set(rows) == set(range(len(rows)))
