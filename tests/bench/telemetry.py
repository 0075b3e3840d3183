"""What it costs to be watched: the benchmark of `file_to_file`, *new files*, without and with
traces (one in a hundred micro-batches), metrics and logs sent to a collector, by turns.

The collector is a process of its own, which takes what it is sent and looks at nothing. Its CPU is
not counted, but it has the same cores.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lines
from file_to_file import WARM_UP, Warm, warm
from report import Report, arguments

TESTS = Path(__file__).resolve().parents[1]
COLLECTOR = """
import sys
from support.traces import Receiver
with Receiver() as receiver:
    print(receiver.environment["OTEL_EXPORTER_OTLP_ENDPOINT"], flush=True)
    sys.stdin.read()
"""
SAMPLED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}


@contextmanager
def watched() -> Iterator[None]:
    """Have the processes that are started inside send to a collector, as often as is usual."""
    collector = subprocess.Popen(
        [sys.executable, "-c", COLLECTOR],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with collector:
        assert collector.stdout is not None
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.stdout.readline().strip(), **SAMPLED}
        os.environ.update(told)
        try:
            yield
        finally:
            for name in told:
                del os.environ[name]
            collector.communicate()


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--pairs", type=int, default=4, help="runs without and with, by turns")
    options = parser.parse_args()
    report = Report("file → Spark → file, watched", facts={"lines": options.lines})
    for count in (WARM_UP, options.lines):
        lines.converted(count)

    def run() -> Warm:
        return warm(options.lines, options.runs, keep=options.keep, rolling=True)

    pairs = []
    for _ in range(options.pairs):
        alone = run()
        with watched():
            pairs.append((alone, run()))
    for at, name in enumerate(("alone", "watched")):
        report.add(f"{name}", "rows/s", *(rate for pair in pairs for rate in pair[at].rates))
        report.add(f"{name}, CPU a line", "µs", *(c for pair in pairs for c in pair[at].costs))
    slower = [_more(b.rates, a.rates) for a, b in pairs]
    report.add("fewer rows/s when watched", "%", *slower, at_most=3)
    report.add("more CPU when watched", "%", *(_more(a.costs, b.costs) for a, b in pairs))
    return report.finish(options)


def _more(less: list[float], more: list[float]) -> float:
    """Return by how many per cent the median of one is above that of the other."""
    return 100 * (statistics.median(more) / statistics.median(less) - 1)


if __name__ == "__main__":
    sys.exit(main())
