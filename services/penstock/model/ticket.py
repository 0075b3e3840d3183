"""The ticket of one micro-batch for the executors, and the reports of its slots.

The Spark plan of a task is kept; only the ticket differs from batch to batch. It is sent to the
executors as JSON in a Spark local property, so it must stay small: it has the addresses of rows,
and rows only for a preview (`model/inspection.py`).

`SlotTicket.read` and `.write` are written by the driver's side of a source or sink and read by its
executor's side. Their `kind` names the implementation (`plugin`, `embedded`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.errors import Diagnostic
from penstock.model.step import RejectedRow


@dataclass(frozen=True, slots=True)
class SlotTicket:
    """One slot: the number of announced rows, where to read them, where to write them.

    Slots are numbered from 0 over a whole transaction.
    """

    slot: int
    rows: int
    read: Mapping[str, Any]
    write: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ticket:
    """The work of one Spark job. `slots[i]` is for Spark partition i; `stall_timeout_s` limits a
    fetch or a put without progress; `trace` is the `traceparent` of the micro-batch, empty for
    none.
    """

    task_id: str
    epoch: int
    txn_id: int
    slots: tuple[SlotTicket, ...]
    stall_timeout_s: float = 60.0
    trace: str = ""

    def to_json(self) -> str:
        """Return the JSON that executors parse with `from_json`."""
        return json.dumps(
            {
                "task_id": self.task_id,
                "epoch": self.epoch,
                "txn_id": self.txn_id,
                "stall": self.stall_timeout_s,
                "trace": self.trace,
                "slots": [[s.slot, s.rows, dict(s.read), dict(s.write)] for s in self.slots],
            },
            separators=(",", ":"),
        )

    @staticmethod
    def from_json(text: str) -> Ticket:
        """Parse the JSON of `to_json`."""
        raw = json.loads(text)
        return Ticket(
            raw["task_id"],
            raw["epoch"],
            raw["txn_id"],
            tuple(SlotTicket(*s) for s in raw["slots"]),
            raw["stall"],
            raw["trace"],
        )


@dataclass(frozen=True, slots=True)
class SlotReport:
    """The result of one attempt of a slot. With `error` set, nothing of this attempt counts.

    Attributes:
        rejected: Rows that the sink rejected (row number, reason); they are not in `rows_out`. The
            number is that in the slot's input where the plan numbers rows or has no steps, else
            that in its output.
        rejected_by_chain: Rows that the transforms rejected (row number in the slot's input,
            reason), the first of many; they are not in `rows_out` either.
        detail: What the driver's side of the sink needs to prepare, for instance files and sizes.
        seconds: The time from the first fetch to the last response.
    """

    slot: int
    attempt: int
    rows_in: int = 0
    rows_out: int = 0
    rejected: tuple[tuple[int, Diagnostic], ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    error: Diagnostic | None = None
    seconds: float = 0.0
    rejected_by_chain: tuple[RejectedRow, ...] = ()
