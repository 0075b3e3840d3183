"""Two workers that share a standalone Spark cluster: its executors move the rows of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster import Cluster
from support.flow import Flow
from support.spark_cluster import spark_cluster

pytestmark = pytest.mark.timeout(400)


def test_two_workers_share_a_spark_cluster(tmp_path: Path) -> None:
    """Both have tasks; when one is killed, the other goes on with all of them, exactly once."""
    with spark_cluster(tmp_path / "spark") as master, Cluster(tmp_path / "cluster") as cluster:
        keys = {
            "spark.master": master,
            "spark.conf.spark.cores.max": "2",
            "spark.conf.spark.executor.cores": "1",
            "spark.conf.spark.executor.memory": "512m",
        }
        cluster.workers("w1", "w2", **keys)
        flow = Flow(cluster, tasks=2)
        flow.start()
        flow.advance()
        assert len(set(flow.owners().values())) == 2
        cluster.processes["w1"].kill()
        flow.advance()
        assert {owner.rpartition("-")[0] for owner in flow.owners().values()} == {"w2"}
        flow.delete()
