"""One appended line → visible at the sink, default settings: direct, and through a topic.

The clock starts before the line is written and stops when the files of the sink have grown. The
lines come at uneven times, so that they do not fall into step with a poll. Nothing else runs.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock_kit.testing import PenstockProcess
from report import Report, arguments, percentile
from running import START, Output, pipeline, standalone, working_folder
from through_topic import connectors

SETTLED = 20
"""Lines that go through before the clock counts: the JVM compiles what it runs often."""

STEP = 0.0005
"""Seconds between two looks at the sink: the error of each figure."""


@contextmanager
def direct(folder: Path, source: Path, output: Output) -> Iterator[PenstockProcess]:
    """Run a pipeline without a topic."""
    plan = {
        "name": "line",
        "source": {"connector.class": "file-source", "file": str(source), "tail": True},
        "sink": {"connector.class": "file-sink", "file": str(output.file)},
    }
    with pipeline(folder, plan) as process:
        yield process


@contextmanager
def through_topic(folder: Path, source: Path, output: Output) -> Iterator[PenstockProcess]:
    """Run a source and a sink with a topic between them."""
    with standalone(folder, *connectors(source, output)) as process:
        yield process


def samples(path, count: int, *, keep: bool = False) -> list[float]:
    """Return the latencies of `count` lines in milliseconds."""
    with working_folder(keep=keep) as folder:
        source, output = folder / "in.txt", Output(folder / "out")
        source.touch()
        with path(folder, source, output) as process:
            taken = take(source, output.size, count)
            process.stop()
        verify(output, SETTLED + count)
    return taken


def take(source: Path, size_of: Callable[[], int], count: int) -> list[float]:
    """Append lines at uneven times, and return the milliseconds until the output has grown."""
    chance = random.Random(11)
    taken = []
    with source.open("a", buffering=1) as written:
        for n in range(SETTLED + count):
            taken.append(sample(written, f"line {n}", size_of) * 1000)
            time.sleep(0.05 + chance.random() / 5)
    return taken[SETTLED:]


def sample(written, line: str, size_of: Callable[[], int]) -> float:
    """Write one line and wait until the output has grown."""
    size = size_of()
    began = time.monotonic()
    written.write(f"{line}\n")
    while size_of() == size:
        if time.monotonic() - began > START:
            sys.exit(f"{line} is not at the sink after {START:g} s")
        time.sleep(STEP)
    return time.monotonic() - began


def verify(output: Output, count: int) -> None:
    """End the benchmark when the lines are not all there, once and in order."""
    text = "".join(part.read_text(encoding="utf-8") for part in output.parts())
    if text.splitlines() != [f"line {n}" for n in range(count)]:
        sys.exit(f"WRONG OUTPUT: {text[:200]!r}")


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--lines", type=int, default=200)
    options = parser.parse_args()
    report = Report("latency of one line", facts={"lines": options.lines})
    for path, p50, p99 in ((direct, 80, 250), (through_topic, 200, None)):
        taken = samples(path, options.lines, keep=options.keep)
        name = path.__name__.replace("_", " ")
        report.add(f"{name}, p50", "ms", statistics.median(taken), at_most=p50)
        report.add(f"{name}, p99", "ms", percentile(taken, 99), at_most=p99)
        report.add(f"{name}, lowest", "ms", min(taken))
        report.add(f"{name}, highest", "ms", max(taken))
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
