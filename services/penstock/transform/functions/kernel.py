"""Calls a function of the user over batches or rows; rows on which it fails are set apart.

What comes out has the declared columns, and the reserved ones that went in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.model import exact
from penstock.model.errors import DataError, Diagnostic, ErrorClass
from penstock.model.step import ROW, SetApart
from penstock.transform.functions.modules import Code, function_of, place, words

Result: TypeAlias = tuple[pa.RecordBatch, list[SetApart]]


class _Wrong(Exception):  # noqa: N818 - becomes a diagnostic
    """The function gave something else than it declares."""


@dataclass(frozen=True, slots=True)
class FunctionKernel:
    """A function with its declared columns. `schema` has the reserved columns, too; `made` names
    those that the function makes.
    """

    path: str
    code: Code
    schema: pa.Schema
    made: frozenset[str]
    by_row: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that come out.

        Raises:
            DataError: the function fails on a row.
        """
        rows, failed = self.attempt(batch)
        if failed:
            first = failed[0][1]
            raise DataError(
                first.code, first.message, fix=first.fix, config_path=self.path, detail=first.detail
            )
        return rows

    def attempt(self, batch: pa.RecordBatch) -> Result:
        """Return the rows that come out, and those on which the function fails."""
        if not batch.num_rows:
            return self._empty(batch), []
        function = function_of(self.code)
        return self._rows(function, batch) if self.by_row else self._halves(function, batch)

    # ── batch by batch ───────────────────────────────────────────────────────────────────────────

    def _halves(self, function: Callable[[Any], Any], batch: pa.RecordBatch) -> Result:
        """Call the function with a batch; when it fails, with its halves, down to the bad rows."""
        given = batch.drop_columns([ROW]) if ROW in batch.schema.names else batch
        try:
            return self._checked(function(given), batch), []
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            if batch.num_rows == 1:
                return self._empty(batch), [(_number(batch, 0), self._reason(error))]
        middle = batch.num_rows // 2
        parts = [self._halves(function, part) for part in (batch[:middle], batch[middle:])]
        rows = pa.Table.from_batches([rows for rows, _ in parts]).combine_chunks().to_batches()
        failed = [one for _, some in parts for one in some]
        return (rows[0] if rows else self._empty(batch)), failed

    def _checked(self, result: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what the function gave, with the declared types."""
        if not isinstance(result, pa.RecordBatch | pa.Table):
            raise _Wrong(f"it gave a {type(result).__name__}, not a RecordBatch or Table")
        other = set(result.schema.names) - set(self.schema.names)
        if other:
            raise _Wrong(f"it gave the column `{min(other)}`, which is not declared")
        same = result.num_rows == batch.num_rows
        arrays = []
        for field in self.schema:
            if field.name in result.schema.names:
                arrays.append(_cast(_whole(result.column(field.name)), field.type))
            elif field.name in self.made or not same:
                raise _Wrong(f"the column `{field.name}` is missing in what it gave")
            else:
                arrays.append(batch.column(field.name))
        return self._numbered(arrays, batch, batch.column(ROW) if same and _has(batch) else None)

    # ── row by row ───────────────────────────────────────────────────────────────────────────────

    def _rows(self, function: Callable[[Any], Any], batch: pa.RecordBatch) -> Result:
        given = batch.drop_columns([ROW]) if _has(batch) else batch
        kept: list[int] = []
        made: list[Mapping[str, Any]] = []
        failed: list[SetApart] = []
        for at, row in enumerate(given.to_pylist()):
            try:
                result = function(row)
                if result is not None:
                    made.append(self._one(result))
                    kept.append(at)
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises
                failed.append((_number(batch, at), self._reason(error)))
        return self._typed(batch, kept, made, failed)

    def _one(self, result: Any) -> Mapping[str, Any]:
        if not isinstance(result, Mapping):
            raise _Wrong(f"it gave a {type(result).__name__}, not a dict or None")
        other = set(result) - set(self.schema.names)
        if other:
            raise _Wrong(f"it gave the column `{min(other, key=str)}`, which is not declared")
        return result

    def _typed(
        self,
        batch: pa.RecordBatch,
        kept: list[int],
        made: list[Mapping[str, Any]],
        failed: list[SetApart],
    ) -> Result:
        """Return rows as columns; those with a value that has no place in its column fail."""
        try:
            arrays = self._arrays(made)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            good: list[int] = []
            for at, row in enumerate(made):
                try:
                    self._arrays([row])
                    good.append(at)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                    failed.append((_number(batch, kept[at]), self._reason(error)))
            kept, made = [kept[at] for at in good], [made[at] for at in good]
            arrays = self._arrays(made)
        taken = batch.take(pa.array(kept, pa.int64()))
        columns = [
            arrays[field.name] if field.name in self.made else taken.column(field.name)
            for field in self.schema
        ]
        numbers = taken.column(ROW) if _has(batch) else None
        return self._numbered(columns, batch, numbers), failed

    def _arrays(self, rows: list[Mapping[str, Any]]) -> dict[str, pa.Array]:
        return {
            field.name: exact.column([row.get(field.name) for row in rows], field.type)
            for field in self.schema
            if field.name in self.made
        }

    # ── both ─────────────────────────────────────────────────────────────────────────────────────

    def _numbered(
        self, arrays: list[pa.Array], batch: pa.RecordBatch, numbers: pa.Array | None
    ) -> pa.RecordBatch:
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if not _has(batch):
            return rows
        if numbers is None:  # other rows came out: nobody can tell which is which
            numbers = pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows)
        return rows.append_column(ROW, numbers)

    def _empty(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [pa.array([], field.type) for field in self.schema]
        return self._numbered(arrays, batch, pa.array([], pa.int64()))

    def _reason(self, error: Exception) -> Diagnostic:
        wrong = isinstance(error, _Wrong | pa.ArrowException) and place(error, self.code) == (
            self.code.file
        )
        return Diagnostic(
            "transform.function_gave" if wrong else "transform.function_failed",
            f"{self.code.function}: {words(error)} ({place(error, self.code)})",
            ErrorClass.DATA,
            fix="Correct the function, its `columns`, or the row.",
            config_path=self.path,
        )


def _has(batch: pa.RecordBatch) -> bool:
    return ROW in batch.schema.names


def _number(batch: pa.RecordBatch, at: int) -> int:
    return int(batch.column(ROW)[at].as_py()) if _has(batch) else -1


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_) and pa.types.is_string(column.type):
        return exact.column(column.to_pylist(), type_)
    return column.cast(type_)
