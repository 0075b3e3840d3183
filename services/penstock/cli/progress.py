"""Progress bars: over the tasks of one connector, with rows/s, bytes, percent, time left; and over
what is counted.

On a terminal it is a live line; elsewhere (a pipe, CI) nothing is drawn, and the summary at the end
says it all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from penstock.cli.waiting import unseen
from penstock.model.connector import TaskStatus


@dataclass(frozen=True, slots=True)
class Totals:
    """The numbers of several tasks together. `bytes_left` -1 when any task does not know."""

    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0
    bytes_left: int = 0
    batches: int = 0
    restarts: int = 0

    def plus(self, tasks: Sequence[TaskStatus]) -> Totals:
        """Return these with the numbers of tasks; what is left, only they know."""
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
    """Draws the totals of a run until closed."""

    def __init__(self, name: str, console: Console) -> None:
        self._began = time.monotonic()
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
        self._line = self._progress.add_task(name, total=None, rows="0", rate="0", size="0 B")
        self._progress.start()

    def show(self, totals: Totals) -> None:
        """Draw the numbers as they are."""
        seconds = max(time.monotonic() - self._began, 1e-3)
        whole = totals.bytes_read + totals.bytes_left if totals.bytes_left >= 0 else None
        # what is read may still be written: a line that is at its end does not move any more
        self._progress.update(
            self._line,
            completed=min(totals.bytes_read, whole - 1) if whole else 0,
            total=whole or None,
            rows=f"{totals.rows_written:,}",
            rate=f"{totals.rows_written / seconds:,.0f}",
            size=human_bytes(totals.bytes_read),
        )

    def close(self) -> None:
        """Take the line away."""
        self._progress.stop()


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Draw how many of a total are done, where a person looks."""
    if not total or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
    )
    with unseen(), Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        line = drawn.add_task(what, total=total)
        yield lambda done: drawn.update(line, completed=done)


def human_bytes(count: int) -> str:
    """Return a size as people read it, for instance `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
