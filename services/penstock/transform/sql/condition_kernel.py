"""Columns and functions of columns that Arrow can compute, told from the tokens of an expression.

    operand  := column | function
    function := UPPER ( column ) | LENGTH ( column ) | SUBSTRING ( column , number , number )

There is no `lower`: where a capital sigma ends a word, the result depends on tables of characters
that differ between Unicode versions.
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
from penstock.transform.sql.condition import (
    Compare,
    Condition,
    Constant,
    Flag,
    In,
    IsNull,
    Joined,
    Like,
    Not,
    Value,
)
from penstock.transform.sql.tokens import Kind, Token, tokens_of

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST: Final = (1 << 31) - 1
_WORDS: Final = """
    ALL AND ANY ARRAY BETWEEN CASE CAST CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP
    CURRENT_USER DATE DISTINCT ELSE END EXISTS EXTRACT FALSE ILIKE IN INTERVAL IS LIKE
    LOCALTIMESTAMP MAP NOT NULL OR RLIKE SESSION_USER SOME STRUCT THEN TIMESTAMP TRUE UNKNOWN USER
    WHEN"""
_NOT_COLUMNS: Final = frozenset(_WORDS.split())
"""Words that mean something else without backticks, somewhere in Spark's grammar."""


def column_of(tokens: Sequence[Token]) -> str | None:
    """Return the column that an expression is, if it is no more than that."""
    if len(tokens) != 1 or not tokens[0].is_name:
        return None
    (token,) = tokens
    if token.kind is Kind.QUOTED:
        return token.name
    return token.name if _PLAIN.fullmatch(token.text) and token.upper not in _NOT_COLUMNS else None


def operand_of(tokens: Sequence[Token]) -> Operand | None:
    """Return what an expression computes; None when it is not in the grammar of this file."""
    column = column_of(tokens)
    if column is not None:
        return Copy(column)
    match tokens:
        case [function, opening, column_token, *others, closing] if (
            opening.is_symbol("(") and closing.is_symbol(")") and function.kind is not Kind.QUOTED
        ):
            argument = column_of([column_token])
            numbers = [token.text for token in others]
            return None if argument is None else _function(function.upper, argument, numbers)
    return None


def _function(name: str, column: str, numbers: Sequence[str]) -> Operand | None:
    match name, numbers:
        case "UPPER", []:
            return Upper(column)
        case "LENGTH", []:
            return Length(column)
        case "SUBSTRING", [",", start, ",", length] if start.isdigit() and length.isdigit():
            first = max(int(start) - 1, 0)  # SQL counts from 1, and takes 0 for 1
            stop = first + int(length)
            return Slice(column, first, stop) if stop <= _LONGEST else None
    return None


_FLIPPED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: Final = {"==": "=", "<>": "!=", **{op: op for op in _FLIPPED}}
_MOST_TOKENS: Final = 500
_DEEPEST: Final = 8
"""Nesting of parentheses. Each level is tried as a condition, then as an operand, so the work
doubles with each; conditions deeper than this are Spark's."""

_MOST_DIGITS: Final = 30
"""Digits of a fraction; far from Spark's limit of 38, where its type changes."""


class Unsupported(Exception):  # noqa: N818 - no error: the condition is Spark's
    """The condition is not in the grammar of this file."""


