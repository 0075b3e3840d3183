"""Times of the day in columns: Arrow holds some that no day has. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kind

_DAY_US: Final = 86_400_000_000


def parts(type_: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and those that it is made of, at every depth."""
    yield type_
    for n in range(type_.num_fields):
        yield from parts(type_.field(n).type)


def refuse_times_of_no_day(column: pa.Array) -> None:
    """Refuse what Arrow would write as `<value out of range: -1>`.

    Args:
        column: Its times of the day, at any depth, are of microseconds.

    Raises:
        pa.ArrowInvalid: one of them is beyond the 24 hours.
    """
    type_ = column.type
    if not any(kind.is_time(part) for part in parts(type_)):
        return
    if kind.is_time(type_):
        ends = pc.min_max(column.cast(pa.int64())).as_py()
        if (ends["min"] or 0) < 0 or (ends["max"] or 0) >= _DAY_US:
            raise pa.ArrowInvalid("a time of the day is beyond its 24 hours")
    elif kind.is_map(type_):
        refuse_times_of_no_day(column.keys)
        refuse_times_of_no_day(column.items)
    else:
        for inner in column.flatten() if kind.is_struct(type_) else [column.flatten()]:
            refuse_times_of_no_day(inner)
