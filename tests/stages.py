"""Run the stages of the test command, and print a table of them at the end.

python tests/stages.py [fast] [options of pytest]

A red stage does not keep the next ones from running: one run reports all that is red. What needs a
network and what needs no product (the static checks) run beside the first stage.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from support.order import LONG

ORDINARY = (
    *("-m", "not timed and not on_demand"),
    "--no-loadscope-reorder",  # long files begin first (support/order.py)
    "--continue-on-collection-errors",  # a file that cannot be imported hides no other one
)

NO_TESTS = 5
"""Exit code of pytest when no test was chosen."""


@dataclass(frozen=True)
class Stage:
    """One call of pytest. `lanes` is the number of its processes."""

    name: str
    arguments: tuple[str, ...]
    lanes: int = 3  # on two cores: a third of the time of a test is waiting


STAGES = (
    # a session of its own: its gateway has an engine in the process of the test, and pyspark knows
    # one in a process
    Stage("contract, security", ("tests/contract", "tests/security", *ORDINARY)),
    # one session: a lane that has ended its long files goes on with short ones of other folders
    Stage(
        "unit, connectors, system, chaos",
        ("tests/unit", "connectors", "tests/system", "tests/chaos", *ORDINARY),
    ),
    Stage("timed, alone", ("tests", "connectors", "-m", "timed"), lanes=0),
    Stage("Spark 3.5", ("tests/unit/spark", "-m", "spark35"), lanes=0),
)
QUICK = (*(f"--ignore={file}" for file in LONG), *ORDINARY)
FAST = (
    Stage("contract, security", ("tests/contract", "tests/security", *QUICK)),
    Stage(
        "unit, connectors",
        ("tests/unit", *(f"connectors/{name}" for name in ("python", "builtin", "net")), *QUICK),
    ),
)
"""What a change is tested with while it is made: no cluster, no database, no file of a minute."""

BESIDE = {
    "static": ("bash", "tests/static.sh"),
    "Spark 3.5, installed": ("bash", "tests/unit/spark/programs/spark35.sh", "-c", "pass"),
}


@dataclass(frozen=True)
class Outcome:
    """What a stage came to. `tests` and `jvms` are counts; `failed` are the ids of red tests. A
    start of the engine is two JVMs: Spark's script starts one to make the command of the other.
    """

    name: str
    seconds: float
    passed: bool
    tests: int | None = None
    jvms: int | None = None
    failed: tuple[str, ...] = ()
    areas: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Tests and their seconds, summed over the lanes, by folder."""


def main(options: Sequence[str]) -> int:
    """Return 0 if each stage was green."""
    fast = options[:1] == ["fast"]
    stages = FAST if fast else STAGES
    beside = {name: command for name, command in BESIDE.items() if name == "static" or not fast}
    with scratch_folder() as folder, ThreadPoolExecutor() as pool:
        calls = [pool.submit(run_beside, *item, folder) for item in beside.items()]
        outcomes = [run_stage(stage, options[fast:], folder) for stage in stages]
        outcomes += [call.result() for call in calls]
    print(table(outcomes), flush=True)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield the folder of all temporary files; it is removed at the end, because killed servers and
    JVMs leave some GB of them. Its path is short, because that of a unix socket may have no more
    than 107 bytes. It is open, because PostgreSQL runs as a user of its own.
    """
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def run_beside(name: str, command: Sequence[str], folder: Path) -> Outcome:
    """Run a command without a terminal, and print what it wrote once it has ended."""
    began = time.monotonic()
    ended = subprocess.run(
        command,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(f"\n── {name} (beside the stages)\n{ended.stdout}", flush=True)
    return Outcome(name, time.monotonic() - began, ended.returncode == 0)


def run_stage(stage: Stage, options: Sequence[str], folder: Path) -> Outcome:
    """Run pytest, whose output goes where ours goes."""
    print(f"\n── {stage.name}", flush=True)
    report = Path(tempfile.mkdtemp(dir=folder), "report.xml")
    jvms = Path(tempfile.mkdtemp(dir=folder))
    # a JVM of a test lives for seconds: without the second compiler it costs half as much.
    # Each one writes its own file here, which is how their starts are counted.
    log = f"-Xlog:init:file='{jvms}/%p.log'"
    began = time.monotonic()
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n", str(stage.lanes), "--dist", "loadfile"),
            *(*stage.arguments, f"--junitxml={report}", "--durations=5", *options),
        ],
        env={
            **os.environ,
            "TMPDIR": str(folder),
            "JDK_JAVA_OPTIONS": f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={folder} {log}",
        },
        check=False,
    )
    seconds = time.monotonic() - began
    tests, failed, areas = read_report(report) if report.exists() else (0, (), {})
    # options such as `-k` may leave a stage without any test; without options that is a mistake
    nothing_chosen = bool(options) and ended.returncode == NO_TESTS
    passed = ended.returncode == 0 or nothing_chosen
    return Outcome(stage.name, seconds, passed, tests, len(list(jvms.iterdir())), failed, areas)


def read_report(
    report: Path,
) -> tuple[int, tuple[str, ...], dict[str, tuple[int, float]]]:
    """Return the number of tests, the names of those that failed, and `Outcome.areas`."""
    cases = list(ET.parse(report).iter("testcase"))
    red = [
        case for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    areas: dict[str, tuple[int, float]] = {}
    for case in cases:
        folders = str(case.get("classname")).split(".")
        area = folders[0] if folders[0] != "tests" else "/".join(folders[:2])
        tests, seconds = areas.get(area, (0, 0.0))
        areas[area] = (tests + 1, seconds + float(case.get("time", 0)))
    failed = tuple(f"{case.get('classname')}::{case.get('name')}" for case in red)
    return len(cases), failed, areas


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a line for each stage, the sums, and the names of red tests."""
    head = f"{'stage':<33}{'tests':>7}{'seconds':>9}{'JVM starts':>12}"
    lines = []
    for outcome in outcomes:
        lines.append(
            f"{outcome.name:<33}{shown(outcome.tests):>7}{outcome.seconds:>9.0f}"
            f"{shown(outcome.jvms):>12}  {'' if outcome.passed else 'RED'}".rstrip()
        )
        if len(outcome.areas) > 1:
            lines += [
                f"  {area:<31}{tests:>7}{seconds:>9.0f} of a lane"
                for area, (tests, seconds) in sorted(outcome.areas.items())
            ]
    staged = [outcome for outcome in outcomes if outcome.tests is not None]
    tests, jvms = (sum(getattr(o, name) for o in staged) for name in ("tests", "jvms"))
    total = f"{'all':<33}{tests:>7}{sum(o.seconds for o in staged):>9.0f}{jvms:>12}"
    red = [f"red: {name}" for outcome in outcomes for name in outcome.failed]
    return "\n".join(["", head, *lines, total, *red])


def shown(count: int | None) -> str:
    """Return nothing for what was not counted."""
    return "" if count is None else str(count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
