"""How often rows that a sink cannot write are tried again (`errors.retry.max`).

A sink that fails to write with a retriable error ends the run of its task, and the next run reads
the rows again. Such a run begins with micro-batches of one checkpoint, so that the rows at fault
are alone, if not at once then in one of the next runs. When they have failed as often as the
connector allows, the next run makes dead letters of them instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.model.errors import Diagnostic, ErrorClass

StartOffsets: TypeAlias = Mapping[str, Mapping[str, Any] | None]
"""The offset of each partition of a micro-batch before its rows; None at the beginning."""


@dataclass(frozen=True, slots=True)
class UnwrittenRows:
    """Rows that a sink could not write: where they begin, and why."""

    start: StartOffsets
    reason: Diagnostic


@dataclass(frozen=True, slots=True)
class WriteRetry:
    """What a run does about rows that could not be written before: they begin at `start`. With
    `reject`, they are rejected for this reason.
    """

    start: StartOffsets
    reject: Diagnostic | None = None

    def reason_to_reject(self, start: StartOffsets) -> Diagnostic | None:
        """Return why a micro-batch is rejected; None for one that begins elsewhere: its rows never
        failed.
        """
        return self.reject if start == self.start else None


class WriteRetries:
    """The failed writes of a task at one start."""

    def __init__(self) -> None:
        self._last: UnwrittenRows | None = None
        self._count = 0

    def next(self, max_retries: int | None) -> WriteRetry | None:
        """Return what the next run does; None when all rows were written, or without a limit."""
        if self._last is None or max_retries is None:
            return None
        is_spent = self._count >= max_retries
        return WriteRetry(self._last.start, self._last.reason if is_spent else None)

    def record(
        self, unwritten: UnwrittenRows | None, retry: WriteRetry | None, *, is_progress: bool
    ) -> None:
        """Record how a run ended.

        Args:
            unwritten: What the sink could not write; None when the run ended for another reason.
            retry: What the run did about earlier ones.
            is_progress: It committed.
        """
        if unwritten is None or unwritten.reason.error_class is not ErrorClass.RETRIABLE:
            if is_progress:
                self._last, self._count = None, 0
            return
        if retry is None:
            self._count = 0  # other rows were written together with them
        elif retry.start == unwritten.start:
            self._count += 1
        else:
            self._count = 1
        self._last = unwritten
