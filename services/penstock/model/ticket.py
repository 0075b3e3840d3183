"""What one micro-batch is told to do, and what it reports back.

The plan of a task is kept; only the ticket differs from batch to batch. It travels to the executors
as canonical JSON in a Spark local property, so it must stay small: places of rows, and rows only
where somebody gave a few to try (`model/rehearsal`).

`SlotTicket.read` and `.write` are the ends' own words, chosen by `kind` (`plugin`, `embedded`): the
driver's side of an end makes them, the executor's side of the same end reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.errors import Diagnostic
from penstock.model.step import SetApart


@dataclass(frozen=True, slots=True)
class SlotTicket:
    """One slot: rows announced, where to read, where to write.

    Slots are numbered from 0 over a whole transaction.
    """

    slot: int
    rows: int
    read: Mapping[str, Any]
    write: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ticket:
    """One Spark job. `slots[i]` is what Spark partition i does; `stall` is the longest time, in
    seconds, that a fetch or a put may make no progress; `trace` the `traceparent` of the
    micro-batch, empty for none.
    """

    task_id: str
    epoch: int
    txn_id: int
    slots: tuple[SlotTicket, ...]
    stall: float = 60.0
    trace: str = ""

    def to_json(self) -> str:
        """Return the text that executors parse."""
        return json.dumps(
            {
                "task_id": self.task_id,
                "epoch": self.epoch,
                "txn_id": self.txn_id,
                "stall": self.stall,
                "trace": self.trace,
                "slots": [[s.slot, s.rows, dict(s.read), dict(s.write)] for s in self.slots],
            },
            separators=(",", ":"),
        )

    @staticmethod
    def from_json(text: str) -> Ticket:
        """Return the ticket that `to_json` wrote."""
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
    """What became of a slot. `error` set means that nothing of this attempt counts.

    `seconds` is the time from the first fetch to the last answer.
    `rejected` are rows that the sink refused (row number, why); they are not in `rows_out`. The
    number is that in the slot's input where the plan numbers rows or has no steps, else that in its
    output.
    `set_apart` are rows that the chain could not change (row number in the slot's input, why); they
    are not in `rows_out` either, and the first of many.
    `detail` is the write end's own: what its driver's side needs to prepare (for instance files and
    sizes).
    """

    slot: int
    attempt: int
    rows_in: int = 0
    rows_out: int = 0
    rejected: tuple[tuple[int, Diagnostic], ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    error: Diagnostic | None = None
    seconds: float = 0.0
    set_apart: tuple[SetApart, ...] = ()
