"""2,000,000 lines of 100 bytes, file → one filter and one projection in Spark → file, no topic.

*Warm*: the pipeline follows a file and has read it once; all lines are appended at once, and the
clock stops when the last of them is visible at the sink: *one file*, whose commits copy what was
staged to its end, *new files*, whose commits only rename, or *crossing*, with an expression that
has no Arrow kernel, so that every row goes through the JVM. *Cold*: `penstock run` on the whole
file, from the shell prompt to the next one, start of Python, plugins and Spark included. Every
output is compared byte by byte (by checksum) with one that was computed without Penstock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lines
from penstock_kit.testing import PenstockProcess
from penstock_kit.testing.process_tree import Usage
from report import Report, arguments
from running import START, Output, pipeline, until_visible, working_folder

WARM_UP = 100_000


CROSSING = "upper(concat(line, '')) AS line"
"""The same projection, as only the JVM can compute it."""


def described(
    source: Path,
    output: Output,
    *,
    tail: bool,
    projection: str = lines.PROJECTION,
    rolling: bool = False,
) -> dict[str, Any]:
    """Return the pipeline of this benchmark; its sink appends to one file, or begins new ones."""
    many = {"path": str(output.folder), "format": "text", "rotate.bytes": "16MiB"}
    where = many if rolling else {"file": str(output.file)}
    return {
        "name": "lines",
        "source": {"connector.class": "file-source", "file": str(source), "tail": tail},
        "transforms": [
            {"name": "keep", "type": "Filter", "condition": lines.FILTER},
            {"name": "shout", "type": "Project", "columns": projection},
        ],
        "sink": {"connector.class": "file-sink", **where},
    }


@dataclass(frozen=True, slots=True)
class Warm:
    """What a running pipeline did: rows/s and µs of CPU a line of each run, and its memory."""

    rates: list[float]
    costs: list[float]
    usage: Usage


def warm(count: int, runs: int, *, keep: bool, **variant: Any) -> Warm:
    """Append the lines to the file that a running pipeline follows: once to make it warm, then
    `runs` times.
    """
    expected = [lines.converted(WARM_UP), *[lines.converted(count)] * (runs + 1)]
    rates, costs = [], []
    with working_folder(keep=keep) as folder:
        source, output = folder / "in.txt", Output(folder / "out")
        source.touch()
        plan = described(source, output, tail=True, **variant)
        with pipeline(folder, plan) as process:
            lines.append(lines.plain(WARM_UP), source)
            size = expected[0].stat().st_size
            until_visible(process, output, size, START)
            for part in expected[1:]:
                size += part.stat().st_size
                cpu, began = process.usage().total_cpu, time.monotonic()
                lines.append(lines.plain(count), source)
                rates.append(count / (until_visible(process, output, size, START) - began))
                costs.append((process.usage().total_cpu - cpu) / count * 1e6)
            usage = process.usage()
            process.stop()
        verify(output, expected)
    return Warm(rates[1:], costs[1:], usage)


def cold(count: int, runs: int, report: Report, *, keep: bool) -> None:
    """Run `penstock run` on the whole file, from start to end."""
    seconds = []
    for _ in range(runs):
        with working_folder(keep=keep) as folder:
            output = Output(folder / "out")
            plan = described(lines.plain(count), output, tail=False)
            began = time.monotonic()
            with pipeline(folder, plan) as process:
                code = process.wait(START + count / 50_000)
                seconds.append(time.monotonic() - began)
                require_success(process, code)
            verify(output, [lines.converted(count)])
    report.add("cold, the whole command", "s", *seconds)
    report.add("cold, the whole command", "rows/s", *(count / s for s in seconds))


def require_success(process: PenstockProcess, code: int) -> None:
    """End the benchmark when the command failed."""
    if code:
        sys.exit(f"penstock ended with {code}\n{process.output[-4000:]}")


def verify(output: Output, expected: list[Path]) -> None:
    """End the benchmark when the output is not what it must be."""
    if lines.digest(output.parts()) != lines.digest(expected):
        sys.exit(f"WRONG OUTPUT: {output.size():,} bytes in {len(output.parts())} files")


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "one file": {},
    "new files": {"rolling": True},
    "crossing into the JVM": {"projection": CROSSING},
}


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000)
    options = parser.parse_args()
    report = Report("file → Spark → file", facts={"lines": options.lines})
    for count in (WARM_UP, options.lines):
        lines.converted(count)
    for name, variant in VARIANTS.items():
        found = warm(options.lines, options.runs, keep=options.keep, **variant)
        goal = None if name == "crossing into the JVM" else 1_000_000
        report.add(f"warm, {name}", "rows/s", *found.rates, at_least=goal)
        report.add(f"warm, {name}, CPU a line", "µs", *found.costs, at_most=goal and 2)
        if not variant:
            memory = found.usage.total_memory / 2**20
            report.add("memory of all processes", "MiB", memory, at_most=1638)
            report.facts["memory"] = str(found.usage)
    cold(options.lines, min(options.runs, 2), report, keep=options.keep)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
