"""Rows of one schema on their way into one table: cast, and rejected one by one. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import ConnectorError, DataError, Op, SchemaError
from penstock_connector.tables.casting import plain
from penstock_connector.tables.changes import Verb, is_change, split_key_changes
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.config import TableKeys
from penstock_connector.tables.fitting import Cast, Limit, Problem, exact_cast, fit
from penstock_connector.tables.mapping import BEFORE, OP, ColumnMapping

Rejected = list[tuple[int, ConnectorError]]
"""Rows of a batch that the table cannot take, and why."""

_MAX_CHARS: Final = 60
"""Characters of a value that names a row."""

_PLAIN: Final = re.compile(r"[\w.+:@/…-]+")

_SPECIAL: Final = (Op.UPDATE, Op.DELETE, Op.TRUNCATE)
"""Changes that are not simply written where deletions are wanted."""


@dataclass(frozen=True, slots=True)
class RoutedColumn:
    """One column's way.

    Attributes:
        path: Names of a column of the rows, and of a field in it; none: the dataset's name.
        column: The table's column.
        limit: What it can hold.
        key: Rows are found by it.
    """

    path: tuple[str, ...]
    column: Column
    limit: Limit
    key: bool


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows as the table takes them.

    Attributes:
        count: How many.
        columns: The values of `Route.columns`.
        ops: Their `__op`; None: all are written.
    """

    count: int
    columns: tuple[pa.Array, ...]
    ops: pa.Array | None

    def batch(self, *, with_ops: bool) -> pa.RecordBatch:
        """Return them as one batch: columns `c0`, `c1`, …, with `op` behind them when wanted."""
        columns = [*self.columns]
        names = [f"c{number}" for number in range(len(columns))]
        if with_ops:
            ops = pa.nulls(self.count, pa.int8()) if self.ops is None else self.ops
            columns.append(ops.cast(pa.int8()))
            names.append("op")
        return pa.RecordBatch.from_arrays(columns, names)


