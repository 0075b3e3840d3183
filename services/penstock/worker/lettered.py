"""The write end of a task together with the place of its dead letters: one transaction for both.

Where both commit in two phases, what both prepared is stored in one write with the offsets, so a
row is in exactly one of the two places, whatever crashes. Where one of them does not, letters are
visible before the rows are: after a crash between the two they come again, and none is lost.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.connector import CommitMode
from penstock.model.errors import ConfigError
from penstock.model.letter import LETTER
from penstock.model.stream import (
    Offsets,
    PreparedTxn,
    PutSlot,
    StreamSchema,
    TxnCommitted,
    WriteOpened,
)
from penstock.worker.ports import WriteStream

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
