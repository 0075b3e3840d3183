"""2,000,000 lines of 100 bytes, file → embedded topic → file, both connectors running at once.

The source follows a file; all lines are appended at once, and the clock stops when the last of them
is visible at the sink. `kafka_connect.py` does the same with Kafka Connect, in the same session.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lines
from file_to_file import WARM_UP, verify
from report import Report, arguments
from running import START, Output, standalone, until_visible, working_folder


def connectors(source: Path, output: Output, topic: str = "lines") -> list[dict[str, Any]]:
    """Return the two connectors with their defaults."""
    return [
        {
            "name": "lines-in",
            "connector.class": "file-source",
            "file": str(source),
            "tail": True,
            "topic": topic,
        },
        {
            "name": "lines-out",
            "connector.class": "file-sink",
            "topics": topic,
            "file": str(output.file),
        },
    ]


def measure(
    count: int,
    runs: int,
    report: Report,
    *,
    keep: bool = False,
    worker: Mapping[str, Any] | None = None,
    topic: str = "lines",
    label: str = "",
    goal: int = 500_000,
) -> list[float]:
    """Append the lines once to make all warm, then `runs` times; returns the seconds of those.
    `worker` has more keys of the node; `label` begins the names of the figures; `goal` is in rows a
    second.
    """
    seconds, costs = [], []
    with working_folder(keep=keep) as folder:
        source, output = folder / "in.txt", Output(folder / "out")
        source.touch()
        with standalone(folder, *connectors(source, output, topic), worker=worker) as process:
            lines.append(lines.plain(WARM_UP), source)
            size = lines.plain(WARM_UP).stat().st_size
            until_visible(process, output, size, START)
            for _ in range(runs + 1):
                size += lines.plain(count).stat().st_size
                cpu, began = process.usage().total_cpu, time.monotonic()
                lines.append(lines.plain(count), source)
                seconds.append(until_visible(process, output, size, START) - began)
                costs.append((process.usage().total_cpu - cpu) / count * 1e6)
            memory, seconds, costs = process.usage(), seconds[1:], costs[1:]
            process.stop()
        verify(output, [lines.plain(WARM_UP), *[lines.plain(count)] * (runs + 1)])
    rates = [count / s for s in seconds]
    report.add(f"{label}append → last line visible", "rows/s", *rates, at_least=goal)
    report.add(f"{label}CPU a line, all processes", "µs", *costs, at_most=2)
    report.add(f"{label}memory of all processes", "MiB", memory.total_memory / 2**20, at_most=1638)
    report.facts[f"{label}memory"] = str(memory)
    return seconds


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000)
    options = parser.parse_args()
    report = Report("file → embedded topic → file", facts={"lines": options.lines})
    for count in (WARM_UP, options.lines):
        lines.plain(count)
    measure(options.lines, options.runs, report, keep=options.keep)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
