"""Decides what happens to rejected rows of a task: tolerated, logged, sent to the dead-letter
queue, or the end of the task.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from penstock.connector_config.dead_letters import RejectedRowRules, Tolerance
from penstock.model.dead_letter import RowFailure, Stage
from penstock.model.dead_letter_queue import MAX_REJECTED_ROWS
from penstock.model.errors import DataError, PenstockError, error_from_diagnostic
from penstock.model.stream import BadRow, BatchReady, StreamSchema
from penstock.model.ticket import SlotReport

log = logging.getLogger(__name__)


class ToleranceWindow:
    """The rejected rows of one run of a task, compared with the tolerance."""

    def __init__(self, rule: Tolerance) -> None:
        self._rule = rule
        self._latest: deque[int] = deque(maxlen=max(rule.max_rejected, 1))

    def find_excess(self, places: Iterable[int]) -> int | None:
        """Add rejected rows by their positions among all rows of the run, in order. Returns the
        index of the first that exceeds the tolerance, None when all are tolerated.
        """
        rule, latest = self._rule, self._latest
        for index, place in enumerate(places):
            if rule.is_none:
                return index
            if rule.window_rows is None:
                return None
            if len(latest) == rule.max_rejected and place - latest[0] < rule.window_rows:
                return index
            latest.append(place)
        return None


MAX_LOGGED_ROWS: Final = 20
"""Rejected rows of a micro-batch with a line each in the log; the others are counted."""


SlotOutcome: TypeAlias = tuple[StreamSchema, Sequence[BatchReady], SlotReport]
"""What a slot read, and its report."""


@dataclass(frozen=True, slots=True)
class SlotFailures:
    """The rejected rows of a slot under an attempt, by their number in the slot, in order; with the
    batches that the slot read.
    """

    schema: StreamSchema
    batches: Sequence[BatchReady]
    attempt: int
    failed: Sequence[tuple[int, RowFailure]]

    @property
    def rows(self) -> int:
        """Number of rows that were read."""
        return sum(batch.rows for batch in self.batches)


class DeadLetterSender(Protocol):
    """What writes dead letters (`dead_letter_writer.py`)."""

    async def send(
        self, txn_id: int, parts: Sequence[SlotFailures], unreadable: Sequence[BadRow], lag: float
    ) -> list[str]:
        """Write the dead letters of a micro-batch. Returns rows as text, for the log."""


class RejectedRowHandler:
    """Handles the rejected rows of each micro-batch of a run."""

    def __init__(self, rules: RejectedRowRules, writer: DeadLetterSender | None = None) -> None:
        """`writer` writes dead letters; None: rejected rows are discarded."""
        self._rules, self._writer = rules, writer
        self._tolerated = ToleranceWindow(rules.tolerance)
        self._seen = 0

    @property
    def is_tolerant(self) -> bool:
        """Whether any rejected row is tolerated."""
        return not self._rules.tolerance.is_none

    @property
    def discards(self) -> bool:
        """Whether rejected rows are discarded."""
        return self._writer is None

    @property
    def logs(self) -> bool:
        """Whether rejected rows are logged."""
        return self._rules.log

    async def handle(
        self,
        txn_id: int,
        done: Iterable[SlotOutcome],
        unreadable: Sequence[BadRow],
        lag: float,
    ) -> int:
        """Handle the outcomes of the slots of a micro-batch, in order, and its unreadable rows.
        Dead letters join its transaction. Returns the number of rejected rows.

        Raises:
            PenstockError: the failure of the first row that exceeds the tolerance.
        """
        parts = [_slot_failures(*one) for one in done]
        failed = self._check_tolerance(parts, unreadable)
        if failed:
            await self._send(txn_id, parts, unreadable, lag)
        return failed

    async def handle_failed(
        self, txn_id: int, done: Iterable[SlotOutcome], before: int, lag: float
    ) -> int:
        """Handle rows of a micro-batch that failed later, when they were written; `before` of it
        were rejected before. Rows may have been seen since: the tolerance takes them for the latest
        ones. Returns their number.

        Raises:
            PenstockError: as `handle`.
        """
        parts = [_slot_failures(*one) for one in done]
        failed = self._check_tolerance(parts, (), before, is_late=True)
        await self._send(txn_id, parts, (), lag)
        return failed

    async def _send(
        self, txn_id: int, parts: Sequence[SlotFailures], unreadable: Sequence[BadRow], lag: float
    ) -> None:
        if self._rules.log:
            self._log(parts, unreadable)
        if self._writer is not None:
            texts = await self._writer.send(txn_id, parts, unreadable, lag)
            for text in texts[:MAX_LOGGED_ROWS]:
                log.error("rejected row: %s", text)

    def _check_tolerance(
        self,
        parts: Sequence[SlotFailures],
        unreadable: Sequence[BadRow],
        before: int = 0,
        *,
        is_late: bool = False,
    ) -> int:
        why = [RowFailure(Stage.READ, row.reason) for row in unreadable]
        rows, places = [-1] * len(unreadable), [self._seen] * len(unreadable)
        for part in parts:
            why += [failed for _, failed in part.failed]
            rows += [row for row, _ in part.failed]
            places += [self._seen + (0 if is_late else max(row, 0)) for row, _ in part.failed]
            self._seen += 0 if is_late else part.rows
        excess = self._tolerated.find_excess(places)
        if excess is not None:
            raise _excess_error(why, rows, excess, self._rules.tolerance)
        if before + len(why) > MAX_REJECTED_ROWS:
            raise DataError(
                "errors.too_many",
                f"{before + len(why)} rows of a micro-batch were rejected, one of them: "
                f"{why[0].reason.message}",
                fix="So many errors rarely have separate causes: check the first. "
                f"A micro-batch may have {MAX_REJECTED_ROWS}; `batch.max.rows` makes it smaller.",
                config_path=why[0].reason.config_path,
            )
        return len(why)

    def _log(self, parts: Sequence[SlotFailures], unreadable: Sequence[BadRow]) -> None:
        failures = [(row.dataset, RowFailure(Stage.READ, row.reason)) for row in unreadable]
        failures += [(part.schema.dataset, why) for part in parts for _, why in part.failed]
        for dataset, why in failures[:MAX_LOGGED_ROWS]:
            log.error("row of %s rejected in %s: %s", dataset, why.stage, why.reason)
        if len(failures) > MAX_LOGGED_ROWS:
            log.error(
                "and %d more rejected rows of this micro-batch", len(failures) - MAX_LOGGED_ROWS
            )


def _slot_failures(
    schema: StreamSchema, batches: Sequence[BatchReady], report: SlotReport
) -> SlotFailures:
    rejected_by_chain = [
        (row, RowFailure(Stage.TRANSFORM, why)) for row, why in report.rejected_by_chain
    ]
    rejected_by_sink = [(row, RowFailure(Stage.WRITE, why)) for row, why in report.rejected]
    failed = sorted((*rejected_by_chain, *rejected_by_sink), key=lambda one: one[0])
    return SlotFailures(schema, batches, report.attempt, failed)


def _excess_error(
    why: Sequence[RowFailure], rows: Sequence[int], at: int, tolerance: Tolerance
) -> PenstockError:
    failed, reason = why[at], why[at].reason
    if failed.stage is Stage.READ:
        return error_from_diagnostic(reason)
    same_stage = sum(one.stage is failed.stage for one in why)
    what = {
        Stage.TRANSFORM: f"the transforms rejected {same_stage} row(s)",
        Stage.WRITE: f"the sink rejected {same_stage} row(s)",
    }[failed.stage]
    allowed = (
        ""
        if tolerance.is_none
        else f", {tolerance.max_rejected} of {tolerance.window_rows} are tolerated"
    )
    return DataError(
        reason.code or "sink.row_refused",
        f"{what}{allowed}, first row {rows[at]}: {reason.message}",
        fix=reason.fix or "Correct the row at the source, or filter it with a transform.",
        config_path=reason.config_path,
        detail=reason.detail,
        dataset=reason.dataset,
    )
