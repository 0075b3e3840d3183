"""2,000,000 lines of 100 bytes, file → one filter and one projection in Spark → file, no topic.

Three figures. *Warm*: the pipeline follows a file; all lines are appended at once, and the clock
stops when the last of them is visible at the sink. *Cold*: `penstock run` on the whole file, from
the shell prompt to the next one, start of Python, plugins and Spark included. *Crossing*: warm,
with an expression that has no Arrow kernel, so that every row goes through the JVM. Every output is
compared byte by byte (by checksum) with one that was computed without Penstock.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import lines
from penstock.testing import PenstockProcess
from report import Report, arguments
from running import START, Output, pipeline, until_visible, working_folder

WARM_UP = 100_000


CROSSING = "upper(concat(line, '')) AS line"
"""The same projection, as only the JVM can compute it."""


def described(
    source: Path, output: Output, *, tail: bool, projection: str = lines.PROJECTION
) -> dict[str, Any]:
    """Return the pipeline of this benchmark."""
    return {
        "name": "lines",
        "source": {"connector.class": "file-source", "file": str(source), "tail": tail},
        "transforms": [
            {"name": "keep", "type": "Filter", "condition": lines.FILTER},
            {"name": "shout", "type": "Project", "columns": projection},
        ],
        "sink": {"connector.class": "file-sink", "file": str(output.file)},
    }


def warm(
    count: int, runs: int, report: Report, *, keep: bool, projection: str = lines.PROJECTION
) -> None:
    """Append the lines `runs` times to the file that a running pipeline follows."""
    expected = [lines.converted(WARM_UP), *[lines.converted(count)] * runs]
    rates, costs = [], []
    with working_folder(keep=keep) as folder:
        source, output = folder / "in.txt", Output(folder / "out")
        source.touch()
        plan = described(source, output, tail=True, projection=projection)
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
            memory = process.usage()
            process.stop()
        verify(output, expected)
    if projection == CROSSING:
        report.add("crossing into the JVM, warm", "rows/s", *rates)
        report.add("crossing, CPU a line", "µs", *costs)
        return
    report.add("warm, append → last line visible", "rows/s", *rates, at_least=1_000_000)
    report.add("warm, CPU a line, all processes", "µs", *costs, at_most=2)
    report.add("memory of all processes", "MiB", memory.total_rss / 2**20, at_most=1638)
    report.facts["memory"] = str(memory)


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


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000)
    options = parser.parse_args()
    report = Report("file → Spark → file", facts={"lines": options.lines})
    for count in (WARM_UP, options.lines):
        lines.converted(count)
    warm(options.lines, options.runs, report, keep=options.keep)
    warm(options.lines, options.runs, report, keep=options.keep, projection=CROSSING)
    cold(options.lines, min(options.runs, 2), report, keep=options.keep)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
