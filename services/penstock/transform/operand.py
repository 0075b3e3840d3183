"""Columns and functions of columns that Arrow can compute, told from the tokens of an expression.

    operand  := column | function
    function := UPPER ( column ) | LENGTH ( column ) | SUBSTRING ( column , number , number )

There is no `lower`: where a capital sigma ends a word, the result depends on tables of characters
that differ between Unicode versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from penstock.transform.column_kernel import Copy, Length, Operand, Slice, Upper
from penstock.transform.tokens import Kind, Token

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
