"""Rows of a driver's result as Arrow columns, exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock_databases.cells import typed, unfit

if TYPE_CHECKING:
    from penstock_databases.java.connection import JavaConnection

_ROWS: Final = 8192
_FINE: Final = re.compile(r"(\.\d{6})(?!0+$)\d+$")
"""Digits of a time beyond its microseconds that are not all zero."""

_Getter = Callable[[int], Any]


def read(
    connection: JavaConnection, result: Any, fields: Sequence[pa.Field]
) -> Iterator[pa.RecordBatch]:
    """Stream the rows of a result whose columns are these."""
    schema = pa.schema(fields)
    getters = [_getter(connection.bridge, result, field.type) for field in fields]
    step = result.next
    columns: list[list[Any]] = [[] for _ in fields]
    takes = [
        (n, get, cells.append)
        for n, (get, cells) in enumerate(zip(getters, columns, strict=True), 1)
    ]
    count = 0
    while step():
        for place, get, take in takes:
            take(get(place))
        count += 1
        if count == _ROWS:
            yield _batch(connection, columns, schema)
            for cells in columns:
                cells.clear()
            count = 0
    if count:
        yield _batch(connection, columns, schema)


def _batch(
    connection: JavaConnection, columns: list[list[Any]], schema: pa.Schema
) -> pa.RecordBatch:
    odd = connection.target.zero_dates
    arrays = [
        _array(cells, field, "fail" if field.name in connection.compared else odd)
        for cells, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(cells: list[Any], field: pa.Field, odd: str) -> pa.Array:
    kind = field.type
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        return pa.array(cells, kind)
    if pa.types.is_timestamp(kind):
        cells = [text if text is None else _to_micros(text, field, odd) for text in cells]
    return typed(pa.array(cells, pa.string()), field, odd)


def _to_micros(text: str, field: pa.Field, odd: str) -> str | None:
    """Return a time with six digits of its second at most; Spark's times have no more."""
    if not _FINE.search(text):
        return text.rstrip("0") if len(text.partition(".")[2]) > 6 else text
    if odd == "fail":
        raise unfit(field)
    return _FINE.sub(r"\1", text) if odd == "round" else None


def _getter(bridge: Any, result: Any, kind: pa.DataType) -> _Getter:
    """Return what gets a cell: a text that Arrow reads, or the value where a text could differ."""
    was_null = result.wasNull
    if pa.types.is_floating(kind):
        return _or_null(result.getDouble, was_null)
    if pa.types.is_boolean(kind):
        return _or_null(result.getBoolean, was_null)
    if pa.types.is_binary(kind):
        return lambda place: None if (cell := result.getBytes(place)) is None else bytes(cell)
    if pa.types.is_date(kind):
        return lambda place: (
            None if (cell := result.getDate(place)) is None else str(cell.toLocalDate().toString())
        )
    if pa.types.is_timestamp(kind) and kind.tz:
        zoned = bridge.JClass("java.time.OffsetDateTime")
        return lambda place: (
            None
            if (cell := result.getObject(place, zoned)) is None
            else str(cell.toInstant().toString()).removesuffix("Z")
        )
    if pa.types.is_timestamp(kind):
        return lambda place: (
            None
            if (cell := result.getTimestamp(place)) is None
            else str(cell.toLocalDateTime().toString())
        )
    return result.getString  # type: ignore[no-any-return] # a method of Java's


def _or_null(get: _Getter, was_null: Callable[[], bool]) -> _Getter:
    def cell(place: int) -> Any:
        value = get(place)
        return None if was_null() else value

    return cell
