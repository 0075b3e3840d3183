"""200 idle tasks in one worker: CPU share over 20 s, memory a task, Spark jobs.

Each task follows a file of its own. All of them move one row first, so that every part of a task
exists; then nothing comes any more. Memory a task is what 200 tasks take more than one, by 199.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from penstock_kit.testing import PenstockProcess, Usage
from report import Report, arguments
from running import START, standalone, working_folder

QUIET = 0.1
"""Cores that start-up work may still use when the clock starts; above it, it has not ended."""


@dataclass(frozen=True)
class Idle:
    """What idle tasks used during the window."""

    cores: float
    jobs: int
    memory: Usage


def observe(tasks: int, seconds: float, *, keep: bool) -> Idle:
    """Run `tasks` tasks, wait until they idle, look for `seconds`."""
    with working_folder(keep=keep) as folder:
        inputs, events = folder / "in", folder / "events"
        inputs.mkdir()
        events.mkdir()
        for n in range(tasks):
            (inputs / f"{n:03d}.txt").write_text(f"line {n}\n", encoding="utf-8")
        source = {
            "name": "idle",
            "connector.class": "file-source",
            "file": str(inputs / "*.txt"),
            "tail": True,
            "tasks.max": tasks,
            "topic": "idle",
        }
        with standalone(folder, source, worker=event_log(events)) as process:
            process.wait_for(lambda: jobs(events) > 0, START + tasks, "the first rows to move")
            settle(process, START + tasks)
            before, began, ran = process.usage(), time.monotonic(), jobs(events)
            time.sleep(seconds)
            used = process.usage().total_cpu - before.total_cpu
            elapsed, memory = time.monotonic() - began, process.usage()
            found = Idle(used / elapsed, jobs(events) - ran, memory)
            process.stop()
    return found


def event_log(folder: Path) -> dict[str, str]:
    """Return the worker keys that make Spark write down every job."""
    keys = {"enabled": "true", "dir": f"file://{folder}", "compress": "false"}
    return {
        **{f"spark.conf.spark.eventLog.{key}": value for key, value in keys.items()},
        "spark.conf.spark.eventLog.rolling.enabled": "false",
    }


def jobs(folder: Path) -> int:
    """Return how many Spark jobs have started."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.read_text(errors="replace").count('"SparkListenerJobStart"') for path in files)


def settle(process: PenstockProcess, deadline: float) -> None:
    """Wait until start-up work has ended: less than `QUIET` cores for two seconds."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        before = process.usage().total_cpu
        time.sleep(2)
        if process.usage().total_cpu - before < 2 * QUIET:
            return
    print(f"never below {QUIET} cores within {deadline:g} s", file=sys.stderr)


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    report = Report("idle tasks", facts={"tasks": options.tasks, "seconds": options.seconds})
    one = observe(1, options.seconds, keep=options.keep)
    many = observe(options.tasks, options.seconds, keep=options.keep)
    more = (many.memory.total_memory - one.memory.total_memory) / 2**20 / max(1, options.tasks - 1)
    report.add("CPU", "% of a core", many.cores * 100, at_most=3)
    report.add("CPU of one idle task", "% of a core", one.cores * 100)
    report.add("Spark jobs while idle", "jobs", many.jobs, at_most=0)
    report.add("memory a task over the base", "MiB", more, at_most=15)
    report.facts |= {"one": str(one.memory), "all": str(many.memory)}
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
