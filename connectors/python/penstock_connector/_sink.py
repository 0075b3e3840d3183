"""What the author of a sink writes: a simple `Sink`, or a `TransactionalSink` for exactly once.

The host writes in transactions. Rows of a transaction come in slots, from several machines at once,
and a slot may come twice when a machine failed (another *attempt*). `prepare` names the attempts
that count. A simple `Sink` sees none of this: the SDK keeps the rows and calls `write_batch` in
order when the transaction is prepared.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from penstock_connector._alterable import Alterable
from penstock_connector._connector import C
from penstock_connector._errors import ConnectorError, DataError
from penstock_connector._values import CommitMode, PreparedTxn

Refused: TypeAlias = "Sequence[tuple[int, ConnectorError]] | None"
"""Rows of a batch that were not taken: index and why. None or empty: all were taken."""


class FailedRowsError(DataError):
    """Rows that can never be written, as `prepare` found out.

    Attributes:
        rows: The staging of each row, its number among all rows that were put there, and why.
    """

    def __init__(self, rows: Sequence[tuple[Staging, int, DataError]]) -> None:
        _, number, first = rows[0]
        super().__init__(
            first.code,
            f"{len(rows)} row(s) cannot be written; the first is row {number}: {first.message}",
            fix=first.fix,
            config_path=first.config_path,
            detail=first.detail,
            dataset=first.dataset,
        )
        self.rows = rows


class Sink(Alterable[C]):
    """Writes at least once, or effectively once when `idempotent`. All methods are called from one
    thread at a time; `check_batch` may be called at the same time from others.

    Attributes:
        idempotent: Writing the same keyed rows again changes nothing.
        commit_every: Wanted seconds between commits; 0 for as soon as there are rows.
        staging_bytes: Most bytes of rows the SDK keeps for a task until they are prepared.
    """

    idempotent: ClassVar[bool] = False
    commit_every: ClassVar[float] = 0.0
    staging_bytes: ClassVar[int] = 512 << 20

    def connect(self) -> None:
        """Open what is needed to write."""

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the place where rows of a dataset go; None when it is not there.

        Override it where the place can be asked (a table): `schema.evolution` compares rows with
        it. A sink without it is compared with the rows that came before.
        """
        raise NotImplementedError

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Get ready for rows of this schema; raise SchemaError when that is not possible.

        Returns:
            What was done, one line each (for instance the DDL), or None.
        """

    def check_batch(self, dataset: str, rows: pa.RecordBatch) -> Refused:
        """Return the rows that can never be written, before they are staged. Pure.

        They go to the dead letters, the other rows are written.
        """

    def write_batch(self, dataset: str, rows: pa.RecordBatch) -> Refused:
        """Write rows, in order.

        Returns:
            Rows that can never be written, each with a DataError; all others are written. They go
            to the dead letters where `errors.tolerance` allows it, else they end the task.

        Raises:
            DataError: A row can never be written, and it is not known which one. Where such rows
                are tolerated, halves of the batch are written until the row is found: those before
                it may come again.
        """
        raise NotImplementedError

    def flush(self) -> None:
        """Make everything written so far durable. The host commits offsets after this."""


@runtime_checkable
class LeavingOut(Protocol):
    """A staging of a sink that reports failed rows."""

    def leave_out(self, rows: AbstractSet[int]) -> None:
        """Remove rows, by their numbers among all rows that were put. Some may be gone already."""


@runtime_checkable
class Staging(Protocol):
    """Rows of one slot, attempt and schema that do not count yet. Used by one thread at a time."""

    def put(self, rows: pa.RecordBatch) -> Refused:
        """Stage rows; refused ones go to the dead letters."""

    def close(self) -> None:
        """End it: no more rows come."""

    def discard(self) -> None:
        """Remove it: it does not count. May come before or after `close`."""


class TransactionalSink(Alterable[C]):
    """Writes exactly once. Whatever `commit` needs goes through the bytes that `prepare` returns:
    after a crash another process gets them with `recover`.

    `stage` and the stagings are called from several threads at once, all else from one.

    Attributes:
        commit_modes: TWO_PHASE, or SINK when the sink itself stores the token (see `committed`).
        commit_every: Wanted seconds between commits; 0 for as soon as there are rows.
        reports_columns: Whether `columns` returns columns, in a sink that has it; set in `connect`.
        reports_failed_rows: Whether `prepare` may raise FailedRowsError. Its stagings are
            `LeavingOut` then.
        tolerates_failed_rows: Whether it should: the connector tolerates failed rows.
    """

    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.TWO_PHASE,)
    commit_every: ClassVar[float] = 0.0
    reports_columns: bool = True
    reports_failed_rows: bool = False
    tolerates_failed_rows: bool = False

    def connect(self, task_id: str, epoch: int) -> None:
        """Open what is needed to write. A sink that can, refuses lower epochs of the task now."""

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the place where rows of a dataset go; None when it is not there.

        Override it where the place can be asked (a table): `schema.evolution` compares rows with
        it. A sink without it is compared with the rows that came before.
        """
        raise NotImplementedError

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Get ready for rows of this schema; raise SchemaError when that is not possible.

        Returns:
            What was done, one line each (for instance the DDL), or None.
        """

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for the rows of one attempt at a slot. It must not be visible to
        readers.
        """
        raise NotImplementedError

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Make staged rows durable, still invisible, and return what `commit` needs.

        Args:
            txn_id: The transaction.
            epoch: The task's epoch.
            staged: What counts, closed, in the order of the rows.
            token: The offsets that it covers; a SINK mode sink stores them with the rows.

        Returns:
            State, at most 64 KiB, stored by the host in one write with the offsets.

        Raises:
            FailedRowsError: rows that can never be written; only where they are tolerated. Nothing
                is prepared, and the same stagings come again, without these rows.
        """
        raise NotImplementedError

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Make prepared rows visible. Must be idempotent: it may come again after a crash."""
        raise NotImplementedError

    def committed(self) -> PreparedTxn | tuple[int, int, bytes] | None:
        """Return the last transaction stored in the sink (SINK mode), as txn_id, epoch, token."""

    def recover(self, last: PreparedTxn) -> None:
        """Apply a prepared transaction again that may not have been applied before a crash."""
        self.commit(last.txn_id, last.epoch, last.state)

    def sweep(self, txn_id_done: int) -> None:
        """Remove what dead attempts and older epochs left behind. Comes once, after `recover`;
        everything up to this transaction is visible.
        """


AnySink: TypeAlias = "Sink[Any] | TransactionalSink[Any]"
"""Either kind of sink."""
