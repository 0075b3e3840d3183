"""What was put and is not answered yet: bounds it, checks the answers, and waits for them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.model.errors import DataError, Diagnostic, PenstockError, RetriableError
from penstock.spark.ends import Written
from penstock.spark.ends.channels import violation
from penstock.spark.ends.stall import stalled
from penstock.wire import error as error_wire

WINDOW_BYTES: Final = 8 << 20
"""Bytes put and not yet answered. It bounds what a slow sink lets grow here (invariant 12); one
batch may overdraw it, so that a large row cannot block."""

MOST_REFUSED: Final = 10_000
"""Rows of a slot that a sink may refuse one by one: their reasons travel through the driver, which
has to stay small. A sink that refuses more has another trouble than rows."""

_MOST_TEXT: Final = 500
"""Characters of a reason's texts that are kept for each row."""


@dataclass(frozen=True, slots=True)
class _Owed:
    """A batch without an answer."""

    seq: int
    first_row: int
    rows: int
    size: int


class Answers:
    """Counts what a sink owes. `took` and `end` come from the thread that reads the answers."""

    def __init__(self, stage: str, stall: float) -> None:
        """Name the stage for errors; `stall` is how long, in seconds, a sink may owe in silence."""
        self._stage, self._stall = stage, stall
        self._owed: deque[_Owed] = deque()
        self._answered = 0
        self._bytes = 0
        self._written = Written()
        self._ended = False
        self._error: PenstockError | None = None
        self._moved_at = time.monotonic()
        self._changed = threading.Condition()

    def expect(self, seq: int, rows: int, size: int) -> None:
        """Wait for room, then take note of a batch that is about to be sent."""
        with self._changed:
            self._wait(lambda: self._bytes < WINDOW_BYTES)
            if self._ended:
                raise violation("put_ended", f"Put ended before batch {seq} was sent")
            if not self._owed:
                self._moved_at = time.monotonic()  # until now it was not the sink's turn
            before = self._written.rows + len(self._written.rejected)
            self._owed.append(_Owed(seq, before, rows, size))
            self._bytes += size
            self._written.rows += rows

    def complete(self) -> Written:
        """Wait until every batch is answered and the call has ended; return what became of them."""
        with self._changed:
            self._moved_at = time.monotonic()
            self._wait(lambda: self._ended)
            if self._owed:
                raise violation("no_result", f"Put ended with {len(self._owed)} batches unanswered")
            return self._written

    def took(self, result: pb.BatchResult) -> None:
        """Match an answer with the oldest batch.

        Raises:
            InternalError: the answer breaks rule R7.
            RetriableError: `sink.not_tried`.
            DataError: `sink.too_many_refused`.
        """
        with self._changed:
            if 0 < result.seq <= self._answered:
                raise violation("result_repeated", f"a second answer to batch {result.seq}")
            if not self._owed or self._owed[0].seq != result.seq:
                raise violation("result_order", f"an answer to batch {result.seq} out of turn")
            batch = self._owed.popleft()
            self._answered = batch.seq
            refused = _refused(batch, result)
            self._written.rejected += refused
            self._written.rows -= len(refused)
            if len(self._written.rejected) > MOST_REFUSED:
                raise _too_many(refused[0][1])
            self._bytes -= batch.size
            self._moved_at = time.monotonic()
            self._changed.notify_all()

    def end(self, error: PenstockError | None) -> None:
        """Note that the call has ended: nothing more is answered."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Wait for a condition, as long as the sink makes progress (invariant 8)."""
        while not (self._ended or ready()):
            left = self._moved_at + self._stall - time.monotonic()
            if left <= 0:
                raise stalled(self._stage, self._stall)
            self._changed.wait(left)
        if self._error is not None:
            raise self._error


def _refused(batch: _Owed, result: pb.BatchResult) -> list[tuple[int, Diagnostic]]:
    """Return the rows that an answer refuses, if it says of every row what became of it (R7)."""
    rows = [failed.row for failed in result.failed]
    if result.HasField("untried_from"):
        raise RetriableError(
            "sink.not_tried",
            f"the sink did not try batch {batch.seq} from row {result.untried_from} on",
            fix="Look at the sink's system; the micro-batch is tried again.",
            retry_after=result.retry_after.ToTimedelta().total_seconds(),
        )
    if result.all_ok == bool(rows):
        raise violation("result", f"the answer to batch {batch.seq} does not say what became of it")
    if rows and (len(set(rows)) != len(rows) or max(rows) >= batch.rows):
        raise violation("result_rows", f"the answer to batch {batch.seq} names rows it has not")
    failures = sorted(result.failed, key=lambda failed: failed.row)
    return [(batch.first_row + failed.row, _reason(failed)) for failed in failures]


def _reason(failed: pb.RowError) -> Diagnostic:
    reason = error_wire.from_proto(failed.reason)
    return replace(
        reason,
        message=reason.message[:_MOST_TEXT],
        detail=reason.detail[:_MOST_TEXT],
        fix=reason.fix[:_MOST_TEXT],
    )


def _too_many(reason: Diagnostic) -> DataError:
    return DataError(
        "sink.too_many_refused",
        f"the sink refused more than {MOST_REFUSED} rows of a slot, one of them: {reason.message}",
        fix=reason.fix or "Look at the sink; so many rows are rarely bad one by one.",
        dataset=reason.dataset,
    )
