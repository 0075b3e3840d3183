"""Plugins that die at the same place again: restarting them would go on for ever.

A life of a task that ends with `plugin.crashed` and committed nothing counts as a death at the
offsets where it began. Tasks share the processes of their plugins, so one task that crashes them
takes the others with it. Who has died at a place all but once too often is suspected, and lives
next with plugins of its own. When these die, too, the task fails with the offsets; when they do
not, it was another task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.model.connector import Partition
from penstock.model.errors import DataError, PenstockError
from penstock.model.identity import canonical_json

MAX_DEATHS: Final = 3
"""Deaths at one place. Fewer would take an accident (no memory for a moment) for a defect; more
only delay the message."""

_MAX_NAMED: Final = 5
"""Partitions that the error names."""

_CRASHED: Final = frozenset({"plugin.crashed", "plugin.memory_exceeded"})


class CrashLoop:
    """Counts the deaths of a task's plugins that no commit came between."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._place: dict[str, Mapping[str, Any] | None] = {}
        self._deaths = 0

    @property
    def is_suspected(self) -> bool:
        """Whether the next life needs plugins of its own."""
        return self._deaths >= MAX_DEATHS - 1

    def acquit(self) -> None:
        """Forget the deaths: they were another task's."""
        self._deaths = 0

    def check(
        self,
        error: BaseException,
        began_at: Sequence[Partition] | None,
        *,
        is_progress: bool,
        is_alone: bool,
    ) -> None:
        """Take in how a life ended.

        Args:
            error: What ended it.
            began_at: Where it began to read; None when it did not come so far.
            is_progress: It committed something, or was well without a row for a while: the plugin
                does not die of what it reads.
            is_alone: Its plugins served no other task.

        Raises:
            DataError: `plugin.crash_loop`.
        """
        crash = next(_crashes(error), None)
        if is_progress or crash is None or began_at is None:
            self._deaths = 0
            return
        place = {partition.id: partition.offset for partition in began_at}
        self._deaths = self._deaths + 1 if place == self._place else 1
        self._place = place
        if is_alone and self._deaths >= MAX_DEATHS:
            deaths, self._deaths = self._deaths, 0
            raise _crash_loop(self._connector, began_at, crash, deaths) from error


def _crashes(error: BaseException) -> Iterator[PenstockError]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _crashes(inner)
    elif isinstance(error, PenstockError) and error.diagnostic.code in _CRASHED:
        yield error


def _crash_loop(
    connector: str, began_at: Sequence[Partition], crash: PenstockError, deaths: int
) -> DataError:
    named = "; ".join(map(_named, began_at[:_MAX_NAMED]))
    more = len(began_at) - _MAX_NAMED
    others = f"; and {more} more" if more > 0 else ""
    return DataError(
        "plugin.crash_loop",
        f"a plugin died {deaths} times without a commit, each time after it began to read "
        f"{named}{others}. {crash.diagnostic.message}",
        fix=f"Correct what comes there, or pass it by: `penstock connector stop {connector}`, then "
        f"`penstock offsets set {connector} FILE`. Report the last lines to the plugin's author.",
    )


def _named(partition: Partition) -> str:
    if partition.offset is None:
        return f"{partition.id} at its beginning"
    return f"{partition.id} at {canonical_json(partition.offset)}"
