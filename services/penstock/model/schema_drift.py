"""Schema drift: what happens when rows have other columns than their target. Pure.

The target is the topic, table or folder that a dataset is written to. The policy decides which
changes are requested of the target. For the others the rows are fitted to the target: columns that
it lacks are dropped, columns that rows lack are null, and values are cast if every value fits.
Nothing is truncated, rounded or replaced (D7: nothing is coerced silently).

| policy | new column | column gone | wider type | other type |
|---|---|---|---|---|
| `fail` | error | error | error | error |
| `evolve` | requested | null | requested | requested |
| `try_evolve` | requested, else dropped | null | requested, else cast | requested, else cast |
| `lenient` | requested, else dropped | null | requested, else cast | cast |
| `ignore` | dropped | null | cast | cast |
| `dead-letter` | dead letter | dead letter | dead letter | dead letter |

No policy removes a column from a target: its readers may still need what rows have lost. The names
are those of Flink CDC's `schema.change.behavior`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.types as is_kind

from penstock.model.columns import is_reserved
from penstock.model.drift_policy import ChangeKind, DriftPolicy, DriftRules
from penstock.model.errors import DataError, Diagnostic, SchemaError
from penstock.model.step import ROW, RejectedRow

_REQUESTED: Final[Mapping[DriftPolicy, frozenset[ChangeKind]]] = {
    DriftPolicy.FAIL: frozenset(),
    DriftPolicy.EVOLVE: frozenset({ChangeKind.ADD, ChangeKind.WIDEN, ChangeKind.CHANGE}),
    DriftPolicy.TRY_EVOLVE: frozenset({ChangeKind.ADD, ChangeKind.WIDEN, ChangeKind.CHANGE}),
    DriftPolicy.LENIENT: frozenset({ChangeKind.ADD, ChangeKind.WIDEN}),
    DriftPolicy.IGNORE: frozenset(),
    DriftPolicy.DEAD_LETTER: frozenset(),
}
_REFUSING: Final = frozenset({DriftPolicy.FAIL, DriftPolicy.DEAD_LETTER})
_LENIENT: Final = frozenset({DriftPolicy.TRY_EVOLVE, DriftPolicy.LENIENT})
"""Policies that go on when the target refuses a request: with new columns alone, or with none."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A difference in one column. `before` is the type in the target, `after` that of rows; None
    where the column does not exist.
    """

    kind: ChangeKind
    column: str
    before: pa.DataType | None
    after: pa.DataType | None

    def __str__(self) -> str:
        if self.before is None:
            return f"`{self.column}` {self.after} is new"
        if self.after is None:
            return f"`{self.column}` {self.before} is missing in the rows"
        return f"`{self.column}` is {self.before}, rows have {self.after}"


def compare_schemas(target: pa.Schema, rows: pa.Schema) -> tuple[ColumnChange, ...]:
    """Return the differences in the order of the target's columns, new columns last. A target may
    lack the reserved columns of rows, and have others: whether a row is a deleted one is never a
    matter of policies.
    """
    found = []
    for field in target:
        n = rows.get_field_index(field.name)
        after = rows.field(n).type if n >= 0 else None
        if after is None and is_reserved(field.name):
            continue
        if after is None:
            found.append(ColumnChange(ChangeKind.DROP, field.name, field.type, None))
        elif not can_hold(field.type, after):
            kind = ChangeKind.WIDEN if can_hold(after, field.type) else ChangeKind.CHANGE
            found.append(ColumnChange(kind, field.name, field.type, after))
    known = frozenset(target.names)
    new = [field for field in rows if field.name not in known and not is_reserved(field.name)]
    return (*found, *(ColumnChange(ChangeKind.ADD, field.name, None, field.type) for field in new))


def list_schema_requests(
    target: pa.Schema, rows: pa.Schema, rules: DriftRules, dataset: str
) -> tuple[pa.Schema, ...]:
    """Return the schemas to request of a target, the best first; each next one if it refuses.

    Raises:
        SchemaError: `schema.changed`: the policy is `fail` or `dead-letter`, and something changed.
    """
    found = compare_schemas(target, rows)
    concerned = [change for change in found if change.kind in rules.kinds]
    if rules.policy in _REFUSING and concerned:
        raise SchemaError(
            "schema.changed",
            f"the columns of {dataset} changed: {'; '.join(map(str, concerned))}",
            fix="Change the target by hand, or set `schema.evolution` to evolve or lenient.",
            config_path="schema.evolution",
            dataset=dataset,
        )
    kinds = _REQUESTED[rules.policy]
    best = [change.column for change in concerned if change.kind in kinds]
    if rules.policy not in _LENIENT:
        return (_requested_schema(target, rows, found, best),)
    additions = [change.column for change in concerned if change.kind in kinds & {ChangeKind.ADD}]
    requests = [
        _requested_schema(target, rows, found, columns) for columns in (best, additions, ())
    ]
    return tuple(schema for n, schema in enumerate(requests) if schema not in requests[:n])


def _requested_schema(
    target: pa.Schema,
    rows: pa.Schema,
    found: tuple[ColumnChange, ...],
    requested: Collection[str],
) -> pa.Schema:
    """Return the columns of rows, in their order, with the changes of `requested` columns alone."""
    kinds = {change.column: change.kind for change in found}
    fields = []
    for field in rows:
        kind = kinds.get(field.name)
        if kind is None or field.name in requested:
            fields.append(field)
        elif kind is not ChangeKind.ADD:
            fields.append(field.with_type(target.field(field.name).type))
    return pa.schema(fields)


def can_hold(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether a column of type `wide` can hold every value of type `narrow` unchanged."""
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
class FitKernel:
    """An Arrow kernel that casts rows to a schema and drops other columns. It can be pickled."""

    schema: pa.Schema
    dataset: str

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the schema, cast.

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
                f"column `{field.name}` of {self.dataset} is {field.type} in the target, "
                f"and a {column.type} value of the rows does not fit",
                fix="Widen the column in the target, or cast it with a transform.",
                dataset=self.dataset,
            ) from None


@dataclass(frozen=True, slots=True)
class RejectAllKernel:
    """An Arrow kernel that rejects all rows: their columns are not those of the target, and the
    policy is `dead-letter`. The remaining batch, without rows, has the target's schema.
    """

    schema: pa.Schema
    reason: Diagnostic

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return no rows."""
        return _empty_batch(self.schema)

    def split_rejected(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RejectedRow]]:
        """Return no rows, and all rows as rejected."""
        numbers = rows.column(ROW)
        accepted = _empty_batch(self.schema).append_column(ROW, numbers.slice(0, 0))
        return accepted, [(number, self.reason) for number in numbers.to_pylist()]


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def make_fit_kernel(rows: pa.Schema, target_schema: pa.Schema, dataset: str) -> FitKernel | None:
    """Return the kernel that casts rows to a schema; None when they have it already.

    Raises:
        SchemaError: `schema.cannot_fit`: there is no cast to the type of a column of the target.
    """
    if rows.equals(target_schema):
        return None
    kernel = FitKernel(target_schema, dataset)
    try:
        kernel(pa.RecordBatch.from_pylist([], schema=rows))
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(
            "schema.cannot_fit",
            f"rows of {dataset} cannot be cast to the columns of the target: {error}",
            fix="Cast the column with a transform, or set `schema.evolution` to evolve.",
            config_path="schema.evolution",
            dataset=dataset,
        ) from None
    return kernel
