"""What a command shows on standard error while it works.

- `print_status`      a line, on a terminal and elsewhere
- `status_line`       what the command waits for, after a second; on a terminal alone
- `ProgressBar`       rows/s, bytes, percent and time left of a run; on a terminal
- `ProgressLines`     the same every ten seconds, as lines of a log; elsewhere
- `counting_bar`      how many of a total are done; on a terminal alone
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.text import Text

from penstock.model.connector import TaskStatus

STATUS_DELAY_S: Final = 1.0
"""A wait that is shorter shows no status line: it would only flicker."""

_stages: list[str] = []
"""Stages that are waited for, the outermost first: only that one is shown."""


def print_status(text: str) -> None:
    """Print a line to standard error at once."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def no_status_line() -> Iterator[None]:
    """Show no status line inside: the block draws on the screen itself."""
    _stages.append("")
    try:
        yield
    finally:
        _stages.remove("")


@contextmanager
def status_line(stage: str) -> Iterator[None]:
    """Show what the block waits for, once it takes long; nothing where there is no terminal."""
    if _stages or not sys.stderr.isatty():
        yield
        return
    _stages.append(stage)
    status = Status(Text(f"{stage} …"), console=Console(stderr=True, markup=False, emoji=False))
    timer = Timer(STATUS_DELAY_S, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be starting the status that is stopped here
        status.stop()
        _stages.remove(stage)


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of several tasks together. `bytes_left` is -1 where a task does not know its own."""

    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0
    bytes_left: int = 0
    batches: int = 0
    restarts: int = 0

    def plus(self, tasks: Sequence[TaskStatus]) -> Totals:
        """Return these plus the counts of tasks; `bytes_left` is that of the tasks alone."""
        known = all(task.bytes_left >= 0 for task in tasks)
        return Totals(
            rows_read=self.rows_read + sum(t.rows_read for t in tasks),
            rows_written=self.rows_written + sum(t.rows_written for t in tasks),
            bytes_read=self.bytes_read + sum(t.bytes_read for t in tasks),
            bytes_left=sum(t.bytes_left for t in tasks) if known else -1,
            batches=self.batches + sum(t.batches for t in tasks),
            restarts=self.restarts + sum(t.restarts for t in tasks),
        )


class ProgressBar:
    """Draws the totals of a run until it is closed."""

    def __init__(self, name: str, console: Console) -> None:
        self._started_at = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]} rows  {task.fields[rate]} rows/s  {task.fields[size]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._bar = self._progress.add_task(name, total=None, rows="0", rate="0", size="0 B")
        self._progress.start()

    def update(self, totals: Totals) -> None:
        """Draw the totals."""
        seconds = max(time.monotonic() - self._started_at, 1e-3)
        total = totals.bytes_read + totals.bytes_left if totals.bytes_left >= 0 else None
        # rows that were read may not be written yet: a bar at 100 % would stand still
        self._progress.update(
            self._bar,
            completed=min(totals.bytes_read, total - 1) if total else 0,
            total=total or None,
            rows=f"{totals.rows_written:,}",
            rate=f"{totals.rows_written / seconds:,.0f}",
            size=format_bytes(totals.bytes_read),
        )

    def close(self) -> None:
        """Remove the bar."""
        self._progress.stop()


LINE_INTERVAL_S: Final = 10.0
"""Time between two lines. A log of an hour has 360 of them."""


class ProgressLines:
    """Prints the totals of a run as a line now and then."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._started_at = self._printed_at = clock()
        self._rows = 0

    def update(self, totals: Totals) -> None:
        """Print the totals, unless the last line is too young."""
        now = self._clock()
        since_s = now - self._printed_at
        if since_s < LINE_INTERVAL_S:
            return
        rate = (totals.rows_written - self._rows) / since_s
        done = totals.bytes_read / max(totals.bytes_read + totals.bytes_left, 1)
        part = f", {done:.0%}" if totals.bytes_left >= 0 and totals.bytes_read else ""
        print_status(
            f"{self._name}: {format_rows(totals.rows_read)} read, {totals.rows_written:,} written, "
            f"{rate:,.0f} rows/s{part}, {now - self._started_at:.0f} s"
        )
        self._printed_at, self._rows = now, totals.rows_written

    def close(self) -> None:
        """Nothing is drawn that would have to be removed."""


def format_rows(count: int) -> str:
    """Return a number of rows, for instance `1 row`, `2,000 rows`."""
    return f"{count:,} row" if count == 1 else f"{count:,} rows"


@contextmanager
def counting_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Draw how many of `total` are done; yield the function that takes the count."""
    if not total or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
    )
    with no_status_line(), Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(label, total=total)
        yield lambda done: bars.update(bar, completed=done)


def format_bytes(count: int) -> str:
    """Return a size with its unit, for instance `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
