"""The gateway, as a process of a cluster on this machine.

- it starts: seconds until it answers, and memory when nobody asks
- a connector is made: seconds until 201, with a plugin that checks its configuration
- 1,000 connectors are listed with `expand=status&expand=info`
- Prometheus asks: seconds and bytes

Connectors are stopped: what is measured is the answer, not their tasks.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from penstock.testing import PenstockProcess
from report import Report, arguments, percentile
from support.cluster import READY, Cluster

CONNECTORS = 1000
ASKS = 200
CONFIG = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}


def main() -> int:
    """Measure, print, write."""
    options = arguments(__doc__).parse_args()
    report = Report("the gateway", facts={"connectors": CONNECTORS})
    scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with scratch as folder, Cluster(Path(folder)) as cluster:
        cluster.workers("w1", **{"spark.master": "local[1,1]"})
        measure(report, cluster, options.runs)
    return report.finish(options)


def measure(report: Report, cluster: Cluster, runs: int) -> None:
    """Measure one thing after the other."""
    ready, memory = [], []
    for run in range(runs):
        began = time.monotonic()
        process = cluster.start("gateway", f"g{run}", listeners="http://127.0.0.1:0")
        client = listening(process)
        client.get("/").raise_for_status()
        ready.append(time.monotonic() - began)
        time.sleep(2)  # what a start leaves behind is collected
        memory.append(process.usage().total_rss / 1e6)
        if run < runs - 1:
            client.close()
            process.stop(READY)
    report.add("a gateway that starts answers", "s", *ready, at_most=2)
    report.add("its memory when nobody asks", "MB", *memory, at_most=120)
    with closing(client):
        made = [seconds(lambda n=n: make(client, n)) for n in range(CONNECTORS)]
        report.add("a connector is made, p99", "ms", percentile(made, 99) * 1000, at_most=300)
        report.add("the same, p50", "ms", percentile(made, 50) * 1000)
        listed = [seconds(lambda: expand(client)) for _ in range(ASKS)]
        report.add("all are listed, p99", "ms", percentile(listed, 99) * 1000, at_most=300)
        report.add("the same, p50", "ms", percentile(listed, 50) * 1000)
        scraped = [seconds(lambda: client.get("/metrics").raise_for_status()) for _ in range(20)]
        report.add("Prometheus asks, slowest of 20", "ms", max(scraped) * 1000)
        report.add("its memory afterwards", "MB", process.usage().total_rss / 1e6)


def listening(process: PenstockProcess) -> httpx.Client:
    """Return a client of a gateway, as soon as it says where it is."""
    process.wait_for(lambda: "REST at " in process.output, READY, "the gateway to listen")
    (url,) = re.findall(r"REST at (http://\S+)", process.output)
    return httpx.Client(base_url=url, timeout=60)


def make(client: httpx.Client, number: int) -> None:
    """Make a connector."""
    body = {"name": f"connector-{number:04}", "config": CONFIG, "initial_state": "STOPPED"}
    answer = client.post("/connectors", json=body)
    assert answer.status_code == 201, answer.text


def expand(client: httpx.Client) -> None:
    """List all, with all that is known."""
    answer = client.get("/connectors?expand=status&expand=info")
    assert len(answer.json()) == CONNECTORS


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
