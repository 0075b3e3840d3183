"""Topics that all workers see, in a shared folder and on an S3-compatible store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.connector import ConnectorKind
from penstock_kit.testing import check_delivery_so_far, read_ledger
from support.cluster import READY, Cluster
from support.flow import SPARK
from support.s3 import ACCESS, SECRET, S3Server

PARTITIONS = 4
WORKERS = ("w1", "w2")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=["folder", "s3"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Two workers with one place for their topics."""
    with S3Server() as server, Cluster(tmp_path, plain=True) as cluster:
        s3 = {
            "topics.dir": "s3://topics/cluster",
            "topics.s3.endpoint": server.endpoint,
            "topics.s3.access.key": ACCESS,
            "topics.s3.secret.key": SECRET,
        }
        cluster.workers(*WORKERS, **SPARK, **(s3 if request.param == "s3" else {}))
        yield cluster


def test_tasks_of_a_sink_share_the_partitions_of_a_topic(cluster: Cluster) -> None:
    """Two tasks write the topic and two read it, on both workers. One is killed: the other has all
    tasks, and every row arrives once, in order.
    """
    ledger = cluster.folder / "ledger"
    source = {
        "connector.class": "verifiable-source",
        "partitions": PARTITIONS,
        "rate": 50,
        "topic": "shared",
        "topic.partitions": PARTITIONS,
        "tasks.max": 2,
    }
    sink = {"connector.class": "verifiable-sink", "ledger": ledger, "topics": "shared"}
    cluster.create("feed", source, ConnectorKind.SOURCE)
    cluster.create("drain", {**sink, "tasks.max": 2}, ConnectorKind.SINK)
    for name in ("feed", "drain"):
        status = cluster.running(name, 2)
        owners = {task.worker.rpartition("-")[0] for task in status.tasks}
        assert owners == set(WORKERS)

    def rows_of(partition: int) -> int:
        entries = read_ledger(ledger).entries
        return sum(entry.rows for entry in entries if entry.partition == str(partition))

    def more(rows: int) -> None:
        wanted = [rows_of(n) + rows for n in range(PARTITIONS)]
        cluster.until(
            lambda: all(rows_of(n) >= count for n, count in enumerate(wanted)),
            READY,
            f"{wanted} rows",
            lambda: [rows_of(n) for n in range(PARTITIONS)],
        )

    more(100)
    assert len({entry.task for entry in read_ledger(ledger).entries}) == 2
    cluster.processes["w1"].kill()
    more(200)
    check_delivery_so_far(read_ledger(ledger).entries).require()
    for name in ("feed", "drain"):
        cluster.config(lambda config, name=name: config.delete(name))
