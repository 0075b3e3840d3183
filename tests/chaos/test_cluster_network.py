"""Processes on machines of their own, one of which is cut off from all others, or only unheard."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cluster import READY, Cluster
from support.flow import SPARK, Flow
from support.network import Network

pytestmark = pytest.mark.timeout(400)


def test_a_worker_that_is_cut_off_fences_itself(tmp_path: Path) -> None:
    """Nobody hears of it, and it of nobody, or it alone is not heard: its tasks begin elsewhere,
    and it has cut its own off. When the network is back, so is it. Each row arrives once.
    """
    with (
        Network("w1", "w2") as network,
        Cluster(tmp_path, host=network.home, plain=True) as cluster,
    ):
        for name in ("w1", "w2"):
            listen = {"listen": f"{network.address(name)}:0"}
            cluster.start("worker", name, within=network.on(name), **listen, **SPARK)
        cluster.until(lambda: cluster.connected() == {"w1", "w2"}, READY, "both workers")
        flow = Flow(cluster, tasks=4)
        flow.start()
        flow.advance()
        cut = cluster.processes["w1"]
        for separated in (network.cut, network.mute):
            before = len(cut.output)
            with separated("w1"):
                cluster.until(
                    lambda before=before: "all tasks are cancelled" in cut.output[before:],
                    READY,
                    "it to fence itself",
                )
                flow.even(4, "w2")
                flow.advance()
            cluster.until(lambda: cluster.connected() == {"w1", "w2"}, READY, "it to be back")
            flow.even(2, "w1", "w2")
            flow.advance()
        flow.delete()


def test_a_leader_that_is_cut_off_is_replaced_and_no_task_restarts(tmp_path: Path) -> None:
    """S1: another instance leads; when the first is back it follows."""
    with Network("s1") as network, Cluster(tmp_path, host=network.home, plain=True) as cluster:
        listen = {"listen": f"{network.address('s1')}:0"}
        cluster.start("scheduler", "s1", within=network.on("s1"), **listen)
        cluster.processes["scheduler"].kill()
        away = network.address("s1")
        cluster.until(lambda: cluster.cluster().leader.startswith(away), READY, "s1 to lead")
        cluster.start("scheduler", "s2")
        cluster.workers("w1", **SPARK)
        flow = Flow(cluster, tasks=2)
        flow.start()
        before = flow.epochs()
        with network.cut("s1"):
            cluster.until(
                lambda: cluster.cluster().leader.startswith(network.home), READY, "s2 to lead"
            )
            cluster.until(lambda: cluster.connected() == {"w1"}, READY, "the worker's session")
            flow.advance()
        flow.advance()
        assert flow.epochs() == before
        assert cluster.cluster().leader.startswith(network.home)
        flow.delete()
