"""A cluster of all services with five connectors that have nothing to do: what its being costs.

CPU of each service over the window, revisions of etcd (leases make none) and lines of logs. Three
sources follow files, two sinks write what they read; a row moves through each first.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from penstock.etcd import Etcd
from penstock.model.connector import ConnectorKind
from report import Report, arguments
from running import working_folder
from support.cluster import READY, Cluster

SETTLED_S = 15.0
"""Plans are made again and connections close in the first seconds after a change."""


def start_connectors(cluster: Cluster, folder: Path) -> None:
    """Let a row move through three sources and two sinks."""
    for number in range(3):
        file = folder / f"in{number}.txt"
        file.write_text("a row\n")
        source = {"connector.class": "file-source", "file": str(file), "tail": True}
        cluster.create(f"read{number}", source | {"topic": f"t{number}"}, ConnectorKind.SOURCE)
    outs = [folder / f"out{number}" for number in range(2)]
    for number, out in enumerate(outs):
        sink = {"connector.class": "file-sink", "path": str(out), "topics": f"t{number}"}
        cluster.create(f"write{number}", sink | {"format": "jsonl"}, ConnectorKind.SINK)
    rows = lambda: all(any(out.glob("*.jsonl")) for out in outs)  # noqa: E731
    cluster.until(rows, READY, "a row in each sink")


def revision(cluster: Cluster) -> int:
    """Return the revision of etcd: each write of a key raises it."""

    async def read(etcd: Etcd) -> int:
        return (await etcd.range("/none")).revision

    return cluster.in_etcd(read)


def lines(cluster: Cluster) -> int:
    """Return how many lines all processes have printed."""
    return sum(process.output.count("\n") for process in cluster.processes.values())


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    report = Report("idle cluster", facts={"seconds": options.seconds})
    with working_folder(keep=options.keep) as folder, Cluster(folder / "cluster") as cluster:
        cluster.start("gateway", "gateway")
        cluster.workers("worker")
        start_connectors(cluster, folder)
        time.sleep(SETTLED_S)
        began, wrote, printed = time.monotonic(), revision(cluster), lines(cluster)
        before = {name: one.usage() for name, one in cluster.processes.items()}
        time.sleep(options.seconds)
        after = {name: one.usage() for name, one in cluster.processes.items()}
        elapsed = time.monotonic() - began
        total = 0.0
        for name, used in after.items():
            cores = (used.total_cpu - before[name].total_cpu) / elapsed
            total += cores
            report.add(f"CPU of {name}", "cores", cores)
        report.add("CPU without etcd", "cores", total, at_most=0.1)
        report.add("revisions of etcd", "writes", revision(cluster) - wrote, at_most=0)
        report.add("lines in logs", "lines", lines(cluster) - printed, at_most=0)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
