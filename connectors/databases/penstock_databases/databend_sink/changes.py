"""What a transaction's inserts, updates, deletes and truncations come to in one table. Pure.

Within a transaction the order of changes is the order of rows. What is left does not depend on an
order any more: whether the table is emptied, the keys to delete, then the rows to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import Op

_ROW: Final = "row"
_END: Final = "end"


@dataclass(frozen=True, slots=True)
class Effect:
    """What is left, as numbers of rows, in their order.

    Attributes:
        truncate: The table is emptied first.
        delete: Rows whose keys are deleted then; each key once.
        write: Rows that are written last; None: all.
    """

    truncate: bool = False
    delete: pa.Array | None = None
    write: pa.Array | None = None


def is_change(ops: pa.Array, *kinds: Op) -> pa.BooleanArray:
    """Return which rows are changes of some kinds. A row that does not tell is written."""
    wanted = pa.array([int(kind) for kind in kinds], ops.type)
    return pc.fill_null(pc.is_in(ops, wanted), False)


def effect(ops: pa.Array | None, keys: Sequence[pa.Array], *, merge: bool) -> Effect:
    """Return what rows come to.

    Args:
        ops: Their `__op`; None: all are written.
        keys: Their keys; none: rows have no key.
        merge: Of the rows of a key only the last one is written.
    """
    changed = None if ops is None else is_change(ops, Op.DELETE, Op.TRUNCATE)
    if ops is None or not pc.any(changed).as_py():
        return Effect(write=_last(keys, None) if merge and keys else None)
    truncated = pc.indices_nonzero(is_change(ops, Op.TRUNCATE)).to_pylist()
    start = truncated[-1] + 1 if truncated else 0  # what came before is gone with the table's rows
    rows = pa.array(range(start, len(ops)), pa.int64())
    deletes = is_change(ops, Op.DELETE).take(rows)
    gone, written = rows.filter(deletes), rows.filter(pc.invert(deletes))
    if len(gone):
        gone = _last(keys, gone)
        written = _after(keys, written, gone)
    if merge:
        written = _last(keys, written)
    return Effect(bool(truncated), gone, written)


def _last(keys: Sequence[pa.Array], rows: pa.Array | None) -> pa.Array | None:
    """Return the last row of each key, in the order of rows; None for all of all rows."""
    grouped = _grouped(keys, rows)
    if rows is None and grouped.num_rows == len(keys[0]):
        return None
    return _ordered(grouped.column(f"{_ROW}_max"))


def _after(keys: Sequence[pa.Array], rows: pa.Array, ends: pa.Array) -> pa.Array:
    """Return the rows that come after the row in `ends` that has their key, or have none there."""
    names = [f"k{number}" for number in range(len(keys))]
    left = pa.table([*(key.take(rows) for key in keys), rows], [*names, _ROW])
    right = pa.table([*(key.take(ends) for key in keys), ends], [*names, _END])
    joined = left.join(right, names, use_threads=False)
    return _ordered(joined.filter(pc.greater(joined[_ROW], pc.fill_null(joined[_END], -1)))[_ROW])


def _grouped(keys: Sequence[pa.Array], rows: pa.Array | None) -> pa.Table:
    if rows is None:
        rows = pa.array(range(len(keys[0])), pa.int64())
    else:
        keys = [key.take(rows) for key in keys]
    names = [f"k{number}" for number in range(len(keys))]
    table = pa.table([*keys, rows], [*names, _ROW])
    return table.group_by(names, use_threads=False).aggregate([(_ROW, "max")])


def _ordered(numbers: pa.ChunkedArray) -> pa.Array:
    one = numbers.combine_chunks()
    return one.take(pc.array_sort_indices(one))
