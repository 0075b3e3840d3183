"""Rows of SQLite as Arrow columns. A cell can hold anything, whatever was declared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from penstock_connector.tables.columns import Column
from penstock_databases.cells import typed, unfit
from penstock_databases.sqlite.connection import SqliteConnection, telling

_ROWS: Final = 8192
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock, as rows have it
_MILLISECONDS: Final = 100_000_000_000
"""From here on a number is milliseconds since 1970, below it is seconds."""


def read(
    connection: SqliteConnection, sql: str, values: Sequence[Any], columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a query."""
    schema = pa.schema([column.field for column in columns])
    odd = connection.target.zero_dates
    with telling(connection.target), contextlib.closing(connection.opened(sql, values)) as cursor:
        while rows := cursor.fetchmany(_ROWS):
            arrays = [
                column_of(list(cells), field, odd)
                for cells, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def column_of(cells: list[Any], field: pa.Field, odd: str) -> pa.Array:
    """Return cells as values of a field."""
    kind = field.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            array = pa.array(cells)  # inferred: a typed conversion would cut 1.5 to 1
            if (
                array.type == kind
                or pa.types.is_null(array.type)
                or pa.types.is_integer(array.type)
            ):
                return array.cast(kind)
    convert = next(make for fits, make in _CONVERTERS if fits(kind))
    texts = [None if cell is None else convert(cell, field, odd) for cell in cells]
    if pa.types.is_binary(kind):
        return pa.array(texts, kind)
    return typed(pa.array(texts, pa.string()), field, odd)


def _as_bytes(cell: Any, _field: pa.Field, _odd: str) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode()


def _as_text(cell: Any, field: pa.Field, odd: str) -> str | None:
    if not isinstance(cell, bytes):
        return str(cell)
    try:
        return cell.decode()
    except UnicodeDecodeError:
        if odd == "fail":
            raise unfit(field) from None
        return None


def _as_number(cell: Any, field: pa.Field, odd: str) -> str | None:
    """Return the text of a number: `1.50`, 1.5 and 1 are all numbers."""
    text = _as_text(cell, field, odd)
    if isinstance(cell, float) and cell.is_integer() and pa.types.is_integer(field.type):
        return str(int(cell))
    if text is None or not pa.types.is_decimal(field.type):
        return text
    try:
        return str(Decimal(text.strip()))
    except InvalidOperation:
        return text


def _as_flag(cell: Any, field: pa.Field, odd: str) -> str | None:
    text = _as_text(cell, field, odd)
    return None if text is None else _FLAGS.get(text.strip().lower(), text)


def _as_time(cell: Any, field: pa.Field, odd: str) -> str | None:
    """Return the text of a time without its zone: of a text, or of a number since 1970."""
    if isinstance(cell, int | float):
        seconds = cell / 1000 if abs(cell) >= _MILLISECONDS else cell
        try:
            at = _EPOCH + timedelta(seconds=seconds)
        except OverflowError:
            return str(cell)
        return at.date().isoformat() if pa.types.is_date(field.type) else at.isoformat(" ")
    text = _as_text(cell, field, odd)
    if text is None:
        return None
    try:
        if pa.types.is_date(field.type):
            return date.fromisoformat(text.strip()[:10]).isoformat()
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return text
    return (at.astimezone(UTC) if at.tzinfo else at).replace(tzinfo=None).isoformat(" ")


_FLAGS: Final = {"true": "1", "t": "1", "yes": "1", "false": "0", "f": "0", "no": "0"}
_CONVERTERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[..., Any]], ...]] = (
    (pa.types.is_binary, _as_bytes),
    (pa.types.is_boolean, _as_flag),
    (pa.types.is_temporal, _as_time),
    (pa.types.is_string, _as_text),
    (lambda _: True, _as_number),
)
