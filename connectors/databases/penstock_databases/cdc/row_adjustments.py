"""What Debezium's keys change of the rows of a change stream, on their way out: operations that are
left out, columns that are left out, and other types for decimals, bytes, dates and times.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import Batch, Op, Pattern
from penstock_databases.cdc.rows import KEY, RESERVED
from penstock_databases.cdc.time_precision import time_field, time_schema, typed_time

OPERATIONS: Final = ("c", "u", "d", "t", "none")
DECIMALS: Final = ("precise", "string", "double")
BINARIES: Final = ("bytes", "base64", "base64-url-safe", "hex")

_OPS: Final = {
    "c": frozenset({Op.CREATE}),
    "u": frozenset({Op.UPDATE, Op.PATCH}),
    "d": frozenset({Op.DELETE}),
    "t": frozenset({Op.TRUNCATE}),
}
_OP: Final = "__op"
_BEFORE: Final = "__before"

_ENCODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "base64": lambda value: base64.b64encode(value).decode(),
    "base64-url-safe": lambda value: base64.urlsafe_b64encode(value).decode(),
    "hex": bytes.hex,
}


@dataclass(frozen=True)
class RowAdjustments:
    """The rules. Keys of rows are never left out.

    Attributes:
        prefix: What datasets have before the name of their table.
        skipped: Of `OPERATIONS`. A row that may be new or changed goes only with both.
        included: Patterns of `database.table.column` that are given; none: all.
        excluded: Patterns of those that are not.
        decimals: One of `DECIMALS`.
        binaries: One of `BINARIES`.
        times: One of `time_precision.MODES`; empty: dates and times have types of their own.
        digits: Digits of fractions of seconds of columns that do not say how many.
    """

    prefix: str = ""
    skipped: Sequence[str] = ()
    included: Sequence[Pattern] = ()
    excluded: Sequence[Pattern] = ()
    decimals: str = DECIMALS[0]
    binaries: str = BINARIES[0]
    times: str = ""
    digits: int = 6

    def apply(self, batch: Batch) -> Batch:
        """Return a batch by these rules. Its offset stays, also when no row is left."""
        rows = batch.rows
        if not isinstance(rows, pa.RecordBatch) or _OP not in rows.schema.names:
            return batch
        table = batch.dataset.removeprefix(f"{self.prefix}.") if self.prefix else batch.dataset
        if "." not in table or KEY in rows.schema.names:  # rows about tables, not of one
            return batch
        adjusted = self._columns(self._operations(rows), table, frozenset(batch.key_columns))
        return batch if adjusted is rows else replace(batch, rows=adjusted)

    @property
    def skipped_ops(self) -> frozenset[int]:
        """The `__op` of rows that are left out."""
        gone = {int(op) for name in self.skipped if name in _OPS for op in _OPS[name]}
        if {int(Op.CREATE), int(Op.UPDATE)} <= gone:
            gone.add(int(Op.UPSERT))
        return frozenset(gone)

    def _operations(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        gone = self.skipped_ops
        if not gone:
            return rows
        ops = rows.column(_OP)
        skipped = pc.is_in(ops, value_set=pa.array(sorted(gone), ops.type))
        return rows.filter(pc.invert(skipped)) if pc.any(skipped).as_py() else rows

    def _columns(self, rows: pa.RecordBatch, table: str, keys: frozenset[str]) -> pa.RecordBatch:
        names = [
            name for name in rows.schema.names if self._is_given(f"{table}.{name}", name, keys)
        ]
        fields, columns = [], []
        for name in names:
            column = rows.column(name)
            if name == _BEFORE and pa.types.is_struct(column.type):
                column = self._before(column, table, keys)
                fields.append(rows.schema.field(name).with_type(column.type))
            else:
                field, column = self._values(column, rows.schema.field(name))
                fields.append(field)
            columns.append(column)
        schema = pa.schema(fields, rows.schema.metadata)
        if schema.equals(rows.schema, check_metadata=True):
            return rows
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _before(self, column: pa.StructArray, table: str, keys: frozenset[str]) -> pa.StructArray:
        kept = [
            self._values(values, field)
            for field, values in zip(column.type, column.flatten(), strict=True)
            if self._is_given(f"{table}.{field.name}", field.name, keys)
        ]
        return pa.StructArray.from_arrays(
            [values for _, values in kept],
            fields=[field for field, _ in kept],
            mask=column.is_null(),
        )

    def _is_given(self, path: str, name: str, keys: frozenset[str]) -> bool:
        if name in keys or name in RESERVED:
            return True
        if self.included and not any(one.matches(path) for one in self.included):
            return False
        return not any(one.matches(path) for one in self.excluded)

    def _values(self, column: pa.Array, field: pa.Field) -> tuple[pa.Field, pa.Array]:
        """Return a column as it is given, and its field."""
        kind = column.type
        if pa.types.is_list(kind):
            adjusted = self._lists(column)
        elif self.decimals != DECIMALS[0] and pa.types.is_decimal(kind):
            adjusted = column.cast(pa.string() if self.decimals == "string" else pa.float64())
        elif self.binaries in _ENCODERS and _is_bytes(kind):
            encode = _ENCODERS[self.binaries]
            texts = [None if value is None else encode(value) for value in column.to_pylist()]
            adjusted = pa.array(texts, pa.string())
        elif self.times and time_schema(field, self.times, self.digits):
            adjusted = typed_time(column, field, self.times, self.digits)
            return time_field(field, adjusted.type, self.times, self.digits), adjusted
        else:
            adjusted = column
        same = adjusted.type == kind
        return (field if same else pa.field(field.name, adjusted.type)), adjusted

    def _lists(self, column: pa.ListArray) -> pa.ListArray:
        items = column.flatten()
        field, adjusted = self._values(items, column.type.value_field)
        if adjusted is items and field is column.type.value_field:
            return column
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        ends = pc.cumulative_sum(lengths)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        return pa.ListArray.from_arrays(offsets, adjusted, mask=column.is_null())


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
