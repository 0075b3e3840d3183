"""`penstock top`: rates, lag and errors of all connectors, live."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from penstock.cli.gateway_client import GatewayClient
from penstock.cli.gateway_options import add_gateway_options, connect_gateway
from penstock.cli.output import cell_text, print_value, table_console, table_of
from penstock.cli.progress import no_status_line
from penstock.model.errors import RetriableError

_COLUMNS = (
    *("connector", "state", "tasks", "rows/s in", "rows/s out", "batches/s"),
    *("left", "bad", "restarts", "why"),
)


@dataclass(frozen=True, slots=True)
class TaskSample:
    """The counts of a task at a time, in seconds of the monotonic clock."""

    taken_at: float
    rows_read: int
    rows_written: int
    batches: int


class Rates:
    """Rows a second of tasks, between two samples."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int, int], TaskSample] = {}

    def rows(self, status: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
        """Return a row for each connector of a status taken at `now`."""
        after: dict[tuple[str, int, int], TaskSample] = {}
        rows = [self._row(connector, now, after) for connector in status["connectors"]]
        self._before = after
        return rows

    def _row(
        self,
        connector: Mapping[str, Any],
        now: float,
        after: dict[tuple[str, int, int], TaskSample],
    ) -> dict[str, Any]:
        read_rate = write_rate = batch_rate = 0.0
        left, known = 0, True
        for task in connector["tasks"]:
            key = (connector["name"], task["id"], task["epoch"])
            counts = (task.get(name, 0) for name in ("rows_read", "rows_written", "batches"))
            sample = TaskSample(now, *counts)
            before = self._before.get(key, sample)
            seconds = max(now - before.taken_at, 1e-3)
            read_rate += max(0, sample.rows_read - before.rows_read) / seconds
            write_rate += max(0, sample.rows_written - before.rows_written) / seconds
            batch_rate += max(0, sample.batches - before.batches) / seconds
            after[key] = sample
            known = known and task.get("rows_left") is not None
            left += task.get("rows_left") or 0
        states = [task["state"] for task in connector["tasks"]]
        reasons = [task.get("trace") for task in connector["tasks"]]
        # that of a RUNNING connector is a warning: errors of its tasks come first
        position = len(reasons) if connector["state"] == "RUNNING" else 0
        reasons.insert(position, connector["why"])
        reasons.append(_busiest(connector["tasks"]))
        return {
            "connector": connector["name"],
            "state": connector["state"],
            "tasks": f"{states.count('RUNNING')}/{len(states)}",
            "rows/s in": f"{read_rate:,.0f}",
            "rows/s out": f"{write_rate:,.0f}",
            "batches/s": f"{batch_rate:,.1f}",
            "left": f"{left:,}" if known and states else None,
            "bad": sum(task.get("rows_failed", 0) for task in connector["tasks"]),
            "restarts": sum(task["restarts"] for task in connector["tasks"]),
            "why": next((reason for reason in reasons if reason), None),
        }


def _busiest(tasks: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what the running task does that waits least for its source."""
    shares = [
        (max((share for name, share in of.items() if name != "source"), default=0.0), text)
        for task in tasks
        if task["state"] == "RUNNING" and (of := task.get("time_shares"))
        if (text := task.get("busy_with"))
    ]
    return max(shares)[1] if shares else None


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--every", type=_seconds, default=2.0, help="seconds between two samples")
    parser.add_argument("--once", action="store_true", help="print the rates of one interval, end")
    add_gateway_options(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Draw the rates until interrupted; where there is no terminal, print one interval."""
    rates = Rates()
    with connect_gateway(arguments) as gateway:
        rows = _sample(gateway, rates)
        if arguments.once or arguments.output != "table" or not sys.stdout.isatty():
            time.sleep(arguments.every)
            rows = _sample(gateway, rates)
            print_value(arguments.output, rows, rows)
            return 0
        screen = Live(table_of(rows, _COLUMNS), console=table_console(), screen=True)
        with no_status_line(), screen as live:
            while True:
                time.sleep(arguments.every)
                try:
                    rows = _sample(gateway, rates)
                except RetriableError as error:  # below the last table, until a sample succeeds
                    message = Text(f"\n{cell_text(str(error))}")
                    live.update(Group(table_of(rows, _COLUMNS), message))
                else:
                    live.update(table_of(rows, _COLUMNS))


def _sample(gateway: GatewayClient, rates: Rates) -> list[dict[str, Any]]:
    return rates.rows(gateway.get("/v1/status"), time.monotonic())


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("expected seconds, 0.1 to 3600")
    return seconds
