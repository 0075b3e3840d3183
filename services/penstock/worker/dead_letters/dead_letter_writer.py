"""Writes dead letters in the transaction of the micro-batch whose rows were rejected.

A small second job reads the batches with rejected rows again, keeps those rows and writes them as
dead letters (`spark/connector_io/dead_letters.py`). Batches can be fetched until they are released,
so rejected rows need not be kept in memory. `SinkWithDeadLetters` commits rows and dead letters
together.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, Protocol

import pyarrow as pa

from penstock.connector_config.keys import DLQ_SINK_PREFIX, DLQ_TOPIC
from penstock.connector_config.settings import RetryPolicy
from penstock.model.connector import CommitMode
from penstock.model.dead_letter import (
    DEAD_LETTER_SCHEMA,
    RowFailure,
    RowOrigin,
    Stage,
)
from penstock.model.errors import (
    ConfigError,
    DataError,
    PenstockError,
    error_from_diagnostic,
)
from penstock.model.stream import (
    BadRow,
    BatchReady,
    PreparedTxn,
    PutSlot,
    StreamSchema,
    WriteOpened,
)
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.model.wall_clock import wall_clock_us
from penstock.spark.connector_io.dead_letters import dead_letter_spec
from penstock.telemetry.redaction import redact_diagnostic
from penstock.worker.dead_letters.rejected_rows import SlotFailures
from penstock.worker.job_retries import run_job
from penstock.worker.ports import Engine, Plan, SinkWriter, SourceReader
from penstock_values.identity import canonical_json

MAX_OFFSET_CHARS: Final = 1_000
"""Longest source offset in a dead letter: offsets travel through the driver, which has to stay
small. A longer one is left out, because a part of it means nothing.
"""

_NO_ROWS: Final = pa.schema([("nothing", pa.int64())])
_UNREADABLE: Final = -1
"""Schema id of rows that could not be read."""


class DeadLetterPlace(Protocol):
    """Where dead letters are written: into the transactions of the task."""

    def dead_letter_ticket(self, txn_id: int, slot: int) -> dict[str, Any]:
        """Return what an executor needs to write dead letters."""

    def stage(self, txn_id: int, slots: Sequence[PutSlot]) -> None:
        """Include written dead letters in a transaction."""

    def count_staged(self, txn_id: int) -> int:
        """Return the number of slots that a transaction includes."""


@dataclass(frozen=True, slots=True)
class DeadLetterOrigin:
    """The task run whose rows were rejected."""

    connector: str
    task_id: str
    epoch: int
    stall: float


class DeadLetterWriter:
    """Writes the dead letters of one run of a task."""

    def __init__(
        self,
        origin: DeadLetterOrigin,
        engine: Engine,
        reader: SourceReader,
        place: DeadLetterPlace,
        retries: RetryPolicy,
        *,
        headers: bool = False,
        max_texts: int = 0,
    ) -> None:
        """`headers`: dead letters carry Kafka Connect's headers. `max_texts`: how many rows of a
        slot are returned as text, for the log.
        """
        self._retries = retries
        self._origin, self._engine, self._reader, self._place = origin, engine, reader, place
        self._headers, self._max_texts = headers, max_texts
        self._plans: dict[tuple[int, int], Plan] = {}

    async def send(
        self, txn_id: int, parts: Sequence[SlotFailures], unreadable: Sequence[BadRow], lag: float
    ) -> list[str]:
        """Write and stage the dead letters of a micro-batch. Returns rows as text, for the log.

        Raises:
            PenstockError: a job failed; `errors.place_refused`.
        """
        first, reports = self._place.count_staged(txn_id), list[SlotReport]()
        by_schema: dict[int, list[SlotFailures]] = {}
        for part in parts:
            if part.failed:
                by_schema.setdefault(part.schema.schema_id, []).append(part)
        for schema_id, same_schema in by_schema.items():
            slots = [
                self._slot(txn_id, slot, part)
                for slot, part in enumerate(same_schema, first + len(reports))
            ]
            reports += await self._put(schema_id, same_schema[0].schema.arrow, txn_id, slots, lag)
        if unreadable:
            slots = [self._unreadable_slot(txn_id, first + len(reports), unreadable)]
            reports += await self._put(_UNREADABLE, _NO_ROWS, txn_id, slots, lag)
        written = [PutSlot(r.slot, r.attempt, r.rows_out, r.detail["to"]) for r in reports]
        self._place.stage(txn_id, sorted(written, key=lambda slot: slot.slot))
        return [text for report in reports for text in report.detail["texts"]]

    async def _put(
        self,
        schema_id: int,
        schema: pa.Schema,
        txn_id: int,
        slots: Sequence[SlotTicket],
        lag: float,
    ) -> list[SlotReport]:
        origin, plan_key = self._origin, (schema_id, len(slots))
        if plan_key not in self._plans:
            name = f"{origin.task_id}#letters"
            self._plans[plan_key] = await asyncio.to_thread(
                self._engine.build, name, schema, (), len(slots)
            )
        ticket = Ticket(origin.task_id, origin.epoch, txn_id, tuple(slots), origin.stall)
        reports = await run_job(self._engine, self._plans[plan_key], ticket, lag, self._retries)
        for report in reports:
            if report.rejected:
                raise _place_refused(report)
        return reports

    def _slot(self, txn_id: int, slot: int, part: SlotFailures) -> SlotTicket:
        """Return the ticket of a slot's dead letters. Only batches with rejected rows are read
        again.
        """
        batches, failed = select_failed_batches(part)
        spec = dead_letter_spec(
            [(row, _redact_failure(why), row_origin) for row, why, row_origin in failed],
            (),
            self._origin_fields(part.schema.dataset, part.attempt, part.schema.key_columns),
            self._place.dead_letter_ticket(txn_id, slot),
        )
        read = self._reader.ticket([one.seq for one in batches], part.schema.schema_id)
        return SlotTicket(slot, sum(one.rows for one in batches), read, spec)

    def _unreadable_slot(self, txn_id: int, slot: int, rows: Sequence[BadRow]) -> SlotTicket:
        datasets = {row.dataset for row in rows}
        spec = dead_letter_spec(
            (),
            [
                (
                    row.raw,
                    _redact_failure(RowFailure(Stage.READ, row.reason)),
                    (row.partition_id, _offset_text(row.offset)),
                )
                for row in rows
            ],
            self._origin_fields(datasets.pop() if len(datasets) == 1 else "", None),
            self._place.dead_letter_ticket(txn_id, slot),
        )
        return SlotTicket(slot, 0, {"kind": "empty"}, spec)

    def _origin_fields(
        self, dataset: str, attempt: int | None, key_columns: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        """Return what all dead letters of a slot have in common. Unreadable rows have no
        attempt.
        """
        return {
            "connector": self._origin.connector,
            "task": self._origin.task_id,
            "dataset": dataset,
            "key_columns": list(key_columns),
            "attempt": attempt,
            "failed_at": wall_clock_us(),
            "headers": self._headers,
            "shown": self._max_texts,
        }


def select_failed_batches(
    part: SlotFailures,
) -> tuple[list[BatchReady], list[tuple[int, RowFailure, RowOrigin]]]:
    """Return the batches of a slot that have rejected rows, and those rows, each with its number
    among the rows of just these batches, its failure and its origin. A row without a number is
    attributed to the first partition.
    """
    ends = list(accumulate(batch.rows for batch in part.batches))
    numbered = [(row, why) for row, why in part.failed if row >= 0]
    first = part.batches[0]
    unknown = (_row_origin(first, 0)[0], None)
    found: list[tuple[int, RowFailure, RowOrigin]]
    found = [(-1, why, unknown) for row, why in part.failed if row < 0]
    selected, before, at = list[BatchReady](), 0, 0
    for batch, end in zip(part.batches, ends, strict=True):
        here = []
        while at < len(numbered) and numbered[at][0] < end:
            row, why = numbered[at]
            here.append((before + row - (end - batch.rows), why, _row_origin(batch, before)))
            at += 1
        if here:
            selected.append(batch)
            found += here
            before += batch.rows
    return selected or [first], found


def _row_origin(batch: BatchReady, before: int) -> RowOrigin:
    """Return the origin of the rows of a batch. `before` rows are read before them."""
    if batch.position is not None:
        return str(batch.position.partition), batch.position.offset - before
    return batch.partition_id, _offset_text(batch.offset)


def _offset_text(offset: Mapping[str, Any] | None) -> str | None:
    text = None if offset is None else canonical_json(dict(offset))
    return text if text is None or len(text) <= MAX_OFFSET_CHARS else None


def _redact_failure(failed: RowFailure) -> RowFailure:
    """Return a failure without secret values (invariant 9)."""
    return RowFailure(failed.stage, redact_diagnostic(failed.reason))


def _place_refused(report: SlotReport) -> DataError:
    _, reason = report.rejected[0]
    return DataError(
        "errors.place_refused",
        f"the place for dead letters rejected {len(report.rejected)} of them: {reason.message}",
        fix="Check what it accepts: dead letters have their own columns, and long texts.",
        config_path="errors.deadletterqueue.topic.name",
        detail=str(reason),
    )


_MARK: Final = b"\x00penstock letters\x00"
"""Starts a prepared state with two parts. A state without it is that of the sink alone."""

_LENGTH: Final = struct.Struct(">I")


class SinkWithDeadLetters:
    """A sink whose transactions may include dead letters."""

    def __init__(
        self, rows: SinkWriter, dead_letters: SinkWriter | None, dataset: str = ""
    ) -> None:
        """`dead_letters` is None without a place for them. `dataset` is their name at that
        place.
        """
        self._rows, self._dead_letters, self._dataset = rows, dead_letters, dataset
        self._staged: dict[int, list[PutSlot]] = {}
        self._prepared_together: set[int] = set()
        self._commits_dead_letters_first = self._rows_first = False

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Open both writers, each with its part of the prepared state.

        Raises:
            ConfigError: `errors.place_gone`.
        """
        rows, letters = _split_state(last_prepared)
        if self._dead_letters is None and letters is not None and recover:
            raise _place_gone()
        opened = await self._rows.open(epoch, commit_mode, rows, recover)
        self._rows_first = opened.reports_failed_rows
        if self._dead_letters is not None:
            place = await self._dead_letters.open(epoch, CommitMode.UNSPECIFIED, letters, recover)
            both = {opened.commit_mode, place.commit_mode}
            self._commits_dead_letters_first = both != {CommitMode.TWO_PHASE}
            await self._dead_letters.apply_schema(
                StreamSchema(1, self._dataset, DEAD_LETTER_SCHEMA)
            )
        return opened

    async def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a dataset at the sink; None when they are not known."""
        return await self._rows.columns(dataset)

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Prepare the sink for rows of a schema."""
        await self._rows.apply_schema(schema)

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:
        """Return what an executor needs to write rows."""
        return self._rows.ticket(txn_id, slot, schema_id)

    def dead_letter_ticket(self, txn_id: int, slot: int) -> dict[str, Any]:
        """Return what an executor needs to write dead letters."""
        assert self._dead_letters is not None  # noqa: S101 - else none are written
        return self._dead_letters.ticket(txn_id, slot, 1)

    def stage(self, txn_id: int, slots: Sequence[PutSlot]) -> None:
        """Include written dead letters in a transaction."""
        self._staged[txn_id] = [*self._staged.get(txn_id, ()), *slots]

    def count_staged(self, txn_id: int) -> int:
        """Return the number of slots of dead letters that a transaction includes."""
        return len(self._staged.get(txn_id, ()))

    async def prepare(self, txn_id: int, slots: Sequence[PutSlot], token: bytes) -> PreparedTxn:
        """Make rows and dead letters durable. Dead letters become visible here unless both places
        commit in two phases.

        They come first, unless rows may fail only now: those are staged as dead letters before this
        is called again.

        Raises:
            PenstockError: that of a place; of dead letters with the path of one of their keys.
        """
        if self._rows_first:
            rows = await self._rows.prepare(txn_id, slots, token)
            letters = await self._prepare_dead_letters(txn_id, token)
        else:
            letters = await self._prepare_dead_letters(txn_id, token)
            rows = await self._rows.prepare(txn_id, slots, token)
        if letters is None:
            return rows
        self._prepared_together.add(txn_id)
        state = _MARK + _LENGTH.pack(len(rows.state)) + rows.state + letters.state
        return replace(rows, state=state)

    async def _prepare_dead_letters(self, txn_id: int, token: bytes) -> PreparedTxn | None:
        """Make dead letters durable. Returns their part of a common transaction."""
        staged = self._staged.pop(txn_id, None)
        if staged is None or self._dead_letters is None:
            return None
        try:
            letters = await self._dead_letters.prepare(txn_id, staged, token)
            if not self._commits_dead_letters_first:
                return letters
            await self._dead_letters.commit(txn_id)
        except PenstockError as error:
            own = error.diagnostic.config_path  # a key of their sink, as that knows it
            path = f"{DLQ_SINK_PREFIX}{own}" if own else DLQ_TOPIC
            raise error_from_diagnostic(replace(error.diagnostic, config_path=path)) from error
        return None

    async def commit(self, txn_id: int) -> None:
        """Make a prepared transaction visible, dead letters first. Idempotent."""
        if txn_id in self._prepared_together and self._dead_letters is not None:
            await self._dead_letters.commit(txn_id)
            self._prepared_together.discard(txn_id)
        await self._rows.commit(txn_id)

    async def close(self, grace: float) -> None:
        """Finish and close both writers. Idempotent."""
        try:
            await self._rows.close(grace)
        finally:
            if self._dead_letters is not None:
                await self._dead_letters.close(grace)


def _split_state(prepared: PreparedTxn | None) -> tuple[PreparedTxn | None, PreparedTxn | None]:
    """Return the prepared transaction of the sink, and that of the dead letters."""
    if prepared is None or not prepared.state.startswith(_MARK):
        return prepared, None
    start = len(_MARK) + _LENGTH.size
    (length,) = _LENGTH.unpack(prepared.state[len(_MARK) : start])
    rows, letters = prepared.state[start : start + length], prepared.state[start + length :]
    return replace(prepared, state=rows), replace(prepared, state=letters)


def _place_gone() -> ConfigError:
    return ConfigError(
        "errors.place_gone",
        "the last transaction has dead letters that are not visible yet, and the connector no "
        "longer has a place for them",
        fix="Restore the `errors.deadletterqueue.…` keys until the task has run once.",
        config_path="errors.deadletterqueue.topic.name",
    )
