"""From the shell prompt: when does a command answer, and the control plane, and when do rows move?

`penstock --help` is what completion costs, too. `penstock check` is of a copy from MariaDB to
PostgreSQL: it starts both plugins, which check their keys.

`penstock standalone` with a source and a sink is started on an empty state. It says on its standard
error when its services answer; rows move when the first line is visible at the sink.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from report import Report, arguments
from running import START, Output, standalone, working_folder
from through_topic import connectors

COPY = """\
source:
  connector.class: mysql-cdc
  database.hostname: localhost
  database.user: penstock
sink:
  connector.class: jdbc-sink
  connection.url: jdbc:postgresql://localhost/shop
"""
ANSWERS = "control plane answers"


def run_command(*words: str | Path) -> float:
    """Return the seconds that a command takes."""
    began = time.monotonic()
    subprocess.run(["penstock", *words], check=True, capture_output=True, timeout=START)
    return time.monotonic() - began


def check(*, keep: bool) -> float:
    """Return the seconds of a check, when its files were read before."""
    with working_folder(keep=keep) as folder:
        file = folder / "copy.yaml"
        file.write_text(COPY, encoding="utf-8")
        run_command("check", file)
        return run_command("check", file)


def measure(*, keep: bool) -> tuple[float, float, float]:
    """Return the seconds until the control plane answers, until rows move, and until it is gone."""
    with working_folder(keep=keep) as folder:
        source, output = folder / "in.txt", Output(folder / "out")
        source.write_text("one line\n", encoding="utf-8")
        began = time.monotonic()
        with standalone(folder, *connectors(source, output)) as process:
            process.wait_for(lambda: ANSWERS in process.output, START, ANSWERS)
            answers = time.monotonic() - began
            process.wait_for(output.size, START, "the first row")
            moves, ending = time.monotonic() - began, time.monotonic()
            process.stop()
            stopped = time.monotonic() - ending
            left = process.leftovers()
    if left:
        sys.exit(f"after a clean stop there is left:\n{left}")
    return answers, moves, stopped


def main() -> int:
    """Measure, print, write."""
    options = arguments(__doc__).parse_args()
    report = Report("from the shell prompt")
    taken = [measure(keep=options.keep) for _ in range(options.runs)]
    answers, moves, stopped = zip(*taken, strict=True)
    report.add("penstock --help", "s", *(run_command("--help") for _ in taken), at_most=0.1)
    checks = [check(keep=options.keep) for _ in taken]
    report.add("penstock check", "s", *checks, at_most=1.5)
    report.add("control plane answers", "s", *answers, at_most=3)
    report.add("rows move", "s", *moves, at_most=9)
    report.add("stopped, nothing left", "s", *stopped)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
