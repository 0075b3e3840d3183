"""How often rows that a sink cannot write are tried again (`errors.retry.max`).

A sink that fails to write with a retriable error ends the run of its task, and the next run reads
the rows again. Such a run begins with the smallest micro-batch, so that the rows at fault are
alone: those of one checkpoint. When they have failed as often as the connector allows, the next run
makes dead letters of them instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.model.connector import Partition
from penstock.model.errors import Diagnostic, ErrorClass, PenstockError


class WriteRetries:
    """The failed writes of a task at one place."""

    def __init__(self) -> None:
        self._place: Mapping[str, Any] | None = None
        self._retries = 0
        self._last: Diagnostic | None = None

    @property
    def is_retry(self) -> bool:
        """Whether the next run is one: it begins with the smallest micro-batch."""
        return self._last is not None

    def reason_to_reject(self, max_retries: int | None) -> Diagnostic | None:
        """Return why the first rows of the next run become dead letters; None when they are written
        again. `max_retries` None: without a limit.
        """
        if max_retries is None or self._retries < max_retries:
            return None
        return self._last

    def record(
        self,
        error: PenstockError | None,
        began_at: Sequence[Partition] | None,
        *,
        is_progress: bool,
    ) -> None:
        """Record how a run ended.

        Args:
            error: Why the sink could not write; None when the run ended for another reason.
            began_at: Where it started to read; None when it did not come that far.
            is_progress: It committed.
        """
        if began_at is None:
            return
        place = None if is_progress else {one.id: one.offset for one in began_at}
        if error is None or error.diagnostic.error_class is not ErrorClass.RETRIABLE:
            if is_progress:
                self._retries, self._last = 0, None
            return
        # a run that committed failed at a place that only the next one begins at
        is_same = self.is_retry and place is not None and self._place in (None, place)
        self._retries = self._retries + 1 if is_same else 0
        self._place, self._last = place, error.diagnostic
