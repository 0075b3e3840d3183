"""Pipelines of a test, written as files, and the commands that run them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock_kit.testing import PenstockProcess, wait_until
from support.processes import TESTS

ENDED: Final = 240.0
"""Seconds for a command that starts a JVM, does something small and ends, on a busy machine."""

ORPHANS: Final = 60.0
"""Seconds in which processes end by themselves when the one that started them was killed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int
    output: str
    report: Mapping[str, Any] = field(default_factory=dict)


def write_pipeline(folder: Path, document: Mapping[str, Any], name: str = "p.yaml") -> Path:
    """Write a pipeline file. JSON is YAML too."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


class Pipeline:
    """One pipeline file and its state; every run has a log of its own. `module` has the command
    line; `PLAIN` is the one whose worker has no Spark.
    """

    def __init__(
        self, folder: Path, document: Mapping[str, Any], module: str = "penstock.cli"
    ) -> None:
        self.folder, self._module = folder, module
        self.file = write_pipeline(folder, document)
        self.state = folder / "state"
        self._runs = 0

    def command(self, *options: str | Path, **env: str) -> PenstockProcess:
        """Return the next run, not started. `env`: variables of its environment."""
        self._runs += 1
        folder = self.folder / f"run{self._runs}"
        arguments = ["run", self.file, "--state", self.state, "--report", folder / "report.json"]
        env = {"PENSTOCK_LOG_LEVEL": "INFO", "PYTHONPATH": TESTS, **env}
        arguments += ["--no-progress", *options]
        return PenstockProcess(folder, *arguments, env=env, module=self._module)

    def run(self, *options: str | Path, deadline: float = ENDED, **env: str) -> Outcome:
        """Run it to its end; no process may be left of it."""
        with self.command(*options, **env) as process:
            return ended(process, deadline)

    @contextmanager
    def running(self, *options: str | Path, **env: str) -> Iterator[PenstockProcess]:
        """Run it beside the test."""
        with self.command(*options, **env) as process:
            yield process

    def kill_at(self, faults: str, *options: str | Path, deadline: float = 180) -> None:
        """Run with armed faults, one of which kills the process; check that it did."""
        with self.command(*options, PENSTOCK_FAULTS=faults) as process:
            code = process.wait(deadline)
            assert code == -signal.SIGKILL, (
                f"{faults} did not kill: ended with {code}\n{process.output}"
            )
            nothing_runs(process)


def ended(process: PenstockProcess, deadline: float = ENDED) -> Outcome:
    """Wait for the end of a command; no process may be left of it."""
    code = process.wait(deadline)
    nothing_runs(process)
    assert code or "Traceback" not in process.output, process.output
    report = process.folder / "report.json"
    found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return Outcome(code, process.output, found)


def nothing_runs(process: PenstockProcess) -> None:
    """Wait until no process is left of a command that ended."""
    stage = f"the processes of run {process.folder.name} to end"
    try:
        wait_until(lambda: not process.leftovers().processes, ORPHANS, stage)
    except TimeoutError as error:
        raise AssertionError(f"{error}\n{process.leftovers()}") from None


def nothing_left(process: PenstockProcess) -> None:
    """Check that a command which ended in order left no process, no socket and no file."""
    nothing_runs(process)
    left = process.leftovers()
    assert not left, f"left behind:\n{left}"
