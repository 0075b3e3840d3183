"""Values of messages as runs of one type, and bytes of values as messages: each stays where it was.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock_converters import Encoded, Run, reject
from penstock_converters.ragged import Bools, Ints

_NULL_FIELD: Final = pa.field("value", pa.null())


def without_views(values: pa.Array) -> pa.Array:
    """Return values without views of texts and bytes: Arrow can neither filter nor take them."""
    kind = viewless(values.type)
    return values if kind == values.type else values.cast(kind)


def viewless(kind: pa.DataType) -> pa.DataType:
    """Return a type without views."""
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(viewless(one.type)) for one in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(viewless(kind.value_type)))
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(viewless(kind.item_type))
        return pa.map_(kind.key_field.with_type(viewless(kind.key_type)), item)
    return kind


def to_messages(pieces: pa.Array, values: pa.Array, failed: Mapping[int, str]) -> Encoded:
    """Return the messages of values.

    Args:
        pieces: The bytes of the values that are not null.
        values: The values.
        failed: By the place of a piece, why it is none.
    """
    messages = pieces.cast(pa.binary())
    if not failed and not values.null_count:
        return Encoded(messages)
    absent = np.asarray(values.is_null())
    places = np.cumsum(~absent) - 1
    (rows,) = np.nonzero(~absent)
    rejected = tuple(
        reject(
            int(rows[at]),
            "converter.not_exact",
            f"the value cannot be written: {failed[at]}",
            "Cast or fill the column in a transform.",
        )
        for at in sorted(failed)
    )
    absent[[row for row, _ in rejected]] = True
    return Encoded(messages.take(pa.array(places, mask=absent)), rejected)


class Groups:
    """Values by their type, and where each belongs."""

    def __init__(self, present: Bools) -> None:
        self._present = present
        self._fields: list[pa.Field] = []
        self._columns: list[list[pa.Array]] = []
        self._group = np.full(len(present), -1)
        self._place = np.zeros(len(present), np.int64)

    def add(self, field: pa.Field, rows: Ints, values: pa.Array) -> None:
        """Add the values of some rows."""
        if not len(rows):
            return
        known = [one.equals(field, check_metadata=True) for one in self._fields]
        group = known.index(True) if True in known else len(known)
        if group == len(known):
            self._fields.append(field)
            self._columns.append([])
        self._group[rows] = group
        self._place[rows] = np.arange(len(rows)) + sum(map(len, self._columns[group]))
        self._columns[group].append(values)

    def merge(self) -> None:
        """Make one type of structs that differ in their columns: a row has all columns, null where
        its own type lacks them. Types whose columns contradict each other stay apart.
        """
        if len(self._fields) < 2 or not all(pa.types.is_struct(f.type) for f in self._fields):
            return
        schemas = [pa.schema(list(one.type)) for one in self._fields]
        try:
            unified = pa.unify_schemas(schemas, promote_options="permissive")
            everywhere = set.intersection(*(set(one.names) for one in schemas))
            fields = [
                one.with_nullable(one.nullable or one.name not in everywhere) for one in unified
            ]
            columns = [_widened(pa.concat_arrays(one), fields) for one in self._columns]
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return
        begins = np.cumsum([0, *map(len, columns)])
        known = self._group >= 0
        self._place[known] += begins[self._group[known]]
        self._group[known] = 0
        first = self._fields[0]
        nullable = any(one.nullable for one in self._fields)
        self._fields = [first.with_type(pa.struct(fields)).with_nullable(nullable)]
        self._columns = [columns]

    def runs(self) -> tuple[Run, ...]:
        """Return neighbouring values of one type. A null message has any."""
        count = len(self._present)
        columns = [pa.concat_arrays(c) if len(c) > 1 else c[0] for c in self._columns]
        if len(columns) == 1 and len(columns[0]) == count and _ascends(self._place):
            return (Run(self._fields[0], range(count), columns[0]),)
        (rows,) = np.nonzero((self._group >= 0) | ~self._present)
        if not len(rows):
            return ()
        if not columns:
            return (Run(_NULL_FIELD, rows.tolist(), pa.nulls(len(rows))),)
        groups = _filled(self._group[rows])
        (changes,) = np.nonzero(np.diff(groups))
        return tuple(
            self._run(columns, int(self._group_of(part)), part)
            for part in np.split(rows, changes + 1)
        )

    def _group_of(self, rows: Ints) -> Any:
        groups = self._group[rows]
        return groups[groups >= 0][0]

    def _run(self, columns: Sequence[pa.Array], group: int, rows: Ints) -> Run:
        null = self._group[rows] < 0
        column = columns[group].take(pa.array(self._place[rows], mask=null))
        field = self._fields[group]
        return Run(field.with_nullable(field.nullable or bool(null.any())), rows.tolist(), column)


def _widened(values: pa.Array, fields: Sequence[pa.Field]) -> pa.Array:
    """Return structs with more columns."""
    there = {one.name: at for at, one in enumerate(values.type.fields)}
    columns = [
        values.field(there[one.name]).cast(one.type)
        if one.name in there
        else pa.nulls(len(values), one.type)
        for one in fields
    ]
    return pa.StructArray.from_arrays(columns, fields=list(fields), mask=values.is_null())


def _filled(groups: Ints) -> Ints:
    """Return groups with those of null messages as that before; of the first ones, that behind."""
    known = groups >= 0
    last = np.maximum.accumulate(np.where(known, np.arange(len(groups)), -1))
    return groups[np.where(last < 0, np.argmax(known), last)]


def _ascends(places: Ints) -> bool:
    return bool((places == np.arange(len(places))).all())
