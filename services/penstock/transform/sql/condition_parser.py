"""Parses conditions and operands that Arrow can compute; all others are left to Spark.

    condition := test | NOT condition | condition AND|OR condition | ( condition )
    test      := operand [% number] =|<>|<|<=|>|>= literal | operand IS [NOT] NULL
               | operand [NOT] IN (…) | operand [NOT] LIKE text | operand [NOT] BETWEEN … AND …
               | boolean column | TRUE | FALSE
    operand   := column | UPPER ( column ) | LENGTH ( column ) | SUBSTRING ( column , n , n )

There is no `lower`: for a capital sigma at the end of a word, the result depends on character
tables that differ between Unicode versions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.transform.column_kernel import Copy, Length, Operand, Slice, Upper
from penstock.transform.row import Row
from penstock.transform.sql.conditions import (
    AndOr,
    BooleanColumn,
    Compare,
    Condition,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Value,
)
from penstock.transform.sql.tokens import Token, TokenKind, tokenize

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_LENGTH: Final = (1 << 31) - 1
_WORDS: Final = """
    ALL AND ANY ARRAY BETWEEN CASE CAST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP
    CURRENT_USER DATE DISTINCT ELSE END EXISTS EXTRACT FALSE ILIKE IN INTERVAL IS LIKE
    LOCALTIMESTAMP MAP NOT NULL OR RLIKE SESSION_USER SOME STRUCT THEN TIMESTAMP TRUE UNKNOWN USER
    WHEN"""
_NOT_COLUMNS: Final = frozenset(_WORDS.split())
"""Words that are not columns without backticks in some part of Spark's grammar."""


def parse_column(tokens: Sequence[Token]) -> str | None:
    """Return the name of the column when the expression is a single column, else None."""
    if len(tokens) != 1 or not tokens[0].is_name:
        return None
    (token,) = tokens
    if token.kind is TokenKind.QUOTED:
        return token.name
    return token.name if _PLAIN.fullmatch(token.text) and token.upper not in _NOT_COLUMNS else None


def parse_operand(tokens: Sequence[Token]) -> Operand | None:
    """Parse an operand; None when it is not in the grammar of this module."""
    column = parse_column(tokens)
    if column is not None:
        return Copy(column)
    match tokens:
        case [function, opening, column_token, *others, closing] if (
            opening.is_symbol("(")
            and closing.is_symbol(")")
            and function.kind is not TokenKind.QUOTED
        ):
            argument = parse_column([column_token])
            numbers = [token.text for token in others]
            return None if argument is None else _parse_function(function.upper, argument, numbers)
    return None


def _parse_function(name: str, column: str, numbers: Sequence[str]) -> Operand | None:
    match name, numbers:
        case "UPPER", []:
            return Upper(column)
        case "LENGTH", []:
            return Length(column)
        case "SUBSTRING", [",", start, ",", length] if start.isdigit() and length.isdigit():
            first = max(int(start) - 1, 0)  # SQL counts from 1, and takes 0 for 1
            stop = first + int(length)
            return Slice(column, first, stop) if stop <= _MAX_LENGTH else None
    return None


_FLIPPED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: Final = {"==": "=", "<>": "!=", **{op: op for op in _FLIPPED}}
_MAX_TOKENS: Final = 500
_MAX_NESTING: Final = 8
"""Nesting of parentheses. Each level is tried as a condition and then as an operand, which doubles
the work; deeper conditions are left to Spark."""

_MAX_DIGITS: Final = 30
"""Digits of a fraction; far below Spark's limit of 38, where the type changes."""


class UnsupportedCondition(Exception):  # noqa: N818 - not an error: Spark runs the condition
    """The condition is not in the grammar of this module."""


@dataclass(frozen=True, slots=True)
class FilterKernel:
    """The kernel that keeps the rows for which a condition is true; null is not true."""

    condition: Condition

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the kept rows."""
        return batch.filter(self.condition.mask(batch))


def compile_condition(text: str, row: Row, path: str) -> FilterKernel | None:
    """Return the kernel of a condition over these columns; None when it is left to Spark.

    Raises:
        ConfigError: it names a column that the rows do not have.
    """
    try:
        condition = parse_condition(text)
    except UnsupportedCondition:
        return None
    for column in condition.columns():
        row.require(column, path)
    return FilterKernel(condition) if condition.fits(row) else None


def parse_condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        UnsupportedCondition: it is not in the grammar of this module.
    """
    tokens = tokenize(text)
    if len(tokens) > _MAX_TOKENS:
        raise UnsupportedCondition
    parser = _Parser(tokens)
    condition = parser.condition(0)
    if parser.next is not None:
        raise UnsupportedCondition
    return condition


@dataclass(frozen=True, slots=True)
class _Column:
    """An operand over a column, and the divisor of its remainder if any."""

    of: Operand
    modulo: int | None = None


