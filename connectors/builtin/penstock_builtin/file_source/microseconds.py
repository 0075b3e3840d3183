"""Times of Parquet and Avro files in microseconds: what is finer is found, never lost unseen.

Engine and sinks have microseconds. A time with a part behind them rejects its row, or is cut where
the configuration says so. Times of the day that are no time of a day reject their row, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.file_source.chunk import Chunk, excerpt
from penstock_builtin.file_source.contents import Content
from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.text import BadRows, Decoded
from penstock_builtin.jsontext import json_lines
from penstock_builtin.nested import is_list, list_items, map_entries
from penstock_connector import DataError

_NANOS: Final = 1_000
"""Nanoseconds of a microsecond."""

_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""A day in each unit."""

Flags = npt.NDArray[np.bool_]


class MicrosecondContent:
    """Rows of a file, their times in microseconds."""

    def __init__(self, inner: Content, path: str, keys: ReadingKeys) -> None:
        self._inner, self._path = inner, path
        self._cut = keys.nanoseconds == "truncate"
        self._tolerant = keys.invalid_rows == "dead-letter"

    @property
    def ended(self) -> bool:
        """Nothing is left of the file as it was opened."""
        return self._inner.ended

    def next(self) -> Chunk | Decoded | None:
        """Return the next rows."""
        piece = self._inner.next()
        if not isinstance(piece, Decoded) or not any(map(_has_times, piece.rows.schema.types)):
            return piece
        rows, bad = self._rejected(piece.rows)
        return Decoded(_in_microseconds(rows), [*piece.bad, *bad])

    def offset(self) -> dict[str, Any]:
        """Return where it stands."""
        return self._inner.offset()

    def last_words(self) -> Chunk | None:
        """Return a last line without a newline."""
        return self._inner.last_words()

    def _rejected(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, BadRows]:
        """Return the rows whose times can be told, and the others."""
        names, columns = rows.schema.names, rows.columns
        flags = {n: _unfit(c, cut=self._cut) for n, c in zip(names, columns, strict=True)}
        unfit = np.logical_or.reduce(list(flags.values()))
        if not unfit.any():
            return rows, []
        places = np.flatnonzero(unfit)
        if not self._tolerant:
            places = places[:1]
        texts = json_lines(rows.take(pa.array(places))).to_pylist()
        begin = self._inner.offset()["row"] - rows.num_rows
        bad: BadRows = []
        for at, text in zip(places, texts, strict=True):
            column = next(name for name, flag in flags.items() if flag[at])
            error = self._error(begin + int(at) + 1, column, rows.schema.field(column), text)
            if not self._tolerant:
                raise error
            bad.append((text.encode(), error))
        return rows.filter(pa.array(~unfit)), bad

    def _error(self, row: int, column: str, field: pa.Field, text: str) -> DataError:
        return DataError(
            "file.inexact_time",
            f"{self._path}, row {row}: column {column!r} ({field.type}) has a time that is finer "
            f"than a microsecond, or no time of a day: {excerpt(text.encode())}",
            fix="Set `nanoseconds` to `truncate` to cut such times, or `invalid.rows` to "
            "`dead-letter` to go on without these rows.",
            config_path="nanoseconds",
        )


def _has_times(kind: pa.DataType) -> bool:
    """Return whether a type has times of the day, or nanoseconds, at any depth."""
    if pa.types.is_time(kind) or getattr(kind, "unit", "") == "ns":
        return True
    return any(_has_times(kind.field(at).type) for at in range(kind.num_fields))


def _unfit(column: pa.Array, *, cut: bool) -> Flags:
    """Return for each value whether it, or a part of it, cannot be told in microseconds."""
    kind = column.type
    if not _has_times(kind):
        return np.zeros(len(column), np.bool_)
    if pa.types.is_struct(kind):
        unfit: Flags = np.logical_or.reduce([_unfit(one, cut=cut) for one in column.flatten()])
        return unfit
    if pa.types.is_map(kind):
        offsets, keys, values = map_entries(column)
        return _of_lists(column, offsets, _unfit(keys, cut=cut) | _unfit(values, cut=cut))
    if is_list(kind):
        offsets, items = list_items(column)
        return _of_lists(column, offsets, _unfit(items, cut=cut))
    return _unfit_times(column, cut=cut)


def _unfit_times(column: pa.Array, *, cut: bool) -> Flags:
    stored = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
    numbers = column.cast(stored).fill_null(0).to_numpy(zero_copy_only=False)
    unfit: Flags = np.zeros(len(column), np.bool_)
    if column.type.unit == "ns" and not cut:
        unfit = numbers % _NANOS != 0
    if pa.types.is_time(column.type):
        unfit = unfit | (numbers < 0) | (numbers >= _DAY[column.type.unit])
    return unfit


def _of_lists(column: pa.Array, offsets: npt.NDArray[Any], flags: Flags) -> Flags:
    before = np.concatenate(([0], np.cumsum(flags)))
    some: Flags = before[offsets[1:]] > before[offsets[:-1]]
    some &= column.is_valid().to_numpy(zero_copy_only=False)
    return some


def _in_microseconds(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_floored(column) for column in rows.columns]
    fields = [field.with_type(column.type)
              for field, column in zip(rows.schema, columns, strict=True)]  # fmt: skip
    return pa.record_batch(columns, schema=pa.schema(fields))


def _floored(column: pa.Array) -> pa.Array:
    """Return nanoseconds as the microseconds in which they lie, at any depth."""
    kind = column.type
    if not _has_nanoseconds(kind):
        return column
    if pa.types.is_struct(kind):
        children = [_floored(child) for child in column.flatten()]
        fields = _retyped(kind, [child.type for child in children])
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
    if pa.types.is_map(kind):
        offsets, keys, values = map_entries(column)
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()), _floored(keys), _floored(values), mask=column.is_null()
        )
    if is_list(kind):
        offsets, items = list_items(column)
        type_, make = (
            (pa.int64(), pa.LargeListArray) if pa.types.is_large_list(kind)
            else (pa.int32(), pa.ListArray)
        )  # fmt: skip
        return make.from_arrays(pa.array(offsets, type_), _floored(items), mask=column.is_null())
    return _floored_times(column)


def _floored_times(column: pa.Array) -> pa.Array:
    numbers = column.cast(pa.int64())
    toward_zero = pc.divide(numbers, _NANOS)
    above = pc.less(numbers, pc.multiply(toward_zero, _NANOS)).cast(pa.int64())
    return pc.subtract(toward_zero, above).cast(_in_us(column.type))


def _in_us(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.time64("us") if pa.types.is_time(kind) else pa.duration("us")


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if getattr(kind, "unit", "") == "ns":
        return True
    return any(_has_nanoseconds(kind.field(at).type) for at in range(kind.num_fields))


def _retyped(kind: pa.DataType, types: Sequence[pa.DataType]) -> list[pa.Field]:
    return [child.with_type(type_) for child, type_ in zip(kind, types, strict=True)]
