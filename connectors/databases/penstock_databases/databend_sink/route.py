"""Rows of one schema on their way into one table: cast, and refused one by one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import ConnectorError, DataError, Op, SchemaError
from penstock_databases.changes import is_change
from penstock_databases.databend_sink.fitting import Problem, fit
from penstock_databases.databend_sink.keys import OP, Place, Places
from penstock_databases.dialect import Column, Shape
from penstock_databases.names import TableId

Refused = list[tuple[int, ConnectorError]]

_CHANGES: Final = (Op.DELETE, Op.TRUNCATE)


@dataclass(frozen=True, slots=True)
class Lane:
    """One column's way: where it is in rows, and what it is in the table."""

    path: tuple[str, ...]
    column: Column


@dataclass(frozen=True, slots=True)
class Route:
    """Where rows of a schema go.

    Attributes:
        table: The table.
        key: The columns by which a row is found.
        others: The other columns that rows bring.
        deletes: Deletions are wanted.
    """

    table: TableId
    key: tuple[Lane, ...]
    others: tuple[Lane, ...]
    deletes: bool

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """All columns, in the order in which they are staged."""
        return self.key + self.others

    def taken(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Refused]:
        """Return rows as they are staged, columns `c0`, `c1`, …, and those that are not taken.

        With `deletes` there is a last column `op`. A deletion has its key only.
        """
        ops = rows.column(OP) if OP in rows.schema.names else None
        problems = [] if ops is None else self._unwanted(ops)
        gone = None if ops is None else is_change(ops, *_CHANGES)
        has_gone = gone is not None and bool(pc.any(gone).as_py())
        columns = []
        for number, lane in enumerate(self.lanes):
            values = _values(rows, lane.path)
            is_key = number < len(self.key)
            if has_gone:
                without = is_change(ops, Op.TRUNCATE) if is_key else gone
                values = pc.if_else(without, pa.scalar(None, values.type), values)
            values, found = fit(values, lane.column)
            problems += [(mask, f"column {lane.column.name!r} {why}") for mask, why in found]
            problems += _nulls(values, lane.column, ops if has_gone else None, is_key=is_key)
            columns.append(values)
        if self.deletes:
            columns.append(pa.nulls(rows.num_rows, pa.int8()) if ops is None else ops)
        names = [f"c{number}" for number in range(len(self.lanes))] + ["op"] * self.deletes
        staged = pa.RecordBatch.from_arrays(columns, names)
        return _without(staged, problems, self.table)

    def _unwanted(self, ops: pa.Array) -> list[Problem]:
        problems = [(is_change(ops, Op.PATCH), "is a change of some columns only")]
        if not self.deletes:
            problems.append((is_change(ops, *_CHANGES), _DELETION))
        return [(mask, why) for mask, why in problems if pc.any(mask).as_py()]


_DELETION: Final = "is a deletion, and `delete.enabled` is false"

_FIXES: Final = {
    _DELETION: "Set `delete.enabled=true`, or leave deletions out by the transform Filter.",
}
_FIX: Final = "Correct the row at its source, or cast the column by a transform."


def route(table: TableId, shape: Shape, wanted: Places, *, deletes: bool) -> Route:
    """Return the way of rows into a table that has their columns.

    Raises:
        SchemaError: `databend.column_type`: a column's values can never be the table's.
    """
    key = tuple(_lane(place, shape) for place in wanted.key)
    return Route(table, key, tuple(_lane(place, shape) for place in wanted.others), deletes)


def _lane(place: Place, shape: Shape) -> Lane:
    column = shape.find(place.field.name)
    assert column is not None  # noqa: S101 - `evolve` added it
    try:
        fit(pa.nulls(0, place.field.type), column)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise SchemaError(
            "databend.column_type",
            f"{shape.table}: column {column.name!r} is {column.native}, rows have "
            f"{place.field.type}",
            fix="Cast the column by a transform, or write to another table.",
        ) from None
    return Lane(place.path, column)


def _values(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    name, *inside = path
    values = rows.column(name)
    return pc.struct_field(values, inside) if inside else values


def _nulls(
    values: pa.Array, column: Column, ops: pa.Array | None, *, is_key: bool
) -> list[Problem]:
    """Return the rows whose null is in the way: a null key finds no row, and is found by none."""
    if not values.null_count or (column.nullable and not is_key):
        return []
    missing = pc.is_null(values)
    if ops is not None:
        kinds = (Op.TRUNCATE,) if is_key else _CHANGES
        missing = pc.and_(missing, pc.invert(is_change(ops, *kinds)))
    if not pc.any(missing).as_py():
        return []
    return [(missing, f"column {column.name!r} is null, and it is of the key" if is_key
             else f"column {column.name!r} is null, and the table takes none")]  # fmt: skip


def _without(
    staged: pa.RecordBatch, problems: Sequence[Problem], table: TableId
) -> tuple[pa.RecordBatch, Refused]:
    if not problems:
        return staged, []
    refused: dict[int, str] = {}
    for mask, why in problems:
        for row in pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist():
            refused.setdefault(row, why)
    kept = pa.array([row not in refused for row in range(staged.num_rows)], pa.bool_())
    return staged.filter(kept), [
        (row, DataError("databend.row", f"{table}: {why}", fix=_FIXES.get(why, _FIX)))
        for row, why in sorted(refused.items())
    ]
