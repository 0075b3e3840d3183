"""Logs the first commit of a run, and the first with rejected rows. From then on numbers tell."""

from __future__ import annotations

import logging

from penstock.worker.task.micro_batches import ExecutedBatch

log = logging.getLogger(__name__)


class CommitLog:
    """The commits of one run of a task."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._has_committed = self._has_rejected = False

    def record(self, executed: ExecutedBatch) -> None:
        """Record a committed micro-batch."""
        if not self._has_committed:
            log.info(
                "task %s committed its first micro-batch, rows: %d",
                self._task_id,
                executed.rows_written,
            )
        if executed.rows_failed and not self._has_rejected:
            log.warning("rejected rows: %d; further ones are only counted", executed.rows_failed)
        self._has_committed = True
        self._has_rejected = self._has_rejected or bool(executed.rows_failed)
