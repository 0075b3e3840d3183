"""Busy tasks in one worker: micro-batches a second of 20, and what 2,000 rows a second in 3 cost.

Numbered rows go to a ledger. The micro-batches have a few rows each, so that what counts is their
number: a ticket for the engine, a transaction at the sink, offsets, an acknowledgement.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from typing import Any

import httpx

from penstock_kit.testing import PenstockProcess, Usage
from report import Report, arguments
from running import START, standalone, working_folder

WARM_UP_S = 5.0
"""Seconds of moving rows before the clock starts: plans are built, and lanes opened."""


AHEAD = 4
"""Batches that a source may be ahead of its commits. Without a limit it makes tens of thousands of
them while the first ones are written, and that would be measured, too."""


@dataclass(frozen=True)
class Busy:
    """What busy tasks did and used, by second."""

    batches: float
    rows: float
    cores: float
    usage: Usage


def observe(tasks: int, rate: float, rows: int, seconds: float, *, keep: bool) -> Busy:
    """Let `tasks` tasks move rows in micro-batches of at most so many; each `rate` rows a second,
    or all that it can.
    """
    with working_folder(keep=keep) as folder:
        connector = {
            "name": "busy",
            "source.connector.class": "verifiable-source",
            "source.partitions": tasks,
            "source.rate": rate,
            "source.batch.rows": rows,
            "source.gate": AHEAD * rows,
            "sink.connector.class": "verifiable-sink",
            "sink.ledger": str(folder / "ledger"),
            "batch.max.rows": rows,
            "tasks.max": tasks,
        }
        worker = {"listeners": "http://127.0.0.1:0", "spark.master": "local[2]"}
        (folder / "ledger").mkdir()
        with standalone(folder, connector, worker=worker) as process:
            moved = _counter(process)
            process.wait_for(lambda: moved()[1] > 0, START, "the first rows to move")
            time.sleep(WARM_UP_S)
            usage, began, before = process.usage(), time.monotonic(), moved()
            time.sleep(seconds)
            after, used = moved(), process.usage()
            elapsed = time.monotonic() - began
            process.stop()
    batches, written = (b - a for a, b in zip(before, after, strict=True))
    cores = (used.total_cpu - usage.total_cpu) / elapsed
    return Busy(batches / elapsed, written / elapsed, cores, used)


def _counter(process: PenstockProcess) -> Any:
    """Return a function that tells the micro-batches and rows so far."""

    def moved() -> tuple[int, int]:
        found = re.findall(r"REST at (http://\S+)", process.output)
        if not found:
            return 0, 0
        status = httpx.get(f"{found[0]}/v1/status", timeout=30).json()
        tasks = [task for one in status["connectors"] for task in one["tasks"]]
        return (
            sum(task["batches"] or 0 for task in tasks),
            sum(task["rows_written"] or 0 for task in tasks),
        )

    return moved


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    report = Report("busy tasks", facts={"tasks": options.tasks, "seconds": options.seconds})
    many = observe(options.tasks, 5000.0, 100, options.seconds, keep=options.keep)
    report.add("micro-batches", "a second", many.batches, at_least=1000)
    report.add("CPU of a micro-batch", "ms", many.cores / many.batches * 1000)
    few = observe(3, 2000 / 3, 100, options.seconds, keep=options.keep)
    report.add("CPU of 2,000 rows/s in 3 tasks", "cores", few.cores, at_most=0.25)
    report.add("their rows", "rows/s", few.rows)
    report.add("their micro-batches", "a second", few.batches)
    report.facts |= {"many": str(many.usage), "few": str(few.usage)}
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
