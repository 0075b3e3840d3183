"""Writes dead letters: one more small job reads the batches that have rows that failed, keeps those
rows, and puts letters of them into the transaction that the other rows of the micro-batch are in
(`spark/ends/lettering`). Batches may be read again until they are released, so nobody has to
remember rows.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, Protocol

import pyarrow as pa

from penstock.model.connector import CommitMode
from penstock.model.dead_letter import LETTER, Failed, Spot, Stage, stamp
from penstock.model.errors import ConfigError, DataError
from penstock.model.identity import canonical_json
from penstock.model.stream import (
    BadRow,
    BatchReady,
    Offsets,
    PreparedTxn,
    PutSlot,
    StreamSchema,
    TxnCommitted,
    WriteOpened,
)
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark.ends import lettering
from penstock.worker.job_retries import Retries, reported
from penstock.worker.ports import Engine, Plan, ReadStream, WriteStream
from penstock.worker.redacted import hidden

MOST_OFFSET: Final = 1_000
"""Characters of a source's offset that a letter tells: they travel through the driver, which has to
stay small. A longer one counts as not known; a part of it would say nothing."""

_NO_ROWS: Final = pa.schema([("nothing", pa.int64())])
_RAW: Final = -1
"""Stands for a schema where rows have none: they could not be read."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a slot of a micro-batch read, and what failed of it under an attempt: rows by their
    numbers in the slot, in order.
    """

    schema: StreamSchema
    batches: Sequence[BatchReady]
    attempt: int
    failed: Sequence[tuple[int, Failed]]

    @property
    def rows(self) -> int:
        """Rows that were read."""
        return sum(batch.rows for batch in self.batches)


class Post(Protocol):
    """Where letters go: into the transactions of the task."""

    def letter_ticket(self, txn_id: int, slot: int) -> dict[str, Any]:
        """Say what an executor needs to put letters."""

    def stage(self, txn_id: int, slots: Sequence[PutSlot]) -> None:
        """Have a transaction include letters that were put."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Whose letters they are."""

    connector: str
    task_id: str
    epoch: int
    stall: float


