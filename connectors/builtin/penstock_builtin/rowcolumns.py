"""Which columns of a batch are the row, and which ride along; what a row says it stands for."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import Op, SchemaError

RESERVED = "__"
"""How names of columns begin that are about the row and not of it: `__op`, `__ts_us`, `__key`."""

OP: Final = "__op"

_CHANGES: Final = (Op.UPDATE, Op.DELETE, Op.UPSERT, Op.PATCH, Op.TRUNCATE)
"""What is about rows that are there, and would be one row more where rows are only added."""

_WORDS: Final = (None, *(op.name.lower() for op in sorted(Op)[1:]))
"""Operations by their numbers; a row that tells none has none."""


def row_names(schema: pa.Schema, *, reserved: bool) -> list[str]:
    """Return the names of the row's own columns; with `reserved`, of all."""
    return [name for name in schema.names if reserved or not name.startswith(RESERVED)]


def changes(rows: pa.RecordBatch) -> pa.BooleanArray | None:
    """Return which rows change or delete rows that are there; None when none of them does."""
    place = rows.schema.get_field_index(OP)
    if place < 0 or not pa.types.is_integer(rows.schema.field(place).type):
        return None
    ops = rows.column(place)
    found = pc.is_in(ops, pa.array([int(op) for op in _CHANGES], ops.type))
    return found if found.true_count else None


def operation_schema(schema: pa.Schema, name: str) -> pa.Schema:
    """Return a schema with the column that says in words what a row stands for.

    Raises:
        SchemaError: `sink.operation_column`: rows have a column of that name.
    """
    if name in schema.names:
        raise SchemaError(
            "sink.operation_column",
            f"rows have a column {name!r} of their own",
            fix="Give `operation.column` a name that no column of the rows has.",
            config_path="operation.column",
        )
    return schema.append(pa.field(name, pa.string()))


def with_operation(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return rows with the column that says in words what each stands for."""
    place = rows.schema.get_field_index(OP)
    if place < 0:
        words = pa.nulls(rows.num_rows, pa.string())
    else:
        ops = rows.column(place).cast(pa.int64())
        numbers = pa.array(range(len(_WORDS)), pa.int64())
        known = pc.if_else(pc.is_in(ops, numbers), ops, 0)
        words = pa.array(_WORDS, pa.string()).take(known)
    return rows.append_column(pa.field(name, pa.string()), words)
