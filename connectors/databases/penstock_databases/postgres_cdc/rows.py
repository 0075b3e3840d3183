"""Texts of rows → Arrow batches with the reserved columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from penstock_connector import DataError, Op
from penstock_connector.tables.names import TableId
from penstock_databases.cdc.rows import HEADERS, OP, TS_US, reserved_fields, snapshot_columns
from penstock_databases.postgres_cdc.origins import ChangeOrigin, TableOrigin
from penstock_databases.postgres_cdc.pgoutput import UNSENT
from penstock_databases.postgres_cdc.progress import Order
from penstock_databases.postgresql.values import typed

MISSING: Final = "penstock.missing"
"""Header of a row with large values that the log does not have: their columns, by commas."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """A table's rows as they are given out.

    Attributes:
        oid: The table's number.
        table: Its name.
        dataset: Its dataset.
        fields: Its columns.
        picks: Where they are among the columns of the log; None: all of them, in their order.
        key: Columns that identify a row.
        key_at: Where they are among `fields`.
        given_key: Columns of the key that rows are given with: `key`, unless another is named.
        identity_at: Where the columns of both keys are: an update of one of them moves a row.
        order: How keys compare; None when only the database knows.
        before: Whether updates have the whole row before.
        headers: Whether rows have headers.
        origin: What rows say of where they are from; None: nothing.
    """

    oid: int
    table: TableId
    dataset: str
    fields: tuple[pa.Field, ...]
    picks: tuple[int, ...] | None
    key: tuple[str, ...]
    key_at: tuple[int, ...]
    given_key: tuple[str, ...]
    identity_at: tuple[int, ...]
    order: Order | None = field(compare=False)
    before: bool = False
    headers: bool = False
    origin: TableOrigin | None = None

    def has_types_of(self, other: RowShape) -> bool:
        """Return whether fields say the same of their values, too (`timestamp(3)`, `json`)."""
        pairs = zip(self.fields, other.fields, strict=True)
        return all(one.equals(two, check_metadata=True) for one, two in pairs)

    def logged(self, values: Sequence[Any], places: Sequence[int]) -> tuple[Any, ...]:
        """Return the texts of columns, by their places among `fields`, of all that the log has."""
        if self.picks is None:
            return tuple([values[at] for at in places])
        return tuple([values[self.picks[at]] for at in places])

    def batch(
        self,
        columns: Sequence[pa.Array],
        ops: pa.Array,
        stamps: pa.Array,
        before: Sequence[pa.Array] | None = None,
        has_before: Sequence[bool] = (),
        headers: pa.Array | None = None,
        origins: pa.Array | None = None,
    ) -> pa.RecordBatch:
        """Return rows with their reserved columns. The columns are the same for every batch of a
        table's version: rows that were read have no row before. `origins` are those that `origin`
        makes.
        """
        source = None if self.origin is None else self.origin.kind
        reserved = reserved_fields(
            self.fields, before=self.before, headers=self.headers, source=source
        )
        arrays = [*columns, ops, stamps]
        if self.before:
            arrays.append(_before(pa.struct(self.fields), before, has_before, len(ops)))
        if self.headers:
            arrays.append(pa.nulls(len(ops), HEADERS.type) if headers is None else headers)
        if self.origin is not None:
            arrays.append(origins)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*self.fields, *reserved]))

    def snapshot_batch(
        self, rows: pa.RecordBatch, stamp: int, lsn: int, marks: pa.Array
    ) -> pa.RecordBatch:
        """Return rows that were read at a time, as they were at a place in the log, with their
        marks.
        """
        count, origin = rows.num_rows, self.origin
        origins = None if origin is None else origin.of_snapshot(lsn, marks)
        ops, stamps = snapshot_columns(count, stamp)
        return self.batch(rows.columns, ops, stamps, origins=origins)


def _before(
    kind: pa.DataType, before: Sequence[pa.Array] | None, has: Sequence[bool], count: int
) -> pa.Array:
    if before is None or not any(has):
        return pa.nulls(count, kind)
    mask = pa.array([not one for one in has], pa.bool_())
    return pa.StructArray.from_arrays(list(before), fields=list(kind), mask=mask)


class Group:
    """Changes of one table's version, in their order."""

    def __init__(self, shape: RowShape) -> None:
        self.shape = shape
        self._ops: list[int] = []
        self._stamps: list[int] = []
        self._rows: list[Sequence[bytes | None]] = []
        self._before: list[Sequence[bytes | None] | None] = []
        self._missing: dict[int, str] = {}
        self._origins: list[ChangeOrigin] = []
        self._nothing = (None,) * len(shape.fields)

    def __len__(self) -> int:
        return len(self._ops)

    def add(
        self,
        op: int,
        stamp: int,
        origin: ChangeOrigin,
        row: Sequence[bytes | None],
        before: Sequence[bytes | None] | None = None,
        missing: str = "",
    ) -> None:
        """Add a change."""
        if self.shape.origin is not None:
            self._origins.append(origin)
        if missing:
            self._missing[len(self._ops)] = missing
        self._ops.append(op)
        self._stamps.append(stamp)
        self._rows.append(row)
        if self.shape.before:
            self._before.append(before)

    def truncate(self, stamp: int, origin: ChangeOrigin) -> None:
        """Add that the table was emptied: a row of nothing."""
        self.add(Op.TRUNCATE, stamp, origin, self._nothing)

    def batch(self) -> pa.RecordBatch:
        """Return the changes as a batch."""
        shape = self.shape
        has_before = [row is not None for row in self._before]
        before = None
        if any(has_before):
            before = self._typed([row or self._nothing for row in self._before])
        return shape.batch(
            self._typed(self._rows),
            pa.array(self._ops, OP.type),
            pa.array(self._stamps, TS_US.type),
            before,
            has_before,
            self._headers() if self._missing else None,
            None if shape.origin is None else shape.origin.of_log(self._origins),
        )

    def _typed(self, rows: list[Sequence[bytes | None]]) -> list[pa.Array]:
        return [
            typed(_texts(values, wanted, self.shape.dataset), wanted, self.shape.dataset)
            for wanted, values in zip(self.shape.fields, zip(*rows, strict=True), strict=True)
        ]

    def _headers(self) -> pa.Array:
        rows = [
            [(MISSING, self._missing[at].encode())] if at in self._missing else None
            for at in range(len(self._ops))
        ]
        return pa.array(rows, HEADERS.type)


def _texts(values: Sequence[bytes | None], wanted: pa.Field, dataset: str) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise DataError(
            "sql.value",
            f"{dataset}: column {wanted.name!r} has a text that is not UTF-8",
            fix="Correct the row, or leave the column out.",
            dataset=dataset,
        ) from error


def picked(shape: RowShape, values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of the columns that are given out, of all that the log has."""
    return values if shape.picks is None else [values[at] for at in shape.picks]


def without_unsent(shape: RowShape, row: Sequence[Any], mode: str) -> tuple[Sequence[Any], str]:
    """Return a row with nulls for large values that were not sent, and their names.

    Raises:
        DataError: `cdc.value_not_in_log`: they are not to be null.
    """
    names = [field.name for field, value in zip(shape.fields, row, strict=True) if value is UNSENT]
    if mode == "fail":
        raise DataError(
            "cdc.value_not_in_log",
            f"{shape.dataset}: an update left the large value of {names[0]!r} as it was, and "
            "the log does not have it",
            fix="Run ALTER TABLE … REPLICA IDENTITY FULL for it, or set toast.missing=null.",
            dataset=shape.dataset,
        )
    return [None if value is UNSENT else value for value in row], ",".join(names)
