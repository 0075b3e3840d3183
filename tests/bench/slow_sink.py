"""A sink 100 times slower than its source: memory of the worker, the JVM and the plugins over time.

The verifiable source could send far more than the verifiable sink takes. Flow control must hold it
back: memory stays where it is after the first minute, within 15 % either way.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock_kit.testing import PenstockProcess, Spans, Usage, check_delivery, read_ledger
from report import Report, arguments
from running import START, pipeline, working_folder

ROWS = 50_000_000
"""More than the sink can take while we look."""


def described(ledger: Path, delay: float) -> dict[str, Any]:
    """Return the pipeline of this benchmark."""
    return {
        "name": "slow",
        "source": {"connector.class": "verifiable-source", "rows": ROWS, "partitions": 1},
        "sink": {
            "connector.class": "verifiable-sink",
            "ledger": str(ledger),
            "delay.ms": delay,
        },
    }


def watch(process: PenstockProcess, minutes: float, every: float, done: Callable[[], int]):
    """Return what was in use at each look, printing one line for each."""
    taken: list[Usage] = []
    began = time.monotonic()
    while (passed := time.monotonic() - began) < minutes * 60:
        process.wait_for(lambda: True, 1, "the pipeline to go on")
        taken.append(process.usage())
        print(f"{passed:6.0f} s  {done():>12,} rows  {taken[-1]}", flush=True)
        time.sleep(every)
    return taken


def deviation(values: list[float]) -> float:
    """Return the widest distance from the middle value, in percent of it."""
    middle = statistics.median(values)
    return max(abs(value - middle) for value in values) / middle * 100 if middle else 0.0


def verify(ledger: Path) -> int:
    """Return how many rows came, when they are a sound beginning of what was sent."""
    entries = read_ledger(ledger).entries
    came: dict[str, Spans] = {}
    for entry in entries:
        spans = came.setdefault(entry.partition, Spans())
        for span in entry.sequences:
            spans.add(*span)
    expected = {key: Spans([(0, spans.highest or 0)]) for key, spans in came.items()}
    return check_delivery(expected, entries).require().delivered


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--every", type=float, default=5, help="seconds between two looks")
    parser.add_argument("--delay-ms", type=float, default=500, help="what a batch takes the sink")
    options = parser.parse_args()
    report = Report("slow sink", facts={"minutes": options.minutes, "delay_ms": options.delay_ms})
    with working_folder(keep=options.keep) as folder:
        ledger = folder / "ledger.jsonl"

        def rows() -> int:
            return read_ledger(ledger).rows

        with pipeline(folder, described(ledger, options.delay_ms)) as process:
            process.wait_for(lambda: rows() > 0, START, "the first rows at the sink")
            taken = watch(process, options.minutes + 1, options.every, rows)
            process.kill()
        report.facts["rows"] = verify(ledger)
    settled = taken[len(taken) // int(options.minutes + 1) :]  # the first minute fills the buffers
    for kind in sorted(settled[-1].memory):
        sizes = [usage.memory.get(kind, 0) / 2**20 for usage in settled]
        report.add(f"{kind}, deviation", "%", deviation(sizes), at_most=15)
        report.add(f"{kind}, median", "MiB", statistics.median(sizes))
    totals = [usage.total_memory / 2**20 for usage in settled]
    report.add("all, deviation", "%", deviation(totals), at_most=15)
    report.add("all, highest", "MiB", max(totals), at_most=1638)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
