"""Rows as JSON lines of the protocol, so that `jsonlines.read` with the same schema gives them
back without loss.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind


def written(batch: pa.RecordBatch) -> list[str]:
    """Return each row as a JSON object on one line; nulls are left out."""
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for row, value in zip(rows, _values(column, field.type), strict=True):
            if value is not None:
                row[field.name] = value
    return [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]


def _values(column: pa.Array, type_: pa.DataType) -> list[Any]:
    """Return the values of a column as JSON can have them."""
    if kind.is_temporal(type_) and not kind.is_duration(type_):
        # by Arrow: a datetime of Python ends with the year 9999, and has no nanoseconds
        return list(column.cast(pa.string()).to_pylist())
    if kind.is_duration(type_):
        return list(column.cast(pa.int64()).to_pylist())
    if kind.is_struct(type_):
        return _structs(column, type_)
    if kind.is_map(type_):
        return _maps(column, type_)
    if kind.is_list(type_):
        items = _values(column.flatten(), type_.value_type)
        return _shared_out(column, items)
    plain = next((change for is_one, change in _PLAIN if is_one(type_)), None)
    values = column.to_pylist()
    return values if plain is None else [v if v is None else plain(v) for v in values]


def _structs(column: pa.Array, type_: pa.DataType) -> list[Any]:
    children = [_values(child, type_.field(at).type) for at, child in enumerate(column.flatten())]
    names = [type_.field(at).name for at in range(type_.num_fields)]
    valid = column.is_valid().to_pylist()
    return [
        {n: values[at] for n, values in zip(names, children, strict=True)} if there else None
        for at, there in enumerate(valid)
    ]


def _maps(column: pa.Array, type_: pa.DataType) -> list[Any]:
    pairs = pa.struct([("key", type_.key_type), ("value", type_.item_type)])
    as_list = column.cast(pa.list_(pairs))
    return _shared_out(as_list, _values(as_list.flatten(), pairs))


def _shared_out(column: pa.Array, items: list[Any]) -> list[Any]:
    """Give each list of a column its items back."""
    found, first = list[Any](), 0
    for length in column.value_lengths().to_pylist():
        if length is None:
            found.append(None)
            continue
        found.append(items[first : first + length])
        first += length
    return found


def _number(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"


_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...]] = (
    (kind.is_floating, _number),
    (kind.is_decimal, str),
    (
        lambda t: kind.is_binary(t) or kind.is_large_binary(t),
        lambda v: base64.b64encode(v).decode(),
    ),
)
