"""`source.snapshot` of rows that are read: which of them are the first and the last. Pure.

| mark | row |
|---|---|
| `first`, `last` | of the snapshot, in the order in which rows are given |
| `first_in_data_collection`, `last_in_data_collection` | of a table |
| `true` | another one |
| `incremental` | of a table that a signal asked for |

Tables are read side by side: the first row of a snapshot may be of another table than Debezium's.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

STREAMED: Final = "false"
"""The mark of changes."""

READ: Final = "true"
INCREMENTAL: Final = "incremental"
FIRST: Final = "first"
LAST: Final = "last"
FIRST_OF_TABLE: Final = "first_in_data_collection"
LAST_OF_TABLE: Final = "last_in_data_collection"


def snapshot_marks(count: int, first: str, last: str) -> pa.Array:
    """Return the marks of rows of a table that are given together.

    Args:
        count: How many.
        first: The mark of the first one: `FIRST`, `FIRST_OF_TABLE` or `READ`.
        last: That of the last one: `LAST`, `LAST_OF_TABLE` or `READ`. A row that is both has the
            one that is of the snapshot, else that of the end.
    """
    if not count:
        return pa.array([], pa.string())
    if count == 1:
        ranked = (LAST, FIRST, LAST_OF_TABLE, FIRST_OF_TABLE, READ)
        return pa.array([min(first, last, key=ranked.index)], pa.string())
    inner = pa.repeat(pa.scalar(READ), count - 2)
    return pa.concat_arrays([pa.array([first]), inner, pa.array([last])])
