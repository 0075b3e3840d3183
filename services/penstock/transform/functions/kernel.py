"""Calls a function of the user for batches or rows, and rejects the rows on which it fails.

The output has the declared columns, and the reserved columns of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.model.errors import DataError, Diagnostic, ErrorClass
from penstock.model.step import ROW, RejectedRow
from penstock.transform.functions.code import Code, error_location, error_text, import_function
from penstock_values import decimals

Result: TypeAlias = tuple[pa.RecordBatch, list[RejectedRow]]


class _InvalidResultError(Exception):
    """The function returned something else than it declares."""


@dataclass(frozen=True, slots=True)
class FunctionKernel:
    """A function with its declared columns.

    Attributes:
        path: The configuration key of the function.
        code: The text of its file.
        schema: All output columns: declared and reserved ones.
        declared: Names of the columns that the function returns.
        by_row: Whether it is called for rows instead of batches.
    """

    path: str
    code: Code
    schema: pa.Schema
    declared: frozenset[str]
    by_row: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the output rows.

        Raises:
            DataError: the function fails on a row.
        """
        rows, failed = self.split_rejected(batch)
        if failed:
            first = failed[0][1]
            raise DataError(
                first.code, first.message, fix=first.fix, config_path=self.path, detail=first.detail
            )
        return rows

    def split_rejected(self, batch: pa.RecordBatch) -> Result:
        """Return the output rows, and the rows on which the function fails."""
        if not batch.num_rows:
            return self._empty_batch(batch), []
        function = import_function(self.code)
        if self.by_row:
            return self._call_by_row(function, batch)
        return self._call_by_batch(function, batch)

    # ── batch by batch ───────────────────────────────────────────────────────────────────────────

    def _call_by_batch(self, function: Callable[[Any], Any], batch: pa.RecordBatch) -> Result:
        """Call the function with a batch. When it fails, call it with each half, down to single
        rows.
        """
        given = batch.drop_columns([ROW]) if ROW in batch.schema.names else batch
        try:
            return self._check_result(function(given), batch), []
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            if batch.num_rows == 1:
                return self._empty_batch(batch), [(_row_number(batch, 0), self._reason(error))]
        middle = batch.num_rows // 2
        parts = [self._call_by_batch(function, part) for part in (batch[:middle], batch[middle:])]
        rows = pa.Table.from_batches([rows for rows, _ in parts]).combine_chunks().to_batches()
        failed = [one for _, some in parts for one in some]
        return (rows[0] if rows else self._empty_batch(batch)), failed

    def _check_result(self, result: Any, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the result of the function with the declared types."""
        if not isinstance(result, pa.RecordBatch | pa.Table):
            raise _InvalidResultError(
                f"it returned a {type(result).__name__}, not a RecordBatch or Table"
            )
        other = set(result.schema.names) - set(self.schema.names)
        if other:
            raise _InvalidResultError(
                f"it returned the column `{min(other)}`, which is not declared"
            )
        same = result.num_rows == batch.num_rows
        arrays = []
        for field in self.schema:
            if field.name in result.schema.names:
                arrays.append(_cast(_combine_chunks(result.column(field.name)), field.type))
            elif field.name in self.declared or not same:
                raise _InvalidResultError(f"the column `{field.name}` is missing in its result")
            else:
                arrays.append(batch.column(field.name))
        return self._with_row_numbers(
            arrays, batch, batch.column(ROW) if same and _has_row_numbers(batch) else None
        )

    # ── row by row ───────────────────────────────────────────────────────────────────────────────

    def _call_by_row(self, function: Callable[[Any], Any], batch: pa.RecordBatch) -> Result:
        given = batch.drop_columns([ROW]) if _has_row_numbers(batch) else batch
        kept: list[int] = []
        results: list[Mapping[str, Any]] = []
        failed: list[RejectedRow] = []
        for at, row in enumerate(given.to_pylist()):
            try:
                result = function(row)
                if result is not None:
                    results.append(self._check_row(result))
                    kept.append(at)
            except Exception as error:  # noqa: BLE001 - whatever a user's function raises
                failed.append((_row_number(batch, at), self._reason(error)))
        return self._to_columns(batch, kept, results, failed)

    def _check_row(self, result: Any) -> Mapping[str, Any]:
        if not isinstance(result, Mapping):
            raise _InvalidResultError(f"it returned a {type(result).__name__}, not a dict or None")
        other = set(result) - set(self.schema.names)
        if other:
            raise _InvalidResultError(
                f"it returned the column `{min(other, key=str)}`, which is not declared"
            )
        return result

    def _to_columns(
        self,
        batch: pa.RecordBatch,
        kept: list[int],
        results: list[Mapping[str, Any]],
        failed: list[RejectedRow],
    ) -> Result:
        """Convert rows to columns; rows with a value that does not fit its column fail."""
        try:
            arrays = self._make_arrays(results)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            good: list[int] = []
            for at, row in enumerate(results):
                try:
                    self._make_arrays([row])
                    good.append(at)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                    failed.append((_row_number(batch, kept[at]), self._reason(error)))
            kept, results = [kept[at] for at in good], [results[at] for at in good]
            arrays = self._make_arrays(results)
        taken = batch.take(pa.array(kept, pa.int64()))
        columns = [
            arrays[field.name] if field.name in self.declared else taken.column(field.name)
            for field in self.schema
        ]
        numbers = taken.column(ROW) if _has_row_numbers(batch) else None
        return self._with_row_numbers(columns, batch, numbers), failed

    def _make_arrays(self, rows: list[Mapping[str, Any]]) -> dict[str, pa.Array]:
        return {
            field.name: decimals.make_column([row.get(field.name) for row in rows], field.type)
            for field in self.schema
            if field.name in self.declared
        }

    # ── both ─────────────────────────────────────────────────────────────────────────────────────

    def _with_row_numbers(
        self, arrays: list[pa.Array], batch: pa.RecordBatch, numbers: pa.Array | None
    ) -> pa.RecordBatch:
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if not _has_row_numbers(batch):
            return rows
        if numbers is None:  # the number of rows changed: output rows cannot be matched with input
            numbers = pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows)
        return rows.append_column(ROW, numbers)

    def _empty_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [pa.array([], field.type) for field in self.schema]
        return self._with_row_numbers(arrays, batch, pa.array([], pa.int64()))

    def _reason(self, error: Exception) -> Diagnostic:
        wrong = isinstance(error, _InvalidResultError | pa.ArrowException) and error_location(
            error, self.code
        ) == (self.code.file)
        return Diagnostic(
            "transform.function_gave" if wrong else "transform.function_failed",
            f"{self.code.function}: {error_text(error)} ({error_location(error, self.code)})",
            ErrorClass.DATA,
            fix="Correct the function, its `columns`, or the row.",
            config_path=self.path,
        )


def _has_row_numbers(batch: pa.RecordBatch) -> bool:
    return ROW in batch.schema.names


def _row_number(batch: pa.RecordBatch, at: int) -> int:
    return int(batch.column(ROW)[at].as_py()) if _has_row_numbers(batch) else -1


def _combine_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_) and pa.types.is_string(column.type):
        return decimals.make_column(column.to_pylist(), type_)
    return column.cast(type_)
