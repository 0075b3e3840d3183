"""What inserts, updates, deletes and truncations of a table come to. Pure, and never row by row.

Within a batch or a transaction the order of changes is the order of rows. What is left does not
depend on an order any more: whether the table is emptied first, the keys to delete, then the rows
to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import Op

_ROW: Final = "row"
_END: Final = "end"


class Verb(Enum):
    """What is done with rows."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class Effect:
    """What is left, as numbers of rows, in their order.

    Attributes:
        truncate: The table is emptied first.
        delete: Rows whose keys are deleted then; each key once.
        write: Rows that are written last; None: all.
    """

    truncate: bool
    delete: pa.Array
    write: pa.Array | None


_NONE: Final = pa.nulls(0, pa.int64())  # pa.array would load pandas, in the start of each process


def is_change(ops: pa.Array, *kinds: Op) -> pa.BooleanArray:
    """Return which rows are changes of some kinds. A row that does not tell is written."""
    return pc.fill_null(pc.is_in(ops, pa.array([int(kind) for kind in kinds], ops.type)), False)


def effect(ops: pa.Array | None, keys: Sequence[pa.Array], *, merge: bool) -> Effect:
    """Return what rows come to.

    Args:
        ops: Their `__op`; None: all are written. Only deletes that are wanted are among them.
        keys: Their keys; none: rows have no key.
        merge: Of the rows of a key only the last one is written.
    """
    count = len(keys[0]) if keys else len(ops) if ops is not None else 0
    if ops is None or not pc.any(is_change(ops, Op.DELETE, Op.TRUNCATE)).as_py():
        kept = _last(keys, None) if merge and keys and not unique(keys) else None
        return Effect(truncate=False, delete=_NONE, write=kept)
    truncated = pc.indices_nonzero(is_change(ops, Op.TRUNCATE)).to_pylist()
    start = truncated[-1] + 1 if truncated else 0  # what came before is gone with the table's rows
    rows = pa.array(range(start, count), pa.int64())
    deletes = is_change(ops, Op.DELETE).take(rows)
    gone = rows.filter(deletes)
    written = rows.filter(pc.invert(deletes))
    if len(gone):
        gone = _last(keys, gone)
        written = _after(keys, written, gone)
    if merge and keys:
        written = _last(keys, written)
    return Effect(bool(truncated), gone, written)


def split_key_changes(
    ops: pa.Array, keys: Sequence[pa.Array], before: Sequence[pa.Array]
) -> tuple[pa.Array, list[pa.Array], pa.Array] | None:
    """Put a deletion before each update that changed the key: the row that it was is gone.

    Args:
        ops: The `__op` of rows.
        keys: Their keys.
        before: The keys that they had before.

    Returns:
        Operations, keys, and the number of the row that each comes from; None: no key changed.
    """
    differs = pa.array([False] * len(ops))
    for old, new in zip(before, keys, strict=True):
        differs = pc.or_(differs, pc.fill_null(pc.not_equal(old, new), False))
    changed = pc.indices_nonzero(pc.and_(differs, is_change(ops, Op.UPDATE))).cast(pa.int64())
    if not len(changed):
        return None
    own = pa.array(range(len(ops)), pa.int64())
    places = pa.concat_arrays([pc.multiply(own, 2), pc.subtract(pc.multiply(changed, 2), 1)])
    order = pc.array_sort_indices(places)
    gone = pa.array([int(Op.DELETE)] * len(changed), ops.type)
    both = [
        pa.concat_arrays([new, old.take(changed)]).take(order)
        for old, new in zip(before, keys, strict=True)
    ]
    origin = pa.concat_arrays([own, changed]).take(order)
    return pa.concat_arrays([ops, gone]).take(order), both, origin


def unique(keys: Sequence[pa.Array]) -> bool:
    """Return whether no key comes twice."""
    first = keys[0]
    count = len(first)
    if count < 2:
        return True
    if len(keys) == 1:
        ordered = pa.types.is_integer(first.type) and not first.null_count
        if ordered and pc.all(pc.less(first[:-1], first[1:])).as_py():
            return True
        return bool(pc.count_distinct(first).as_py() == count)
    return bool(_grouped(keys, None).num_rows == count)


def _last(keys: Sequence[pa.Array], rows: pa.Array | None) -> pa.Array:
    """Return the last row of each key, in the order of rows."""
    ends = _grouped(keys, rows).column(f"{_ROW}_max").combine_chunks()
    return ends.take(pc.array_sort_indices(ends))


def _after(keys: Sequence[pa.Array], rows: pa.Array, ends: pa.Array) -> pa.Array:
    """Return the rows that come after the row in `ends` that has their key, or have none there."""
    names = [f"k{number}" for number in range(len(keys))]
    left = pa.table([*(key.take(rows) for key in keys), rows], [*names, _ROW])
    right = pa.table([*(key.take(ends) for key in keys), ends], [*names, _END])
    joined = left.join(right, names, use_threads=False)
    later = pc.greater(joined[_ROW], pc.fill_null(joined[_END], -1))
    kept = joined.filter(later)[_ROW].combine_chunks()
    return kept.take(pc.array_sort_indices(kept))


def _grouped(keys: Sequence[pa.Array], rows: pa.Array | None) -> pa.Table:
    if rows is None:
        rows = pa.array(range(len(keys[0])), pa.int64())
    else:
        keys = [key.take(rows) for key in keys]
    names = [f"k{number}" for number in range(len(keys))]
    table = pa.table([*keys, rows], [*names, _ROW])
    return table.group_by(names, use_threads=False).aggregate([(_ROW, "max")])
