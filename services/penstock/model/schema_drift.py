"""What to do when rows come with other columns than the place they go to has. Pure.

The place is a topic, a table, a folder: whatever a dataset is written to. The policy says which
changes are asked of the place; to the others the rows are fitted: columns that the place has not
are left out, those that rows have not are null, and values are cast where every one of them fits.
Nothing is cut, rounded or replaced on the way (D7: nothing is coerced silently).

| policy | new column | column gone | wider type | other type |
|---|---|---|---|---|
| `fail` | error | error | error | error |
| `evolve` | asked | null | asked | asked |
| `try_evolve` | asked, else left out | null | asked, else cast | asked, else cast |
| `lenient` | asked, else left out | null | asked, else cast | cast |
| `ignore` | left out | null | cast | cast |
| `dead-letter` | letters | letters | letters | letters |

No policy removes a column from a place: what rows lost may still be wanted there. The words are
those of Flink CDC's `schema.change.behavior`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.types as is_kind

from penstock.model.errors import DataError, Diagnostic, SchemaError
from penstock.model.step import ROW, SetApart


class Policy(StrEnum):
    """What happens to a change; see the table above."""

    FAIL = "fail"
    EVOLVE = "evolve"
    TRY_EVOLVE = "try_evolve"
    LENIENT = "lenient"
    IGNORE = "ignore"
    DEAD_LETTER = "dead-letter"


class Kind(StrEnum):
    """A kind of change, between the columns of a place and those of rows."""

    ADD = "add.column"
    DROP = "drop.column"
    WIDEN = "widen.column"
    CHANGE = "change.column"


_ASKED: Final[Mapping[Policy, frozenset[Kind]]] = {
    Policy.FAIL: frozenset(),
    Policy.EVOLVE: frozenset({Kind.ADD, Kind.WIDEN, Kind.CHANGE}),
    Policy.TRY_EVOLVE: frozenset({Kind.ADD, Kind.WIDEN, Kind.CHANGE}),
    Policy.LENIENT: frozenset({Kind.ADD, Kind.WIDEN}),
    Policy.IGNORE: frozenset(),
    Policy.DEAD_LETTER: frozenset(),
}
_REFUSES: Final = frozenset({Policy.FAIL, Policy.DEAD_LETTER})
_GIVES_IN: Final = frozenset({Policy.TRY_EVOLVE, Policy.LENIENT})
"""Policies that go on where the place refuses: with its new columns alone, or with what it has."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference in one column. `before` is the place's type, `after` that of rows; None where
    there is no such column.
    """

    kind: Kind
    column: str
    before: pa.DataType | None
    after: pa.DataType | None

    def __str__(self) -> str:
        if self.before is None:
            return f"`{self.column}` {self.after} is new"
        if self.after is None:
            return f"`{self.column}` {self.before} is gone"
        return f"`{self.column}` is {self.before}, rows have {self.after}"


@dataclass(frozen=True, slots=True)
class DriftRules:
    """A policy, and the kinds of changes that it is for; the others are ignored.

    Attributes:
        policy: What happens.
        kinds: The kinds it is for.
    """

    policy: Policy = Policy.EVOLVE
    kinds: frozenset[Kind] = frozenset(Kind)

    @property
    def asks_everything(self) -> bool:
        """Whether rows go to the place as they are, and it is the one to refuse them."""
        return self.policy is Policy.EVOLVE and self.kinds == frozenset(Kind)


def changes(place: pa.Schema, rows: pa.Schema) -> tuple[Change, ...]:
    """Return what differs, in the order of the place's columns, new ones last."""
    found = []
    for field in place:
        n = rows.get_field_index(field.name)
        after = rows.field(n).type if n >= 0 else None
        if after is None:
            found.append(Change(Kind.DROP, field.name, field.type, None))
        elif not holds(field.type, after):
            kind = Kind.WIDEN if holds(after, field.type) else Kind.CHANGE
            found.append(Change(kind, field.name, field.type, after))
    new = [field for field in rows if place.get_field_index(field.name) < 0]
    return (*found, *(Change(Kind.ADD, field.name, None, field.type) for field in new))


def wishes(
    place: pa.Schema, rows: pa.Schema, rules: DriftRules, dataset: str
) -> tuple[pa.Schema, ...]:
    """Return the schemas to ask a place for, the best first; the next one only when it refuses.

    Raises:
        SchemaError: `schema.changed`: the policy is `fail` or `dead-letter`, and something changed.
    """
    found = changes(place, rows)
    concerned = [change for change in found if change.kind in rules.kinds]
    if rules.policy in _REFUSES and concerned:
        raise SchemaError(
            "schema.changed",
            f"rows of {dataset} changed: {'; '.join(map(str, concerned))}",
            fix="Change the place by hand, or set `schema.evolution` to evolve or lenient.",
            config_path="schema.evolution",
            dataset=dataset,
        )
    kinds = _ASKED[rules.policy]
    best = [change.column for change in concerned if change.kind in kinds]
    if rules.policy not in _GIVES_IN:
        return (_asked_for(place, rows, found, best),)
    additions = [change.column for change in concerned if change.kind in kinds & {Kind.ADD}]
    asked = [_asked_for(place, rows, found, columns) for columns in (best, additions, ())]
    return tuple(schema for n, schema in enumerate(asked) if schema not in asked[:n])


