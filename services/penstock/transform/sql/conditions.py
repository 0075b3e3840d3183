"""Conditions computed by Arrow with exactly Spark's results.

A mask is three-valued like SQL: true, false, null. Differences between Arrow and Spark are handled
here: NaN is equal to itself and larger than every number; `%` has the sign of the dividend.
Conditions that compare different kinds (numbers with texts, integers with fractions) do not fit and
are left to Spark, whose casts depend on its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.transform.column_kernel import Operand
from penstock.transform.row import Row

Value: TypeAlias = "bool | int | float | str"

_COMPARE: Final[Mapping[str, Callable[..., Any]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Condition(Protocol):
    """A node of a condition. Picklable."""

    def columns(self) -> Iterator[str]:
        """Return the columns that it reads."""

    def fits(self, row: Row) -> bool:
        """Whether Arrow gives the same result as Spark for columns of these types."""

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return true, false or null for each row."""


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE or FALSE."""

    value: bool

    def columns(self) -> Iterator[str]:
        """Return no columns."""
        return iter(())

    def fits(self, row: Row) -> bool:
        """True for all columns."""
        return True

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the constant for every row."""
        return pa.repeat(pa.scalar(self.value), batch.num_rows)


@dataclass(frozen=True, slots=True)
class BooleanColumn:
    """A boolean column."""

    column: str

    def columns(self) -> Iterator[str]:
        """Read the column."""
        yield self.column

    def fits(self, row: Row) -> bool:
        """True for a boolean column."""
        type_ = row.type_of(self.column)
        return type_ is not None and pa.types.is_boolean(type_)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values of the column."""
        return batch.column(self.column)


@dataclass(frozen=True, slots=True)
class Compare:
    """An operand, or its remainder by a positive number, compared with a literal."""

    of: Operand
    op: str
    value: Value
    modulo: int | None = None

    def columns(self) -> Iterator[str]:
        """Read its column."""
        yield self.of.column

    def fits(self, row: Row) -> bool:
        """True for a literal of the same kind as the column."""
        type_ = self.of.type_in(row)
        if self.modulo is not None and not (_is_int(type_) and 0 < self.modulo < 1 << 31):
            return False
        if isinstance(self.value, bool):
            return type_ is not None and pa.types.is_boolean(type_) and self.op in ("=", "!=")
        return _comparable(type_, self.value)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the result of the comparison."""
        column = self.of.array(batch)
        result = _COMPARE[self.op](self._operand(column), _scalar(self.value, column.type))
        if pa.types.is_floating(column.type) and self.op in (">", ">="):
            # In Spark NaN is larger than every number; in IEEE 754 it is not.
            return pc.or_(result, pc.is_nan(column))
        return result

    def _operand(self, column: pa.Array) -> pa.Array:
        if self.modulo is None:
            return column
        whole = pc.cast(column, pa.int64())
        divisor = pa.scalar(self.modulo, pa.int64())
        # Arrow divides towards zero as Java does, so the remainder has the sign of the dividend.
        return pc.subtract(whole, pc.multiply(pc.divide(whole, divisor), divisor))


@dataclass(frozen=True, slots=True)
class In:
    """An operand in a list of literals without null."""

    of: Operand
    values: tuple[Value, ...]

    def columns(self) -> Iterator[str]:
        """Read its column."""
        yield self.of.column

    def fits(self, row: Row) -> bool:
        """True for integers and texts. Not for fractions: Spark distinguishes -0.0 and 0.0 in long
        lists.
        """
        type_ = self.of.type_in(row)
        whole = _is_int(type_) and not any(isinstance(v, bool) for v in self.values)
        return (whole or _is_text(type_)) and all(_comparable(type_, v) for v in self.values)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return whether the value is in the list; null for null, so that NOT IN drops it."""
        column = self.of.array(batch)
        type_ = column.type if _is_text(column.type) else pa.int64()
        found = pc.is_in(pc.cast(column, type_), value_set=pa.array(self.values, type_))
        return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))


@dataclass(frozen=True, slots=True)
class Like:
    """A text that matches a pattern of `%`, `_` and plain characters."""

    of: Operand
    pattern: str

    def columns(self) -> Iterator[str]:
        """Read its column."""
        yield self.of.column

    def fits(self, row: Row) -> bool:
        """True for texts."""
        return _is_text(self.of.type_in(row))

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return whether the text matches."""
        return pc.match_like(self.of.array(batch), self.pattern)


@dataclass(frozen=True, slots=True)
class IsNull:
    """An operand that is null. NaN is not."""

    of: Operand

    def columns(self) -> Iterator[str]:
        """Read its column."""
        yield self.of.column

    def fits(self, row: Row) -> bool:
        """True for types whose nulls are in the array's own validity bitmap."""
        type_ = self.of.type_in(row)
        return type_ is not None and not (
            pa.types.is_dictionary(type_) or pa.types.is_union(type_) or _is_extension(type_)
        )

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return whether the value is null."""
        return pc.is_null(self.of.array(batch))


@dataclass(frozen=True, slots=True)
class Not:
    """NOT; null stays null."""

    of: Condition

    def columns(self) -> Iterator[str]:
        """Read what is in it."""
        return self.of.columns()

    def fits(self, row: Row) -> bool:
        """True when the inner condition fits."""
        return self.of.fits(row)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the negation."""
        return pc.invert(self.of.mask(batch))


@dataclass(frozen=True, slots=True)
class AndOr:
    """Conditions joined by AND (`every`) or OR, in SQL's three-valued (Kleene) logic."""

    every: bool
    of: tuple[Condition, ...]

    def columns(self) -> Iterator[str]:
        """Read what is in it."""
        for condition in self.of:
            yield from condition.columns()

    def fits(self, row: Row) -> bool:
        """True when all inner conditions fit."""
        return all(condition.fits(row) for condition in self.of)

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the joined masks."""
        join = pc.and_kleene if self.every else pc.or_kleene
        first, *rest = (condition.mask(batch) for condition in self.of)
        for mask in rest:
            first = join(first, mask)
        return first


def _is_int(type_: pa.DataType | None) -> bool:
    return type_ is not None and pa.types.is_signed_integer(type_)


def _is_text(type_: pa.DataType | None) -> bool:
    return type_ is not None and (pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _is_extension(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.BaseExtensionType)


def _comparable(type_: pa.DataType | None, value: Value) -> bool:
    """Whether a literal has the kind of a column. False for float32: Spark's cast of the literal
    depends on its settings.
    """
    match value:
        case bool():
            return False
        case int():
            return _is_int(type_) or (type_ is not None and pa.types.is_float64(type_))
        case float():
            return type_ is not None and pa.types.is_float64(type_)
    return _is_text(type_)


def _scalar(value: Value, type_: pa.DataType) -> pa.Scalar:
    match value:
        case int() if not isinstance(value, bool) and not pa.types.is_floating(type_):
            return pa.scalar(value, pa.int64())  # Arrow widens a narrower column
        case int() if not isinstance(value, bool):
            return pa.scalar(float(value), type_)
    return pa.scalar(value, type_)
