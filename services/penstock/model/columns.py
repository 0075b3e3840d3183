"""The reserved columns of a row (protocol rule R20). All are optional; all other columns are data.

| column | type | value |
|---|---|---|
| `__op` | int8 | the kind of change, see `Op` |
| `__ts_us` | int64 | time of the row in microseconds since the epoch |
| `__key` | any | the key |
| `__before` | struct | the row before an update |
| `__headers` | map<string, binary> | headers |
| `__offset` | binary, or int64 of a message | the source's offset |
| `__raw_key`, `__raw_value` | binary | bytes for a converter to decode |
| `__partition` | int32 | partition of the topic that the row is read from, or that it goes to |
| `__topic` | string | dataset that the row goes to; null: that of all its rows |

`__topic` exists between a transform that routes single rows and the sink, which does not see it.
Rows of a topic have `__partition`, and the int64 `__offset`, where a transform or the dead letters
need them. Both are dropped behind the chain. Rows of a source connector keep their `__partition`:
it is where they go.
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
TOPIC: Final = "__topic"

RESERVED: Final = frozenset(
    {OP, TS_US, KEY, BEFORE, HEADERS, OFFSET, RAW_KEY, RAW_VALUE, PARTITION, TOPIC}
)


class Op(IntEnum):
    """The change that a row describes. Numbers equal penstock.api.record.v1.Op."""

    UNSPECIFIED = 0
    CREATE = 1
    UPDATE = 2
    DELETE = 3
    SNAPSHOT = 4
    UPSERT = 5
    PATCH = 6
    TRUNCATE = 7


def is_reserved(name: str) -> bool:
    """Whether a column is metadata and not data of the row."""
    return name in RESERVED
