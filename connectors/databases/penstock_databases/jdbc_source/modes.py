"""Conditions and orders of the modes, as SQL with values beside it. Pure.

A place among rows in order is a tuple of values; rows after it come next. `after` is exact for
several columns, where each must be compared only among equals of those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Where:
    """A condition and the values of its places."""

    sql: str = ""
    values: tuple[Any, ...] = ()

    def __and__(self, other: Where) -> Where:
        if not self.sql or not other.sql:
            return self if self.sql else other
        return Where(f"{self.sql} AND {other.sql}", self.values + other.values)

    def __or__(self, other: Where) -> Where:
        if not self.sql or not other.sql:
            return self if self.sql else other
        return Where(f"{self.sql} OR {other.sql}", self.values + other.values)

    @property
    def inside(self) -> Where:
        """It in brackets."""
        return Where(f"({self.sql})", self.values) if self.sql else self

    @property
    def clause(self) -> str:
        """It as a WHERE clause."""
        return f" WHERE {self.sql}" if self.sql else ""


def compared(sql: str, sign: str, value: Any) -> Where:
    """Return a comparison of an expression with a value."""
    return Where(f"{sql} {sign} %s", (value,))


def after(columns: Sequence[str], values: Sequence[Any]) -> Where:
    """Return the condition of rows after a place.

    `a > 1 OR (a = 1 AND b > 2)`, with `a >= 1 AND` before it: servers find their way into an index
    by that. Row values (`(a, b) > (1, 2)`) say the same, but MariaDB scans the table for them.
    """
    if not columns:
        return Where("1 = 0")
    first, value = columns[0], values[0]
    beyond = compared(first, ">", value)
    if len(columns) == 1:
        return beyond
    among = compared(first, "=", value) & after(columns[1:], values[1:]).inside
    return compared(first, ">=", value) & (beyond | among.inside).inside


def within(column: str, ranges: Sequence[tuple[int, int]]) -> Where:
    """Return the condition of whole numbers in one of some ranges, ends included."""
    found = Where()
    for low, high in ranges:
        if low == high:
            one = compared(column, "=", high)
        else:
            one = (compared(column, ">=", low) & compared(column, "<=", high)).inside
        found = found | one
    return found.inside


def order(columns: Sequence[str]) -> str:
    """Return the ORDER BY clause."""
    return f" ORDER BY {', '.join(columns)}" if columns else ""