@dataclass(frozen=True, slots=True)
class FilterKernel:
    """Keeps the rows for which a condition is true; null is not true."""

    condition: Condition

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows to keep."""
        return batch.filter(self.condition.mask(batch))


def compile_condition(text: str, row: Row, path: str) -> FilterKernel | None:
    """Return the kernel of a condition over these columns; None when it is better left to Spark.

    Raises:
        ConfigError: it names a column that the rows do not have.
    """
    try:
        condition = parse_condition(text)
    except Unsupported:
        return None
    for column in condition.columns():
        row.require(column, path)
    return FilterKernel(condition) if condition.fits(row) else None


def parse_condition(text: str) -> Condition:
    """Return the condition that a text means.

    Raises:
        Unsupported: it is not in the grammar of this file.
    """
    tokens = tokens_of(text)
    if len(tokens) > _MOST_TOKENS:
        raise Unsupported
    parser = _Parser(tokens)
    condition = parser.condition(0)
    if parser.next is not None:
        raise Unsupported
    return condition


@dataclass(frozen=True, slots=True)
class _Column:
    """What is made of a column, and perhaps its remainder."""

    of: Operand
    modulo: int | None = None


@dataclass(slots=True)
class _Parser:
    """Recursive descent with one step back: `(` opens a condition or an operand."""

    tokens: Sequence[Token]
    at: int = 0

    @property
    def next(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self) -> Token:
        token = self.next
        if token is None:
            raise Unsupported
        self.at += 1
        return token

    def took_word(self, *words: str) -> bool:
        token = self.next
        found = token is not None and token.is_word(*words)
        self.at += found
        return found

    def took_symbol(self, *texts: str) -> bool:
        token = self.next
        found = token is not None and token.is_symbol(*texts)
        self.at += found
        return found

    def expect(self, took: bool) -> None:
        if not took:
            raise Unsupported

    def condition(self, depth: int) -> Condition:
        return self._joined("OR", lambda: self._joined("AND", lambda: self.negated(depth)))

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self.took_word(word):
            parts.append(part())
        return Joined(word == "AND", tuple(parts)) if len(parts) > 1 else parts[0]

    def negated(self, depth: int) -> Condition:
        negate = False
        while self.took_word("NOT"):
            negate = not negate
        inner = self.primary(depth)
        return Not(inner) if negate else inner

    def primary(self, depth: int) -> Condition:
        if depth > _DEEPEST:
            raise Unsupported
        start = self.at
        if self.took_symbol("("):
            try:
                inner = self.condition(depth + 1)
                self.expect(self.took_symbol(")") and not self._continues())
            except Unsupported:
                self.at = start
            else:
                return inner
        return self.test(depth)

    def _continues(self) -> bool:
        """Tell whether what was read in parentheses is only the left side of a test."""
        token = self.next
        return token is not None and not (token.is_word("AND", "OR") or token.is_symbol(")"))

    def test(self, depth: int) -> Condition:
        left = self.operand(depth)
        token = self.next
        if token is not None and token.kind is Kind.SYMBOL and token.text in _OPERATORS:
            self.at += 1
            return _compared(left, _OPERATORS[token.text], self.operand(depth))
        if isinstance(left, bool):
            return Constant(left)
        if not isinstance(left, _Column) or left.modulo is not None:
            raise Unsupported
        if self.took_word("IS"):
            negate = self.took_word("NOT")
            self.expect(self.took_word("NULL"))
            return _maybe_not(negate, IsNull(left.of))
        negate = self.took_word("NOT")
        if self.took_word("IN"):
            return _maybe_not(negate, In(left.of, self.literals()))
        if self.took_word("LIKE"):
            return _maybe_not(negate, Like(left.of, self.pattern()))
        if self.took_word("BETWEEN"):
            return _maybe_not(negate, self.between(left.of))
        self.expect(not negate and isinstance(left.of, Copy))
        return Flag(left.of.column)

    def between(self, of: Operand) -> Condition:
        low = self.literal()
        self.expect(self.took_word("AND"))
        high = self.literal()
        return Joined(True, (Compare(of, ">=", low), Compare(of, "<=", high)))

    def literals(self) -> tuple[Value, ...]:
        self.expect(self.took_symbol("("))
        values = [self.literal()]
        while self.took_symbol(","):
            values.append(self.literal())
        self.expect(self.took_symbol(")"))
        return tuple(values)

    def pattern(self) -> str:
        value = self.literal()
        self.expect(isinstance(value, str) and not self._is_word("ESCAPE"))
        return str(value)

    def _is_word(self, word: str) -> bool:
        return self.next is not None and self.next.is_word(word)

    def operand(self, depth: int) -> _Column | Value:
        if depth > _DEEPEST:
            raise Unsupported
        if self.took_symbol("("):
            inner = self.operand(depth + 1)
            self.expect(self.took_symbol(")"))
            return inner
        token = self.next
        if token is None or not token.is_name or token.is_word("TRUE", "FALSE"):
            return self.literal()
        of = self.made()
        if not self.took_symbol("%"):
            return _Column(of)
        by = self.literal()
        if isinstance(by, bool) or not isinstance(by, int):
            raise Unsupported
        return _Column(of, by)

    def made(self) -> Operand:
        """Take a column, or a function of one."""
        start = self.at
        self.take()
        if self.took_symbol("("):
            while not self.took_symbol(")"):
                self.take()
        of = operand_of(self.tokens[start : self.at])
        if of is None:
            raise Unsupported
        return of

    def literal(self) -> Value:
        minus = self.took_symbol("-")
        token = self.take()
        if token.kind is Kind.NUMBER:
            return _number(token.text, minus)
        self.expect(not minus)
        if token.is_word("TRUE", "FALSE"):
            return token.upper == "TRUE"
        self.expect(token.kind is Kind.STRING)
        return _text(token.text)


def _number(text: str, minus: bool) -> Value:
    sign = -1 if minus else 1
    if text.isdigit():
        whole = sign * int(text)
        if not -(1 << 63) <= whole < 1 << 63:
            raise Unsupported
        return whole
    value = sign * float(text)
    if len(text) > _MOST_DIGITS or math.isinf(value):
        raise Unsupported
    return value


def _text(text: str) -> str:
    """Return a string literal's text. Escapes, doubled and double quotes mean different things in
    different versions and settings of Spark.
    """
    inner = text[1:-1]
    if text[0] != "'" or "\\" in inner or "'" in inner:
        raise Unsupported
    return inner


def _compared(left: _Column | Value, op: str, right: _Column | Value) -> Condition:
    if isinstance(left, _Column) and not isinstance(right, _Column):
        return Compare(left.of, op, right, left.modulo)
    if isinstance(right, _Column) and not isinstance(left, _Column):
        return Compare(right.of, _FLIPPED[op], left, right.modulo)
    raise Unsupported


def _maybe_not(negate: bool, condition: Condition) -> Condition:
    return Not(condition) if negate else condition
