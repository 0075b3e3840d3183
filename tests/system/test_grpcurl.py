"""The page of grpcurl calls, as it is written, against a cluster."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.cluster import READY, Cluster
from support.flow import SPARK
from support.grpcurl import grpcurl
from support.readme import blocks

pytestmark = pytest.mark.timeout(500)

README = ROOT / "proto" / "README.md"


def test_each_call_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    (block,) = [
        block
        for block in blocks(README.read_text(encoding="utf-8"), "proto/README.md")
        if block.marks.get("tested-by", "").endswith("test_grpcurl.py")
    ]
    path = f"{grpcurl()}:{os.environ['PATH']}"
    with Cluster(tmp_path / "cluster", plain=True) as cluster:
        cluster.workers("w1", **SPARK)
        places = {
            name.upper(): address(cluster, name) for name in ("config", "offset", "scheduler")
        }
        (worker,) = cluster.cluster().workers
        env = {**os.environ, "PATH": path, **places, "WORKER": worker.address}
        printed = {}
        for command in block.commands():
            if "ListStatus" in command:  # the leader hears of it a moment later
                cluster.until(lambda: cluster.status("numbers"), READY, "to be known")
            done = subprocess.run(
                ["bash", "-c", command],
                env=env,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            printed[command.rpartition("/")[2]] = done.stdout
        refused = subprocess.run(
            ["grpcurl", "-plaintext", "-d", '{"name": "none"}', places["CONFIG"],
             "penstock.api.config.v1.ConfigService/GetConnector"],
            env=env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert json.loads(printed["Check"]) == {"status": "SERVING"}
    assert json.loads(printed["PatchConnector"])["connector"]["config"]["rows"] == "20"
    assert "rows" in printed["DiffRevisions"]
    assert json.loads(printed["GetCluster"])["workers"][0]["name"] == "w1"
    assert "verifiable-source" in printed["ListPlugins"]
    assert refused.returncode != 0
    assert "config.not_found" in refused.stderr


def address(cluster: Cluster, name: str) -> str:
    """Return where an instance listens, as its log says."""
    lines = cluster.processes[name].output.splitlines()
    (line,) = [line for line in lines if "reached at " in line]
    return line.rpartition("reached at ")[2].strip()
