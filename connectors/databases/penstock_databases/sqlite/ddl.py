"""Columns of SQLite for fields of rows, and what a column can hold. Pure.

A column of SQLite holds anything; what is declared decides how values are changed on their way in
(their affinity). Where that would lose digits, the column is TEXT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock_connector.tables.casting import is_binary
from penstock_connector.tables.columns import Column
from penstock_connector.tables.evolution import NewColumn, create_table
from penstock_connector.tables.fitting import DAYS, STAMPS, Limit
from penstock_connector.tables.names import TableId
from penstock_databases.names import SQLITE
from penstock_values.semantic_types import semantic_type

_EXACT_DIGITS: Final = 15
"""Digits of a decimal that survive the REAL that SQLite makes of it."""


def column_type(field: pa.Field, *, key: bool = False) -> str:
    """Return the declared type of a column for a field of rows."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if (semantic_type(field) and pa.types.is_string(kind)) or pa.types.is_uint64(kind):
        return "TEXT"
    if pa.types.is_integer(kind) and key:
        return "INTEGER"  # of a lone key it is the rowid itself
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= _EXACT_DIGITS:
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind) and kind.tz:
        return "TIMESTAMP WITH TIME ZONE"
    return next((name for is_one, name in _OTHERS if is_one(kind)), "TEXT")


_OTHERS: Final = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_duration, "BIGINT"),
    (pa.types.is_floating, "REAL"),
    (pa.types.is_timestamp, "DATETIME"),
    (pa.types.is_date, "DATE"),
    (is_binary, "BLOB"),
)


def create(table: TableId, columns: Sequence[NewColumn]) -> str:
    """Return the statement that makes a table."""
    return create_table(
        table, SQLITE, columns, lambda one: _defined(one) + (" NOT NULL" if one.key else "")
    )


def add(table: TableId, columns: Sequence[NewColumn]) -> list[str]:
    """Return the statements that add columns: SQLite adds one at a time."""
    return [f"ALTER TABLE {table.sql(SQLITE)} ADD COLUMN {_defined(column)}" for column in columns]


def _defined(column: NewColumn) -> str:
    return f"{SQLITE.quoted(column.field.name)} {column_type(column.field, key=column.key)}"


def limit(column: Column) -> Limit:
    """Return what a column can hold; nothing in it is checked by SQLite."""
    native, kind = column.native, column.field.type
    nullable = column.nullable or column.auto
    if pa.types.is_timestamp(kind):
        return Limit(native, kind, nullable, *STAMPS)
    if pa.types.is_date(kind):
        return Limit(native, kind, nullable, *DAYS)
    if pa.types.is_floating(kind):
        return Limit(native, kind, nullable, specials=False)
    if pa.types.is_decimal(kind) and kind.precision > _EXACT_DIGITS:
        narrow = pa.decimal128(_EXACT_DIGITS, min(kind.scale, _EXACT_DIGITS))
        return Limit(native, narrow, nullable)
    return Limit(native, kind, nullable)
