"""A cluster whose state is lost, and which is restored from a backup: into a new etcd, or into a
database. A node whose folder is lost.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from penstock.cli.__main__ import main
from penstock.etcd import Etcd, operations
from penstock.model.connector import ConnectorKind
from support.cluster import READY, Cluster
from support.flow import SPARK
from support.postgresql import PostgresqlServer

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


@pytest.fixture(scope="module")
def server():
    """One PostgreSQL for these tests."""
    with PostgresqlServer() as server:
        yield server


@pytest.mark.parametrize(
    ("of", "to"), [("etcd", "etcd"), ("postgresql", "postgresql"), ("etcd", "postgresql")]
)
@pytest.mark.timeout(300)
def test_a_restored_cluster_goes_on_exactly_once(
    server: PostgresqlServer,
    of: str,
    to: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The sink is past the backup, and has seen epochs that etcd's new revisions are far below."""
    database, file = tmp_path / "sink.db", tmp_path / "cluster.backup"
    settings = server.settings()
    server.sql(f"DROP SCHEMA IF EXISTS {settings.schema} CASCADE")
    stores = {"etcd": {}, "postgresql": {"store": "postgresql", "store.url": settings.url.reveal()}}
    with Cluster(tmp_path, plain=True, store=stores[of]) as cluster:
        monkeypatch.setenv("PENSTOCK_ETCD_ENDPOINTS", ",".join(cluster.etcd.endpoints))
        monkeypatch.setenv("PENSTOCK_STORE_URL", settings.url.reveal())
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
        monkeypatch.setenv("PENSTOCK_STORE", of)
        assert main(["backup", str(file), "-o", "json"]) == 0
        taken = json.loads(capsys.readouterr().out)
        more_rows(cluster, database)  # the offsets of the backup are old now
        before = epoch(cluster)

        for process in cluster.processes.values():
            process.kill()
        cluster.etcd.lose(0)
        cluster.etcd.start(0)
        server.sql(f"DROP SCHEMA IF EXISTS {settings.schema} CASCADE")
        monkeypatch.setenv("PENSTOCK_STORE", to)
        assert main(["restore", str(file), "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["epochs_above"] > taken["revision"]

        for service in ("config", "offset", "scheduler"):
            cluster.start(service, service, **({} if service == "scheduler" else stores[to]))
        cluster.workers("w2", **SPARK)
        cluster.running(NAME, 1)
        more_rows(cluster, database)
        assert epoch(cluster) > before
        rows = arrived(database)
        assert set(rows.values()) == {1}
        assert set(rows) == set(range(len(rows)))


@pytest.mark.timeout(300)
def test_a_restored_node_goes_on_where_its_backup_was(tmp_path: Path) -> None:
    """A copy of the sink from before is as old as the backup: no row is lost, none is twice."""
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(
        "source: {connector.class: file-source, file: in.txt, tail: false}\n"
        "sink: {connector.class: file-sink, file: out.txt}\n"
    )

    def penstock(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli", *map(str, words)],
            cwd=tmp_path,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr + done.stdout

    (tmp_path / "in.txt").write_text("a\nb\n")
    penstock("run", pipeline, "--state", tmp_path / "state")
    penstock("backup", tmp_path / "node.backup", "--state", tmp_path / "state")
    shutil.rmtree(tmp_path / "state")
    penstock("restore", tmp_path / "node.backup", "--state", tmp_path / "new")
    with (tmp_path / "in.txt").open("a") as more:
        more.write("c\n")
    assert "1 row read, 1 written" in penstock("run", pipeline, "--state", tmp_path / "new")
    assert (tmp_path / "out.txt").read_text() == "a\nb\nc\n"
