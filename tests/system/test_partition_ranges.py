"""Partitions that nobody enumerates: four tasks by ranges of hosts, a partition for each metric.

The source is the SDK's example (`connectors/python/examples/host_metrics.py`), as in KIP-26.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.processes import PLAIN
from system.pipelines import Pipeline

MANIFEST = """name = "hosts"
version = "1"
command = ["{python}", "-P", "{folder}/host_metrics.py"]

[[connector]]
name = "host-metrics"
kind = "source"
"""


class Hosts:
    """A folder with a file for each host, and the pipeline that reads it into `out`."""

    def __init__(self, folder: Path, hosts: int, metrics: int) -> None:
        self.folder, self.metrics = folder, metrics
        self.names = [f"h{number:04}" for number in range(hosts)]
        self.plugin = folder / "plugin"
        self.plugin.mkdir()
        shutil.copy(ROOT / "connectors/python/examples/host_metrics.py", self.plugin)
        (self.plugin / "plugin.toml").write_text(MANIFEST)
        (folder / "hosts").mkdir()
        self.written: list[int] = []

    def append(self, time: int) -> None:
        """Give each metric of each host a value."""
        lines = "".join(f"m{number} {time} 0.5\n" for number in range(self.metrics))
        for name in self.names:
            with (self.folder / "hosts" / name).open("a") as file:
                file.write(lines)
        self.written.append(time)

    def pipeline(self, bounds: list[str], module: str = PLAIN) -> Pipeline:
        """Return the pipeline with these bounds of its ranges; the state is the folder's."""
        source = {"connector.class": "host-metrics", "folder": str(self.folder / "hosts")}
        source |= {"bounds": ",".join(bounds), "batch.rows": 2_000}
        sink = {"connector.class": "file-sink", "path": str(self.folder / "out"), "format": "jsonl"}
        tasks = {"tasks.max": len(bounds) + 1, "until.caught.up": True}
        return Pipeline(self.folder, {"source": source, "sink": sink, **tasks}, module)

    def check(self) -> None:
        """Every value arrived once."""
        found = Counter()
        for file in (self.folder / "out").rglob("*.jsonl"):
            for line in file.read_text().splitlines():
                row = json.loads(line)
                found[row["host"], row["metric"], row["time"]] += 1
        assert sum(found.values()) == len(self.names) * self.metrics * len(self.written)
        assert set(found.values()) == {1}
        assert {time for _, _, time in found} == set(self.written)


def follow(hosts: Hosts, module: str = PLAIN) -> None:
    """Read, be killed, resume, and resume again with other ranges, and with the same ones."""
    quarters = [hosts.names[len(hosts.names) * n // 4] for n in (1, 2, 3)]
    hosts.append(1)
    pipeline = hosts.pipeline(quarters, module)
    pipeline.kill_at("worker.offset_committed=kill@3", "--plugins", hosts.plugin)
    hosts.append(2)
    done = pipeline.run("--plugins", hosts.plugin, deadline=1_000)
    assert done.code == 0, done.output
    hosts.check()
    for bounds in ([hosts.names[len(hosts.names) // 3]], quarters, quarters):
        hosts.append(len(hosts.written) + 1)
        done = hosts.pipeline(bounds, module).run("--plugins", hosts.plugin, deadline=1_000)
        assert done.code == 0, done.output
        hosts.check()


def test_tasks_share_what_nobody_enumerates_and_resume_exactly(tmp_path):
    follow(Hosts(tmp_path, hosts=40, metrics=250))


@pytest.mark.on_demand(reason="a million partitions take some minutes")
@pytest.mark.timeout(3_600)
def test_a_million_partitions_over_four_tasks_resume_exactly(tmp_path):
    follow(Hosts(tmp_path, hosts=1_000, metrics=1_000))
