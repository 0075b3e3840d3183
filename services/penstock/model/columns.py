"""The reserved columns of a row (protocol rule R20). All of them are optional; every other column
is the row.

`__op` int8 (see `Op`) · `__ts_us` int64, microseconds since the epoch · `__key` the key, any type ·
`__before` struct, the row before an update · `__headers` map<string, binary> · `__offset` binary,
the source's offset ·
`__raw_key`, `__raw_value` binary, bytes that a converter is to decode.

`__partition` int32 is there inside of a chain only, with `__offset` int64: where a row stands in
the topic that it is read from. They are given where the chain asks for them, and end with it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

OP: Final = "__op"
TS_US: Final = "__ts_us"
KEY: Final = "__key"
BEFORE: Final = "__before"
HEADERS: Final = "__headers"
OFFSET: Final = "__offset"
RAW_KEY: Final = "__raw_key"
RAW_VALUE: Final = "__raw_value"

PARTITION: Final = "__partition"

RESERVED: Final = frozenset(
    {OP, TS_US, KEY, BEFORE, HEADERS, OFFSET, RAW_KEY, RAW_VALUE, PARTITION}
)


class Op(IntEnum):
    """The change a row stands for. Numbers equal penstock.api.record.v1.Op."""

    UNSPECIFIED = 0
    CREATE = 1
    UPDATE = 2
    DELETE = 3
    SNAPSHOT = 4
    UPSERT = 5
    PATCH = 6
    TRUNCATE = 7


def is_reserved(name: str) -> bool:
    """Tell whether a column is metadata and not part of the row."""
    return name in RESERVED