def _asked_for(
    place: pa.Schema,
    rows: pa.Schema,
    found: tuple[Change, ...],
    asked: Collection[str],
) -> pa.Schema:
    """Return the rows' columns, in the rows' order, as they are to arrive."""
    kinds = {change.column: change.kind for change in found}
    fields = []
    for field in rows:
        kind = kinds.get(field.name)
        if kind is None or field.name in asked:
            fields.append(field)
        elif kind is not Kind.ADD:
            fields.append(field.with_type(place.field(field.name).type))
    return pa.schema(fields)


def holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Tell whether a column of one type has room for every value of the other, unchanged."""
    if wide.equals(narrow):
        return True
    if is_kind.is_integer(narrow):
        return _holds_integers(wide, narrow)
    if is_kind.is_floating(narrow):
        return bool(is_kind.is_floating(wide) and wide.bit_width >= narrow.bit_width)
    if is_kind.is_decimal(narrow) and is_kind.is_decimal(wide):
        before_point = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return bool(before_point and wide.scale >= narrow.scale)
    if is_kind.is_timestamp(narrow) and is_kind.is_timestamp(wide):
        return bool(wide.tz == narrow.tz and _UNITS.index(wide.unit) >= _UNITS.index(narrow.unit))
    return bool(wide in _TWINS.get(narrow, ()))


_UNITS: Final = ("s", "ms", "us", "ns")
_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}
"""Decimal digits of whole numbers, by their bits."""

_TWINS: Final = {
    pa.string(): (pa.large_string(),),
    pa.large_string(): (pa.string(),),
    pa.binary(): (pa.large_binary(),),
    pa.large_binary(): (pa.binary(),),
    pa.date32(): (pa.date64(),),
}


def _holds_integers(wide: pa.DataType, narrow: pa.DataType) -> bool:
    if is_kind.is_decimal(wide):
        return bool(wide.precision - wide.scale >= _DIGITS[narrow.bit_width])
    if not is_kind.is_integer(wide):
        return False
    unsigned = is_kind.is_unsigned_integer(narrow)
    if is_kind.is_unsigned_integer(wide):
        return bool(unsigned and wide.bit_width >= narrow.bit_width)
    return bool(wide.bit_width >= narrow.bit_width + unsigned)


@dataclass(frozen=True, slots=True)
class Fit:
    """An Arrow kernel that brings rows to a schema; see `pa.RecordBatch`. It can be pickled."""

    schema: pa.Schema
    dataset: str

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows' columns of the schema, cast.

        Raises:
            DataError: `schema.value_does_not_fit`.
        """
        columns = [self._column(rows, field) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
        column = rows.column(field.name)
        try:
            return column.cast(field.type)
        except pa.ArrowInvalid:
            raise DataError(
                "schema.value_does_not_fit",
                f"column `{field.name}` of {self.dataset} is {field.type} where rows go, "
                f"and a {column.type} of theirs does not fit",
                fix="Widen the column there, or cast it with a transform.",
                dataset=self.dataset,
            ) from None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An Arrow kernel that sets all rows apart: their columns are not those of the place, and the
    policy has letters for them. What is left has the place's schema.
    """

    schema: pa.Schema
    reason: Diagnostic

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return no rows."""
        del rows
        return _none(self.schema)

    def attempt(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[SetApart]]:
        """Return no rows, and all of them by their number."""
        numbers = rows.column(ROW)
        left = _none(self.schema).append_column(ROW, numbers.slice(0, 0))
        return left, [(number, self.reason) for number in numbers.to_pylist()]


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def fit(rows: pa.Schema, wanted: pa.Schema, dataset: str) -> Fit | None:
    """Return what brings rows to a schema; None when they have it.

    Raises:
        SchemaError: `schema.cannot_fit`: no value of a column can become one of the place's type.
    """
    if rows.equals(wanted):
        return None
    kernel = Fit(wanted, dataset)
    try:
        kernel(pa.RecordBatch.from_pylist([], schema=rows))
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            "schema.cannot_fit",
            f"rows of {dataset} cannot be brought to what is there: {error}",
            fix="Cast the column with a transform, or let `schema.evolution` ask for the change.",
            config_path="schema.evolution",
            dataset=dataset,
        ) from None
    return kernel
