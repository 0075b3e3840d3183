"""What every benchmark prints and writes: figures with their runs, their median and their goal."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock_kit.testing.process_tree import list_processes

ROOT = Path(__file__).resolve().parents[2]
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figure:
    """A measured quantity: one value for each run. The goal is a bound for the median."""

    name: str
    unit: str
    runs: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return statistics.median(self.runs)

    @property
    def goal(self) -> str:
        """The bound, for people."""
        if self.at_least is not None:
            return f"≥ {number(self.at_least)}"
        return "" if self.at_most is None else f"≤ {number(self.at_most)}"

    @property
    def met(self) -> bool | None:
        """Whether the goal was reached, None without one."""
        if self.at_least is None and self.at_most is None:
            return None
        low = self.at_least if self.at_least is not None else float("-inf")
        high = self.at_most if self.at_most is not None else float("inf")
        return low <= self.median <= high


@dataclass
class Report:
    """The figures of one benchmark, printed as a table and written as JSON."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    _noise: float = field(default_factory=lambda: other_work())  # noqa: PLW0108 - defined below
    _began: float = field(default_factory=lambda: uptime())  # noqa: PLW0108 - defined below

    def add(self, name: str, unit: str, *runs: float, **rest: Any) -> None:
        """Add a figure with its runs."""
        self.figures.append(Figure(name, unit, tuple(runs), **rest))

    def finish(self, arguments: argparse.Namespace) -> int:
        """Print the table, write the JSON file that was asked for; returns the exit code."""
        self.facts["other_cores_busy"] = round(
            (other_work() - self._noise) / max(uptime() - self._began, 1e-9), 2
        )
        console = Console(width=max(100, Console().width))
        console.print(self._table())
        if arguments.json:
            arguments.json.write_text(json.dumps(self.as_json(), indent=1) + "\n", encoding="utf-8")
        return int(arguments.strict and any(f.met is False for f in self.figures))

    def as_json(self) -> dict[str, Any]:
        """Return all that was measured, and where and when."""
        return {
            "bench": self.name,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": _commit(),
            "cores": os.cpu_count(),
            **self.facts,
            "figures": [
                {
                    "name": f.name,
                    "unit": f.unit,
                    "median": f.median,
                    "runs": f.runs,
                    "goal": f.goal,
                    "met": f.met,
                    "note": f.note,
                }
                for f in self.figures
            ],
        }

    def _table(self) -> Table:
        facts = ", ".join(f"{key} {value}" for key, value in self.facts.items())
        table = Table(title=self.name, caption=facts, title_justify="left")
        for column in ("what", "median", "unit", "runs", "goal", ""):
            right = column in {"median", "goal"}
            table.add_column(column, justify="right" if right else "left", overflow="fold")
        for f in self.figures:
            runs = " ".join(number(run) for run in f.runs[:5]) if len(f.runs) > 1 else ""
            verdict = {True: "met", False: "SHORT", None: ""}[f.met]
            name = f"{f.name} ({f.note})" if f.note else f.name
            table.add_row(name, number(f.median), f.unit, runs, f.goal, verdict)
        return table


def arguments(description: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Return the options that every benchmark has; `defaults` may change them."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--runs", type=int, default=3, help="repetitions; the median counts")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--keep", action="store_true", help="leave the working folder for a look")
    parser.set_defaults(**defaults)
    return parser


def number(value: float) -> str:
    """Return a number for people: three digits that count, thousands apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percentile(values: list[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def uptime() -> float:
    """Return the seconds since the machine started."""
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def other_work() -> float:
    """Return the CPU seconds that processes outside of this one's tree have used.

    Their growth is the noise of a run: it goes into the report beside the figures.
    """
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    busy = sum(map(int, fields)) - int(fields[3]) - int(fields[4])
    alive = list_processes()
    ours = [p.cpu for p in alive.values() if _descends(p.pid, os.getpid(), alive)]
    return busy / _TICK - sum(ours)


def _descends(pid: int, root: int, alive: dict[int, Any]) -> bool:
    while pid in alive:
        if pid == root:
            return True
        pid = alive[pid].parent
    return False


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
