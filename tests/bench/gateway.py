"""The gateway, as a process of a cluster on this machine.

- it starts: seconds until it answers, and memory when nobody asks
- a connector is made: seconds until 201, with a plugin that checks its configuration, in its own
  time and in 10 ms more
- 1,000 connectors are listed with `expand=status&expand=info`, without tasks and with one each
- Prometheus asks: seconds and bytes

Connectors are stopped, or paused: what is measured is the answer, not their tasks.
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

from penstock_kit.testing import PenstockProcess
from report import Report, arguments, percentile
from support.cluster import READY, Cluster

CONNECTORS = 1000
ASKS = 200
CONFIG = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}
CHECKED = {"connector.class": "checked", "topic": "rows"}
PLUGIN = Path(__file__).parent / "rows_plugin"
START = 600.0
"""Seconds in which a task for each connector is there."""


def main() -> int:
    """Measure, print, write."""
    options = arguments(__doc__).parse_args()
    report = Report("the gateway", facts={"connectors": CONNECTORS})
    scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with scratch as folder, Cluster(Path(folder)) as cluster:
        plugin = {"plugin.path": str(PLUGIN), "plugin.only.sealed": "false"}
        cluster.workers("w1", **{"spark.master": "local[1,1]"}, **plugin)
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
        memory.append(process.usage().total_memory / 1e6)
        if run < runs - 1:
            client.close()
            process.stop(READY)
    report.add("a gateway that starts answers", "s", *ready, at_most=2)
    report.add("its memory when nobody asks", "MB", *memory, at_most=120)
    with closing(client):
        slow = [seconds(lambda n=n: make(client, f"checked-{n}", CHECKED)) for n in range(ASKS)]
        tell(report, "a connector that is checked in 10 ms is made", slow)
        for number in range(ASKS):
            client.delete(f"/connectors/checked-{number}").raise_for_status()
        made = [seconds(lambda n=n: make(client, name(n), CONFIG)) for n in range(CONNECTORS)]
        tell(report, "a connector is made", made)
        tell(report, "all are listed", [seconds(lambda: expand(client)) for _ in range(ASKS)])
        for number in range(CONNECTORS):
            client.put(f"/connectors/{name(number)}/pause").raise_for_status()
        process.wait_for(lambda: tasks(client) == CONNECTORS, START, "a task for each")
        asks = [seconds(lambda: expand(client)) for _ in range(ASKS)]
        tell(report, "all are listed, with a task each", asks)
        scraped = [seconds(lambda: client.get("/metrics").raise_for_status()) for _ in range(20)]
        report.add("Prometheus asks, slowest of 20", "ms", max(scraped) * 1000)
        report.add("its memory afterwards", "MB", process.usage().total_memory / 1e6)


def listening(process: PenstockProcess) -> httpx.Client:
    """Return a client of a gateway, as soon as it says where it is."""
    process.wait_for(lambda: "REST at " in process.output, READY, "the gateway to listen")
    (url,) = re.findall(r"REST at (http://\S+)", process.output)
    return httpx.Client(base_url=url, timeout=60)


def tell(report: Report, what: str, took: list[float]) -> None:
    """Report how long calls took."""
    report.add(f"{what}, p99", "ms", percentile(took, 99) * 1000, at_most=300)
    report.add("the same, p50", "ms", percentile(took, 50) * 1000)


def name(number: int) -> str:
    """Return what a connector is called."""
    return f"connector-{number:04}"


def make(client: httpx.Client, name: str, config: dict[str, str]) -> None:
    """Make a connector."""
    body = {"name": name, "config": config, "initial_state": "STOPPED"}
    answer = client.post("/connectors", json=body)
    assert answer.status_code == 201, answer.text


def tasks(client: httpx.Client) -> int:
    """Return how many tasks there are."""
    answer = client.get("/connectors?expand=status").json()
    return sum(len(one["status"]["tasks"]) for one in answer.values())


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