class Route:
    """Where rows of a dataset and a schema go. Used by several threads at once; never changes.

    Attributes:
        config: The keys of the sink.
        table: The table.
        key: The columns by which rows are found.
        columns: All columns that the rows have, the key's first.
        finds_rows: Rows are looked for by their key, so that it cannot be null.
    """

    def __init__(
        self,
        config: TableKeys,
        dataset: str,
        shape: Shape,
        mapping: ColumnMapping,
        limit: Callable[[Column], Limit],
        cast: Cast | None = None,
        *,
        fix: Callable[[RoutedColumn, Problem], str] | None = None,
        skip_deletes: bool = False,
    ) -> None:
        """Look whether the columns can hold the rows at all.

        Args:
            config: The keys of the sink.
            dataset: The dataset.
            shape: The table and its columns.
            mapping: What of the rows is written.
            limit: Returns what a column can hold.
            cast: Returns values as a column's type; exactly, where it is not given.
            fix: Returns what makes a rejected value pass; empty: nothing special.
            skip_deletes: Without `delete.enabled`, pass deletions over; else they are rejected.

        Raises:
            SchemaError: `incompatible`: a column can hold no value of its field.
        """
        self.config, self.table = config, shape.table
        self._dataset, self._fix, self._skip_deletes = dataset, fix, skip_deletes
        self._cast = cast or exact_cast("UTC")
        columns = []
        for mapped in mapping.all:
            column = shape.find(mapped.field.name)
            if column is None or column.generated:  # made by the database from other columns
                continue
            limited = limit(column)
            self._check_type(mapped.field, column, limited)
            columns.append(RoutedColumn(mapped.path, column, limited, mapped in mapping.key))
        self.columns = tuple(columns)
        self.key = tuple(one for one in columns if one.key)
        self._identity = self.key or tuple(one for one in columns if one.column.key)
        changes = config.verb is not Verb.INSERT or config.delete_enabled
        self.finds_rows = bool(mapping.key) and changes

    def _check_type(self, field: pa.Field, column: Column, limit: Limit) -> None:
        try:
            fit(pa.nulls(0, field.type), limit, self._cast)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, KeyError) as error:
            raise SchemaError(
                self.config.code("incompatible"),
                f"{self.table}: column {column.name!r} is {limit.native}, rows have {field.type}",
                fix="Cast the field with a transform, or change the column.",
            ) from error

    def fit(self, rows: pa.RecordBatch) -> tuple[Rejected, FittedRows]:
        """Return the rows that cannot be written and why, and the others as the table takes them.

        With `delete.enabled` an update that changed the key is two rows: the deletion of the row
        that it was stands before it.
        """
        rejected: dict[int, ConnectorError] = {}
        ops = rows.column(OP) if OP in rows.schema.names else None
        numbers = None
        if ops is not None:
            unwanted = self._unwanted(ops, rejected)
            if pc.any(unwanted).as_py():
                kept = pc.invert(unwanted)
                numbers = pc.indices_nonzero(kept)
                rows, ops = rows.filter(kept), ops.filter(kept)
            if not self.config.delete_enabled or not pc.any(is_change(ops, *_SPECIAL)).as_py():
                ops = None
        columns, good = self._fitted(rows, ops, rejected, numbers)
        if good is not None:
            rows = rows.filter(good)
            columns = [values.filter(good) for values in columns]
            ops = None if ops is None else ops.filter(good)
        if ops is not None:
            columns, ops = self._with_key_changes(rows, ops, columns)
        count = rows.num_rows if ops is None else len(ops)
        return sorted(rejected.items()), FittedRows(count, tuple(columns), ops)

    # ── changes ──────────────────────────────────────────────────────────────────────────────────

    def _unwanted(self, ops: pa.Array, rejected: dict[int, ConnectorError]) -> pa.BooleanArray:
        """Return which changes are not written, whatever their values are."""
        unwanted = is_change(ops, Op.PATCH)
        self._reject(rejected, unwanted, None, self._patch)
        if not self.config.delete_enabled:
            deletions = is_change(ops, Op.DELETE, Op.TRUNCATE)
            if not self._skip_deletes:
                self._reject(rejected, deletions, None, self._deletion)
            unwanted = pc.or_(unwanted, deletions)
        return unwanted

    def _with_key_changes(
        self, rows: pa.RecordBatch, ops: pa.Array, columns: list[pa.Array]
    ) -> tuple[list[pa.Array], pa.Array]:
        before = self._keys_before(rows)
        split = split_key_changes(ops, columns[: len(before)], before) if before else None
        if split is None:
            return columns, ops
        both, keys, origin = split
        return [*keys, *(values.take(origin) for values in columns[len(keys) :])], both

    def _keys_before(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the keys that rows had before their change; none: they do not tell."""
        found = []
        for column in self.key:
            old = _before(rows, column.path[-1]) if column.path else None
            if old is None:
                return []
            found.append(fit(old, column.limit, self._cast)[0])
        return found

    # ── values ───────────────────────────────────────────────────────────────────────────────────

    def _fitted(
        self,
        rows: pa.RecordBatch,
        ops: pa.Array | None,
        rejected: dict[int, ConnectorError],
        numbers: pa.Array | None,
    ) -> tuple[list[pa.Array], pa.BooleanArray | None]:
        """Return the columns of the table, and which rows have a place in it; None: all."""
        fitted, bad = [], None
        found: list[tuple[RoutedColumn, Problem, pa.BooleanArray]] = []
        deleted = None if ops is None else is_change(ops, Op.DELETE)
        for column in self.columns:
            values, problems = fit(self._values(column, rows, deleted), column.limit, self._cast)
            fitted.append(values)
            if column.key and self.finds_rows and values.null_count:
                keyless = Problem(pc.is_null(values), "is null, and it is of the key")
                problems = [*problems, keyless]
            for problem in problems:
                wrong = pc.fill_null(problem.rows, False)
                if ops is not None:
                    spared = (Op.TRUNCATE,) if column.key else (Op.TRUNCATE, Op.DELETE)
                    wrong = pc.and_not(wrong, is_change(ops, *spared))
                found.append((column, problem, wrong))
                bad = wrong if bad is None else pc.or_(bad, wrong)
        keys = [fitted[self.columns.index(column)] for column in self._identity]
        for column, problem, wrong in found:
            for at in pc.indices_nonzero(wrong).to_pylist():
                row = at if numbers is None else numbers[at].as_py()
                if row not in rejected:
                    rejected[row] = self._value(column, problem, self._row_key(keys, at))
        return fitted, pc.invert(bad) if bad is not None and pc.any(bad).as_py() else None

    def _values(
        self, column: RoutedColumn, rows: pa.RecordBatch, deleted: pa.Array | None
    ) -> pa.Array:
        if not column.path:
            return pa.repeat(pa.scalar(self._dataset, pa.string()), rows.num_rows)
        values = _at(rows, column.path)
        if column.key and deleted is not None and len(column.path) == 1:
            before = _before(rows, column.path[0])
            if before is not None:  # a deletion may tell its key only as that of the row before
                values = pc.if_else(deleted, pc.coalesce(values, before), values)
        return values

    # ── rejections ───────────────────────────────────────────────────────────────────────────────

    @staticmethod
    def _reject(
        rejected: dict[int, ConnectorError],
        mask: pa.BooleanArray,
        numbers: pa.Array | None,
        error: ConnectorError,
    ) -> None:
        rows = pc.indices_nonzero(mask)
        for row in (rows if numbers is None else numbers.take(rows)).to_pylist():
            rejected.setdefault(row, error)

    def _row_key(self, keys: Sequence[pa.Array], at: int) -> str:
        """Return what names a row: its key; empty where the table has none."""
        names = (column.column.name for column in self._identity)
        values = (format_value(values[at].as_py()) for values in keys)
        return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))

    def _value(self, column: RoutedColumn, problem: Problem, key: str) -> ConnectorError:
        special = self._fix(column, problem) if self._fix is not None else ""
        of = f" of the row {key}" if key else ""
        return DataError(
            self.config.code("value"),
            f"{self.table}: the value of {column.column.name!r}{of} {problem.why}",
            fix=special or "Change the column, or the rows with a transform.",
            dataset=self._dataset,
        )

    @property
    def _deletion(self) -> ConnectorError:
        return DataError(
            self.config.code("delete_disabled"),
            f"{self.table}: a deletion arrived, and `delete.enabled` is false",
            fix="Set `delete.enabled=true`, or leave deletions out with the transform Filter.",
            dataset=self._dataset,
        )

    @property
    def _patch(self) -> ConnectorError:
        return DataError(
            self.config.code("patch"),
            f"{self.table}: a change of some columns only arrived, which would empty the others",
            fix="Send whole rows, or leave such changes out with the transform Filter.",
            dataset=self._dataset,
        )


def format_value(value: object) -> str:
    """Return a value of a key for people: cut, and in quotes where its end could not be seen."""
    text = "null" if value is None else str(value)
    cut = text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
    return cut if _PLAIN.fullmatch(cut) else repr(cut)


def _at(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    values = plain(rows.column(path[0]))
    for name in path[1:]:
        values = pc.struct_field(values, name)
    return values


def _before(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a field of the row before the change; None when rows do not tell."""
    if BEFORE not in rows.schema.names:
        return None
    kind = rows.schema.field(BEFORE).type
    known = pa.types.is_struct(kind) and kind.get_field_index(name) >= 0
    return pc.struct_field(rows.column(BEFORE), name) if known else None