class Posting:
    """Writes the letters of one run of a task."""

    def __init__(
        self,
        sender: Sender,
        engine: Engine,
        reader: ReadStream,
        post: Post,
        retries: Retries,
        *,
        headers: bool = False,
        texts: int = 0,
    ) -> None:
        """`headers`: letters have Kafka Connect's; `texts`: so many rows of a slot are returned as
        text.
        """
        self._retries = retries
        self._sender, self._engine, self._reader, self._post = sender, engine, reader, post
        self._headers, self._texts = headers, texts
        self._plans: dict[tuple[int, int], Plan] = {}

    async def send(
        self, txn_id: int, parts: Sequence[Part], unread: Sequence[BadRow], lag: float
    ) -> list[str]:
        """Write all letters of a micro-batch, and stage them; returns rows as text.

        Raises:
            PenstockError: a job failed; `errors.place_refused`.
        """
        reports = list[SlotReport]()
        by_schema: dict[int, list[Part]] = {}
        for part in parts:
            if part.failed:
                by_schema.setdefault(part.schema.schema_id, []).append(part)
        for schema_id, some in by_schema.items():
            slots = [self._slot(txn_id, slot, part) for slot, part in enumerate(some, len(reports))]
            reports += await self._put(schema_id, some[0].schema.arrow, txn_id, slots, lag)
        if unread:
            slots = [self._unread(txn_id, len(reports), unread)]
            reports += await self._put(_RAW, _NO_ROWS, txn_id, slots, lag)
        put = [PutSlot(r.slot, r.attempt, r.rows_out, r.detail["to"]) for r in reports]
        self._post.stage(txn_id, sorted(put, key=lambda slot: slot.slot))
        return [text for report in reports for text in report.detail["texts"]]

    async def _put(
        self,
        schema_id: int,
        schema: pa.Schema,
        txn_id: int,
        slots: Sequence[SlotTicket],
        lag: float,
    ) -> list[SlotReport]:
        sender, kept = self._sender, (schema_id, len(slots))
        if kept not in self._plans:
            name = f"{sender.task_id}#letters"
            self._plans[kept] = await asyncio.to_thread(
                self._engine.build, name, schema, (), len(slots)
            )
        ticket = Ticket(sender.task_id, sender.epoch, txn_id, tuple(slots), sender.stall)
        reports = await reported(self._engine, self._plans[kept], ticket, lag, self._retries)
        for report in reports:
            if report.rejected:
                raise _refused(report)
        return reports

    def _slot(self, txn_id: int, slot: int, part: Part) -> SlotTicket:
        """Return the ticket of a slot's letters: only batches with bad rows are read again."""
        batches, failed = with_failures(part)
        place = lettering.place(
            [(row, _shown(why), spot) for row, why, spot in failed],
            (),
            self._origin(part.schema.dataset, part.attempt, part.schema.key_columns),
            self._post.letter_ticket(txn_id, slot),
        )
        read = self._reader.ticket([one.seq for one in batches], part.schema.schema_id)
        return SlotTicket(slot, sum(one.rows for one in batches), read, place)

    def _unread(self, txn_id: int, slot: int, rows: Sequence[BadRow]) -> SlotTicket:
        datasets = {row.dataset for row in rows}
        place = lettering.place(
            (),
            [
                (
                    row.raw,
                    _shown(Failed(Stage.READ, row.reason)),
                    (row.partition_id, _offset_text(row.offset)),
                )
                for row in rows
            ],
            self._origin(datasets.pop() if len(datasets) == 1 else "", None),
            self._post.letter_ticket(txn_id, slot),
        )
        return SlotTicket(slot, 0, {"kind": "nothing"}, place)

    def _origin(
        self, dataset: str, attempt: int | None, key_columns: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        """Return what all letters of a slot have in common; rows that could not be read have no
        attempt.
        """
        return {
            "connector": self._sender.connector,
            "task": self._sender.task_id,
            "dataset": dataset,
            "key_columns": list(key_columns),
            "attempt": attempt,
            "failed_at": stamp(),
            "headers": self._headers,
            "shown": self._texts,
        }


def with_failures(part: Part) -> tuple[list[BatchReady], list[tuple[int, Failed, Spot]]]:
    """Return the batches of a slot that have rows that failed, and those rows by their numbers
    among the rows of just these batches, with where each is from. A row whose number is not known
    is of the first partition.
    """
    ends = list(accumulate(batch.rows for batch in part.batches))
    numbered = [(row, why) for row, why in part.failed if row >= 0]
    first = part.batches[0]
    unknown = (_spot(first, 0)[0], None)
    found: list[tuple[int, Failed, Spot]]
    found = [(-1, why, unknown) for row, why in part.failed if row < 0]
    chosen, before, at = list[BatchReady](), 0, 0
    for batch, end in zip(part.batches, ends, strict=True):
        here = []
        while at < len(numbered) and numbered[at][0] < end:
            row, why = numbered[at]
            here.append((before + row - (end - batch.rows), why, _spot(batch, before)))
            at += 1
        if here:
            chosen.append(batch)
            found += here
            before += batch.rows
    return chosen or [first], found


def _spot(batch: BatchReady, before: int) -> Spot:
    """Return where the rows of a batch are from, when so many are read before them."""
    if batch.place is not None:
        return str(batch.place.partition), batch.place.offset - before
    return batch.partition_id, _offset_text(batch.offset)


def _offset_text(offset: Mapping[str, Any] | None) -> str | None:
    text = None if offset is None else canonical_json(dict(offset))
    return text if text is None or len(text) <= MOST_OFFSET else None


def _shown(failed: Failed) -> Failed:
    """Return why a row failed, without secrets (invariant 9)."""
    return Failed(failed.stage, hidden(failed.reason))


def _refused(report: SlotReport) -> DataError:
    _, reason = report.rejected[0]
    return DataError(
        "errors.place_refused",
        f"the place of dead letters refused {len(report.rejected)} letter(s): {reason.message}",
        fix="See what it takes: letters have columns of their own, and long texts.",
        config_path="errors.deadletterqueue.topic.name",
        detail=str(reason),
    )


_MARK: Final = b"\x00penstock letters\x00"
"""Begins a state that has two parts. A state without it is that of the write end alone."""

_LENGTH: Final = struct.Struct(">I")


class Lettered:
    """A write end whose transactions may have letters beside their rows."""

    def __init__(self, rows: WriteStream, letters: WriteStream | None, dataset: str = "") -> None:
        """`letters` None: there is no place for any. `dataset` is what letters are called there."""
        self._rows, self._letters, self._dataset = rows, letters, dataset
        self._staged: dict[int, list[PutSlot]] = {}
        self._both: set[int] = set()
        self._at_once = False

    async def open(
        self,
        epoch: int,
        commit_mode: CommitMode,
        last_prepared: PreparedTxn | None,
        recover: bool,
    ) -> WriteOpened:
        """Open both, each with its part of what was prepared.

        Raises:
            ConfigError: `errors.place_gone`.
        """
        rows, letters = _parts(last_prepared)
        if self._letters is None and letters is not None and recover:
            raise _gone()
        opened = await self._rows.open(epoch, commit_mode, rows, recover)
        if self._letters is not None:
            place = await self._letters.open(epoch, CommitMode.UNSPECIFIED, letters, recover)
            both = {opened.commit_mode, place.commit_mode}
            self._at_once = both != {CommitMode.TWO_PHASE}
            await self._letters.apply_schema(StreamSchema(1, self._dataset, LETTER))
        return opened

    async def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns that rows of a dataset have at the write end."""
        return await self._rows.columns(dataset)

    async def apply_schema(self, schema: StreamSchema) -> None:
        """Make the write end ready for rows of a schema."""
        await self._rows.apply_schema(schema)

    def ticket(self, txn_id: int, slot: int, schema_id: int) -> dict[str, Any]:
        """Say what an executor needs to put rows."""
        return self._rows.ticket(txn_id, slot, schema_id)

    def letter_ticket(self, txn_id: int, slot: int) -> dict[str, Any]:
        """Say what an executor needs to put letters."""
        assert self._letters is not None  # noqa: S101 - nobody makes letters without a place
        return self._letters.ticket(txn_id, slot, 1)

    def stage(self, txn_id: int, slots: Sequence[PutSlot]) -> None:
        """Have a transaction include letters that were put."""
        self._staged[txn_id] = list(slots)

    async def prepare(
        self, txn_id: int, slots: Sequence[PutSlot], token: bytes, offsets: Offsets
    ) -> PreparedTxn:
        """Make letters and rows durable; visible are letters at once where they have to be."""
        staged = self._staged.pop(txn_id, None)
        if staged is None or self._letters is None:
            return await self._rows.prepare(txn_id, slots, token, offsets)
        letters = await self._letters.prepare(txn_id, staged, token, offsets)
        if self._at_once:
            await self._letters.commit(txn_id)
            return await self._rows.prepare(txn_id, slots, token, offsets)
        self._both.add(txn_id)
        rows = await self._rows.prepare(txn_id, slots, token, offsets)
        state = _MARK + _LENGTH.pack(len(rows.state)) + rows.state + letters.state
        return replace(rows, state=state)

    async def commit(self, txn_id: int) -> TxnCommitted:
        """Make a prepared transaction visible: first its letters. Idempotent."""
        if txn_id in self._both and self._letters is not None:
            await self._letters.commit(txn_id)
            self._both.discard(txn_id)
        return await self._rows.commit(txn_id)

    async def abort(self, txn_id: int) -> None:
        """Throw a transaction away."""
        self._staged.pop(txn_id, None)
        if txn_id in self._both and self._letters is not None:
            self._both.discard(txn_id)
            await self._letters.abort(txn_id)
        await self._rows.abort(txn_id)

    async def close(self, grace: float) -> None:
        """Finish and let go of both. Idempotent."""
        try:
            await self._rows.close(grace)
        finally:
            if self._letters is not None:
                await self._letters.close(grace)


def _parts(prepared: PreparedTxn | None) -> tuple[PreparedTxn | None, PreparedTxn | None]:
    """Return what the write end prepared, and what the place of letters did."""
    if prepared is None or not prepared.state.startswith(_MARK):
        return prepared, None
    start = len(_MARK) + _LENGTH.size
    (length,) = _LENGTH.unpack(prepared.state[len(_MARK) : start])
    rows, letters = prepared.state[start : start + length], prepared.state[start + length :]
    return replace(prepared, state=rows), replace(prepared, state=letters)


def _gone() -> ConfigError:
    return ConfigError(
        "errors.place_gone",
        "the last transaction has dead letters that are not visible yet, and the connector names "
        "no place for letters any more",
        fix="Put the `errors.deadletterqueue.…` keys back until the task has run once.",
        config_path="errors.deadletterqueue.topic.name",
    )