@dataclass(slots=True)
class _Parser:
    """Recursive descent with backtracking: `(` opens a condition or an operand."""

    tokens: Sequence[Token]
    at: int = 0

    @property
    def next(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self) -> Token:
        token = self.next
        if token is None:
            raise UnsupportedCondition
        self.at += 1
        return token

    def take_word(self, *words: str) -> bool:
        token = self.next
        found = token is not None and token.is_word(*words)
        self.at += found
        return found

    def take_symbol(self, *texts: str) -> bool:
        token = self.next
        found = token is not None and token.is_symbol(*texts)
        self.at += found
        return found

    def expect(self, is_present: bool) -> None:
        if not is_present:
            raise UnsupportedCondition

    def condition(self, depth: int) -> Condition:
        return self._and_or("OR", lambda: self._and_or("AND", lambda: self.negated(depth)))

    def _and_or(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self.take_word(word):
            parts.append(part())
        return AndOr(word == "AND", tuple(parts)) if len(parts) > 1 else parts[0]

    def negated(self, depth: int) -> Condition:
        negate = False
        while self.take_word("NOT"):
            negate = not negate
        inner = self.primary(depth)
        return Not(inner) if negate else inner

    def primary(self, depth: int) -> Condition:
        if depth > _MAX_NESTING:
            raise UnsupportedCondition
        start = self.at
        if self.take_symbol("("):
            try:
                inner = self.condition(depth + 1)
                self.expect(self.take_symbol(")") and not self._continues())
            except UnsupportedCondition:
                self.at = start
            else:
                return inner
        return self.test(depth)

    def _continues(self) -> bool:
        """Whether a parenthesis was only the left side of a test."""
        token = self.next
        return token is not None and not (token.is_word("AND", "OR") or token.is_symbol(")"))

    def test(self, depth: int) -> Condition:
        left = self.operand(depth)
        token = self.next
        if token is not None and token.kind is TokenKind.SYMBOL and token.text in _OPERATORS:
            self.at += 1
            return _make_comparison(left, _OPERATORS[token.text], self.operand(depth))
        if isinstance(left, bool):
            return Constant(left)
        if not isinstance(left, _Column) or left.modulo is not None:
            raise UnsupportedCondition
        if self.take_word("IS"):
            negate = self.take_word("NOT")
            self.expect(self.take_word("NULL"))
            return _negate_if(negate, IsNull(left.of))
        negate = self.take_word("NOT")
        if self.take_word("IN"):
            return _negate_if(negate, In(left.of, self.literals()))
        if self.take_word("LIKE"):
            return _negate_if(negate, Like(left.of, self.pattern()))
        if self.take_word("BETWEEN"):
            return _negate_if(negate, self.between(left.of))
        self.expect(not negate and isinstance(left.of, Copy))
        return BooleanColumn(left.of.column)

    def between(self, of: Operand) -> Condition:
        low = self.literal()
        self.expect(self.take_word("AND"))
        high = self.literal()
        return AndOr(True, (Compare(of, ">=", low), Compare(of, "<=", high)))

    def literals(self) -> tuple[Value, ...]:
        self.expect(self.take_symbol("("))
        values = [self.literal()]
        while self.take_symbol(","):
            values.append(self.literal())
        self.expect(self.take_symbol(")"))
        return tuple(values)

    def pattern(self) -> str:
        value = self.literal()
        self.expect(isinstance(value, str) and not self._is_word("ESCAPE"))
        return str(value)

    def _is_word(self, word: str) -> bool:
        return self.next is not None and self.next.is_word(word)

    def operand(self, depth: int) -> _Column | Value:
        if depth > _MAX_NESTING:
            raise UnsupportedCondition
        if self.take_symbol("("):
            inner = self.operand(depth + 1)
            self.expect(self.take_symbol(")"))
            return inner
        token = self.next
        if token is None or not token.is_name or token.is_word("TRUE", "FALSE"):
            return self.literal()
        of = self.function_or_column()
        if not self.take_symbol("%"):
            return _Column(of)
        by = self.literal()
        if isinstance(by, bool) or not isinstance(by, int):
            raise UnsupportedCondition
        return _Column(of, by)

    def function_or_column(self) -> Operand:
        """Parse a column, or a function of one."""
        start = self.at
        self.take()
        if self.take_symbol("("):
            while not self.take_symbol(")"):
                self.take()
        of = parse_operand(self.tokens[start : self.at])
        if of is None:
            raise UnsupportedCondition
        return of

    def literal(self) -> Value:
        minus = self.take_symbol("-")
        token = self.take()
        if token.kind is TokenKind.NUMBER:
            return _parse_number(token.text, minus)
        self.expect(not minus)
        if token.is_word("TRUE", "FALSE"):
            return token.upper == "TRUE"
        self.expect(token.kind is TokenKind.STRING)
        return _parse_text(token.text)


def _parse_number(text: str, minus: bool) -> Value:
    sign = -1 if minus else 1
    if text.isdigit():
        whole = sign * int(text)
        if not -(1 << 63) <= whole < 1 << 63:
            raise UnsupportedCondition
        return whole
    value = sign * float(text)
    if len(text) > _MAX_DIGITS or math.isinf(value):
        raise UnsupportedCondition
    return value


def _parse_text(text: str) -> str:
    """Return the text of a string literal. Escapes, doubled quotes and double quotes are refused:
    their meaning depends on the version and settings of Spark.
    """
    inner = text[1:-1]
    if text[0] != "'" or "\\" in inner or "'" in inner:
        raise UnsupportedCondition
    return inner


def _make_comparison(left: _Column | Value, op: str, right: _Column | Value) -> Condition:
    if isinstance(left, _Column) and not isinstance(right, _Column):
        return Compare(left.of, op, right, left.modulo)
    if isinstance(right, _Column) and not isinstance(left, _Column):
        return Compare(right.of, _FLIPPED[op], left, right.modulo)
    raise UnsupportedCondition


def _negate_if(negate: bool, condition: Condition) -> Condition:
    return Not(condition) if negate else condition
