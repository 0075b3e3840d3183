"""`penstock top`: rates, lag and errors of all connectors, as they change."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from penstock.cli.remote import options
from penstock.cli.remote.asking import Server
from penstock.cli.remote.showing import cell, console, drawn, show
from penstock.cli.waiting import unseen
from penstock.model.errors import RetriableError

_COLUMNS = (
    *("connector", "state", "tasks", "rows/s in", "rows/s out"),
    *("left", "bad", "restarts", "why"),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The numbers of a task at a time, in seconds of the monotonic clock."""

    at: float
    rows_read: int
    rows_written: int


class Rates:
    """Rows a second of tasks, from one look to the next."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int, int], Seen] = {}

    def rows(self, found: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
        """Return a row for each connector of a look at `now`."""
        after: dict[tuple[str, int, int], Seen] = {}
        rows = [self._row(connector, now, after) for connector in found["connectors"]]
        self._before = after
        return rows

    def _row(
        self, connector: Mapping[str, Any], now: float, after: dict[tuple[str, int, int], Seen]
    ) -> dict[str, Any]:
        read = written = 0.0
        left, known = 0, True
        for task in connector["tasks"]:
            key = (connector["name"], task["id"], task["epoch"])
            seen = Seen(now, task.get("rows_read", 0), task.get("rows_written", 0))
            before = self._before.get(key, seen)
            seconds = max(now - before.at, 1e-3)
            read += max(0, seen.rows_read - before.rows_read) / seconds
            written += max(0, seen.rows_written - before.rows_written) / seconds
            after[key] = seen
            known = known and task.get("rows_left") is not None
            left += task.get("rows_left") or 0
        states = [task["state"] for task in connector["tasks"]]
        why = [task.get("trace") for task in connector["tasks"]]
        # of a connector that is RUNNING it is a warning
        why.insert(len(why) if connector["state"] == "RUNNING" else 0, connector["why"])
        return {
            "connector": connector["name"],
            "state": connector["state"],
            "tasks": f"{states.count('RUNNING')}/{len(states)}",
            "rows/s in": f"{read:,.0f}",
            "rows/s out": f"{written:,.0f}",
            "left": f"{left:,}" if known and states else None,
            "bad": sum(task.get("rows_failed", 0) for task in connector["tasks"]),
            "restarts": sum(task["restarts"] for task in connector["tasks"]),
            "why": next((one for one in why if one), None),
        }


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--every", type=_seconds, default=2.0, help="seconds between two looks")
    parser.add_argument("--once", action="store_true", help="look twice, print, end")
    options.add(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb, until interrupted."""
    rates = Rates()
    with options.server(arguments) as server:
        rows = _look(server, rates)
        if arguments.once or arguments.output != "table" or not sys.stdout.isatty():
            time.sleep(arguments.every)
            rows = _look(server, rates)
            show(arguments.output, rows, rows)
            return 0
        screen = Live(drawn(rows, _COLUMNS), console=console(), screen=True)
        with unseen(), screen as live:
            while True:
                time.sleep(arguments.every)
                try:
                    rows = _look(server, rates)
                except RetriableError as error:  # it is seen, and it passes
                    live.update(Group(drawn(rows, _COLUMNS), Text(f"\n{cell(str(error))}")))
                else:
                    live.update(drawn(rows, _COLUMNS))


def _look(server: Server, rates: Rates) -> list[dict[str, Any]]:
    return rates.rows(server.get("/v1/status"), time.monotonic())


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("give seconds, 0.1 to 3600")
    return seconds
