"""Which rows of a transaction count: the stages of its slots and attempts.

A slot may be put several times, when an executor failed. Only the attempts that Prepare names
count; all others are dropped. So no row is written twice and none is lost (invariant 5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock_connector._errors import ConnectorError, RetriableError
from penstock_connector._sink import LeavingOut, Staging


@dataclass(slots=True, eq=False)
class Stage:
    """One attempt at a slot: a staging per schema, in order of arrival. `batches` are the schema
    and number of rows of each batch that was put, `rows` those that were taken.
    """

    txn_id: int
    slot: int
    attempt: int
    stagings: dict[int, Staging] = field(default_factory=dict)
    batches: list[tuple[int, int]] = field(default_factory=list)
    rows: int = 0
    last_seq: int = 0
    complete: bool = False
    dropped: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    in_use: asyncio.Lock = field(default_factory=asyncio.Lock)

    def close(self) -> None:
        """End the stagings: no more rows come."""
        for staging in self.stagings.values():
            staging.close()

    def leave_out(self, rows: Sequence[int]) -> None:
        """Remove rows, by their numbers in the slot."""
        first, left = dict.fromkeys(self.stagings, 0), set(rows)
        found: dict[int, set[int]] = {schema_id: set() for schema_id in self.stagings}
        before = 0
        for schema_id, count in self.batches:
            here = {row for row in left if row < before + count}
            found[schema_id] |= {row - before + first[schema_id] for row in here}
            left -= here
            first[schema_id] += count
            before += count
        for schema_id, numbers in found.items():
            staging = self.stagings[schema_id]
            if not numbers:
                continue
            if not isinstance(staging, LeavingOut):
                raise ConnectorError(
                    "connector.defect",
                    f"a sink reports failed rows, and {type(staging).__name__} has no `leave_out`",
                )
            staging.leave_out(numbers)

    def number_of(self, staging: Staging, row: int) -> int:
        """Return the number in the slot of a row of a staging."""
        (wanted,) = (id_ for id_, one in self.stagings.items() if one is staging)
        before = 0
        for schema_id, count in self.batches if row >= 0 else ():
            if schema_id == wanted:
                if row < count:
                    return before + row
                row -= count
            before += count
        raise ConnectorError(
            "connector.defect",
            f"a failed row is named that was not put: {row}",
            fix="Name rows by their numbers among all rows that were put to the staging.",
        )

    def discard(self) -> None:
        """Drop everything of it; a put that still runs finds out at its next batch."""
        self.dropped = True
        for staging in self.stagings.values():
            staging.discard()


@dataclass(frozen=True, slots=True)
class StagedSchema:
    """A schema of a write stream."""

    dataset: str
    arrow: pa.Schema


class Stages:
    """The stages of a task's transactions. Lives on the event loop: no locks."""

    def __init__(self, done_txn_id: int = 0) -> None:
        self._open: dict[int, dict[tuple[int, int], Stage]] = {}
        self._done = done_txn_id

    def begin(self, txn_id: int, slot: int, attempt: int) -> tuple[Stage, Stage | None]:
        """Return a new stage, and the broken one that it replaces, if any."""
        if txn_id <= self._done:
            raise ConnectorError(
                "sink.txn.closed",
                f"transaction {txn_id} takes no more rows: {self._done} is prepared",
                fix="This attempt came too late; nothing is lost.",
            )
        stages = self._open.setdefault(txn_id, {})
        older = stages.get((slot, attempt))
        if older is not None and not older.ended.is_set():
            raise ConnectorError(
                "sink.slot.busy", f"slot {slot} attempt {attempt} is being put already"
            )
        stage = Stage(txn_id, slot, attempt)
        stages[slot, attempt] = stage
        return stage, older

    def named(self, txn_id: int, slots: Iterable[pb.PutSlot]) -> tuple[list[Stage], list[Stage]]:
        """Return the stages that count, in slot order, and all others of the transaction."""
        stages = self._open.get(txn_id, {})
        counted = []
        for wanted in sorted(slots, key=lambda slot: slot.slot):
            stage = stages.get((wanted.slot, wanted.attempt))
            if stage is not None:
                counted.append(stage)
            elif wanted.rows:
                raise RetriableError(
                    "sink.slot.missing",
                    f"slot {wanted.slot} attempt {wanted.attempt} of transaction {txn_id} "
                    "is not staged here",
                    fix="Reopen the task from its stored offsets.",
                )
        return counted, [stage for stage in stages.values() if stage not in counted]

    def end(self, txn_id: int) -> None:
        """Close a transaction for puts, and forget its stages."""
        self._done = max(self._done, txn_id)
        self._open.pop(txn_id, None)

    def keep(self, txn_id: int, stages: Iterable[Stage]) -> None:
        """Remember stages of a closed transaction: it is prepared again."""
        self._open[txn_id] = {(stage.slot, stage.attempt): stage for stage in stages}

    def drop_all(self) -> list[Stage]:
        """Forget everything that was not prepared."""
        return [stage for txn_id in list(self._open) for stage in self._open.pop(txn_id).values()]


def check_rows(stages: Iterable[Stage], slots: Iterable[pb.PutSlot]) -> None:
    """Compare the rows that count with what the host counted (rule R5)."""
    staged = {stage.slot: stage for stage in stages}
    for wanted in slots:
        stage = staged.get(wanted.slot)
        if stage is not None and not stage.complete:
            raise RetriableError(
                "sink.slot.incomplete",
                f"the put of slot {wanted.slot} attempt {wanted.attempt} broke off",
                fix="Reopen the task from its stored offsets.",
            )
        rows = stage.rows if stage else 0
        if rows != wanted.rows:
            raise ConnectorError(
                "sink.slot.rows_mismatch",
                f"slot {wanted.slot} attempt {wanted.attempt} has {rows} rows here, "
                f"the host counted {wanted.rows}",
            )
