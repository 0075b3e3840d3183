"""The reserved columns of rows that are changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from penstock_connector import Op

OP: Final = pa.field("__op", pa.int8())
TS_US: Final = pa.field("__ts_us", pa.int64())
BEFORE: Final = "__before"
HEADERS: Final = pa.field("__headers", pa.map_(pa.string(), pa.binary()))
KEY: Final = "__key"
"""The key of a row that is made here, as a struct."""

SOURCE: Final = "__source"
"""Where a change is from, for envelopes. It never leaves the source."""

RESERVED: Final = frozenset({
    OP.name, TS_US.name, BEFORE, HEADERS.name, SOURCE, KEY, "__offset", "__raw_key",
    "__raw_value",
})  # fmt: skip
"""Names that no column of a table can have."""


def reserved_fields(
    fields: Iterable[pa.Field],
    *,
    before: bool,
    headers: bool = False,
    source: pa.DataType | None = None,
) -> list[pa.Field]:
    """Return the fields behind those of a row, in their order.

    Args:
        fields: Those of the row.
        before: There is the row before an update.
        headers: There are headers.
        source: The type of `SOURCE`; None: there is none.
    """
    reserved = [OP, TS_US]
    if before:
        reserved.append(pa.field(BEFORE, pa.struct(list(fields))))
    if headers:
        reserved.append(HEADERS)
    if source is not None:
        reserved.append(pa.field(SOURCE, source))
    return reserved


def snapshot_columns(count: int, stamp: int) -> list[pa.Array]:
    """Return `__op` and `__ts_us` of rows that were read at a time."""
    return [
        pa.repeat(pa.scalar(int(Op.SNAPSHOT), OP.type), count),
        pa.repeat(pa.scalar(stamp, TS_US.type), count),
    ]
