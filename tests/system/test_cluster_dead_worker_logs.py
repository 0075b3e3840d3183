"""What a worker logged before it was killed."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from penstock.cli.__main__ import main
from penstock.model.connector import ConnectorKind
from penstock.model.logs import LogFilter
from support.cluster import READY, Cluster
from support.flow import SPARK
from support.processes import free_ports

NAME = "broken"
FAILED = LogFilter(NAME, logging.WARNING, tail=100)


def stored(cluster: Cluster) -> dict[str, str]:
    """Return the last stored line about the connector, by worker."""
    lines = cluster.scheduler(lambda client: client.list_log_lines(FAILED))
    return {one.worker: one.line.message for one in lines}


@pytest.mark.timeout(300)
def test_warnings_outlive_a_killed_worker_and_the_leader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(tmp_path, plain=True) as cluster:
        port = free_ports(1)[0]
        cluster.start("gateway", "gateway", listeners=f"http://127.0.0.1:{port}")
        cluster.workers("w1", **SPARK)
        config = {
            "source.connector.class": "verifiable-source",
            "source.partitions": 1,
            "sink.connector.class": "verifiable-sink",
            "sink.ledger": Path("/dev/null/ledger"),
        }
        cluster.create(NAME, config, ConnectorKind.PIPELINE)

        cluster.until(lambda: stored(cluster), READY, "its lines to be stored")
        cluster.processes["w1"].kill()
        cluster.until(lambda: not cluster.connected(), READY, "the worker to be gone")
        ((worker, message),) = stored(cluster).items()
        assert worker.startswith("w1-")
        assert "/dev/null" in message

        cluster.processes["scheduler"].kill()
        cluster.start("scheduler", "s2")
        cluster.until(lambda: stored(cluster), READY, "another leader to have them")
        assert stored(cluster) == {worker: message}

        def printed() -> list[dict[str, str]]:
            words = ["logs", NAME, "--server", f"http://127.0.0.1:{port}", "-o", "json"]
            if main(words) != 0:
                return []
            return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

        cluster.until(printed, READY, "the gateway to find the leader")
        (*_, last) = printed()
        assert (last["worker"], last["message"], last["connector"]) == (worker, message, NAME)
