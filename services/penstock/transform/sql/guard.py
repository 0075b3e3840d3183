"""Checks that a user's SQL is one expression over the row, with no access to anything else.

Expressions are passed only to Spark's expression parser, which parses one expression and no
statement. That is not enough: a subquery, `reflect(…)`, `from_xml` with a schema file or `${env:…}`
inside of an expression reads other data, runs code, calls a URL, or leaks the environment. So the
text is checked here before Spark sees it. Only listed functions are allowed (`allowed_functions`),
some of them only with harmless arguments (`call_arguments`).

Codes: `transform.bad_expression`, `transform.subquery`, `transform.forbidden_function`,
`transform.substitution`, `transform.frozen_time`; `transform.unknown_column` where the row is
known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from penstock.model.errors import ConfigError
from penstock.transform.row import Row
from penstock.transform.sql.allowed_functions import (
    ALLOWED,
    CONSTANTS,
    KEYWORDS,
    REFUSED,
    WITHOUT_ARGUMENTS,
)
from penstock.transform.sql.call_arguments import find_refusal
from penstock.transform.sql.literals import has_substitution
from penstock.transform.sql.tokens import Token, TokenKind, tokenize

_QUERY_WORDS: Final = ("SELECT", "TABLE", "VALUES", "USING")
"""Every query that Spark's grammar allows in an expression has one of these words, or begins with
FROM behind a parenthesis. This includes `EXISTS`, `IN` and scalar subqueries."""

_TIME: Final = re.compile(r"""[rR]?['"]\s*[+-]?[0-9][0-9A-Za-z:.,+\-/_ ]*['"]""")
"""A text of a date or time that begins with a digit."""

_FIX: Final = "Use functions of the row's own columns only."

_CLOSES: Final = {")": "(", "]": "["}


def check_expression(text: str, path: str) -> list[Token]:
    """Check an expression and return its tokens. Spark may parse only checked expressions.

    Args:
        text: The expression as the user wrote it.
        path: Its configuration key.

    Raises:
        ConfigError: it is not one expression, or it accesses more than the row.
    """
    if has_substitution(text):
        raise ConfigError(
            "transform.substitution",
            "`${` is not allowed in an expression: Spark would substitute its own settings",
            fix="Write the value itself; for these two characters in a text write `$\\u007b`.",
            config_path=path,
        )
    tokens = tokenize(text)
    if not tokens:
        raise _invalid_expression("the expression is empty", path)
    for token in tokens:
        _check_sign(token, path)
    _check_nesting(tokens, path)
    for index, token in enumerate(tokens):
        _check_query(tokens, index, path)
        if token.is_name:
            _check_call(tokens, index, path)
    return tokens


def _check_sign(token: Token, path: str) -> None:
    if token.kind is TokenKind.COMMENT:
        raise _invalid_expression(f"comments are not allowed (`{token.text}` at {token.at})", path)
    if token.is_symbol(";"):
        raise _invalid_expression(f"`;` at {token.at}: one expression, not a statement", path)
    if token.is_symbol("'", '"', "`"):
        raise _invalid_expression(f"the quote at {token.at} is never closed", path)
    if token.kind is TokenKind.SYMBOL and not (token.text.isascii() and token.text.isprintable()):
        # Spark may read it as a space, which could separate a name from its parenthesis.
        raise _invalid_expression(f"{token.text!r} at {token.at} is not a symbol of SQL", path)


def _check_nesting(tokens: Sequence[Token], path: str) -> None:
    """Refuse brackets that do not match: the expression is later embedded in parentheses, and must
    not be able to close them.
    """
    opened: list[str] = []
    for token in tokens:
        if token.is_symbol("(", "["):
            opened.append(token.text)
        elif token.is_symbol(")", "]") and (not opened or opened.pop() != _CLOSES[token.text]):
            raise _invalid_expression(f"`{token.text}` at {token.at} has no opening bracket", path)
    if opened:
        raise _invalid_expression(f"`{opened[-1]}` is never closed", path)


def _check_query(tokens: Sequence[Token], index: int, path: str) -> None:
    token = tokens[index]
    starts = index > 0 and tokens[index - 1].is_symbol("(")
    if token.is_word(*_QUERY_WORDS) or (token.is_word("FROM") and starts):
        raise ConfigError(
            "transform.subquery",
            f"`{token.text}` at {token.at}: an expression may not contain a query",
            fix=f"Remove it; if it is the name of a column, write it as `` `{token.text}` ``.",
            config_path=path,
        )


def _check_call(tokens: Sequence[Token], index: int, path: str) -> None:
    token = tokens[index]
    if not _is_symbol(tokens, index + 1, "("):
        _check_constant(tokens, index, path)
        _check_typed_literal(tokens, index, path)
        return
    before = tokens[index - 1] if index else None
    if before is not None and before.is_symbol("."):
        raise _forbidden_function(token, "functions are called by an unqualified name", path)
    if token.kind is TokenKind.WORD and _is_keyword(token, before):
        return
    if token.is_word("OVER"):
        raise _forbidden_function(token, "a transform sees one row at a time", path)
    # Spark compares names of functions in lower case and keywords in upper case. Both forms have to
    # be on the list: with letters such as the dotless i they can be different names.
    readings = {token.name.lower(), token.name.upper().lower()}
    for function in readings:
        if function not in ALLOWED:
            raise _refused_function(token, function, path)
        if function in WITHOUT_ARGUMENTS and _is_symbol(tokens, index + 2, ")"):
            raise _forbidden_function(token, WITHOUT_ARGUMENTS[function], path)
        refusal = find_refusal(tokens, index, function)
        if refusal is not None:
            raise _forbidden_function(token, refusal.reason, path, fix=refusal.fix)


def _is_keyword(token: Token, before: Token | None) -> bool:
    """Whether a word before a parenthesis is a keyword, and not the name of a function."""
    if token.upper in ("ANY", "SOME", "ALL"):
        return before is not None and before.is_word("LIKE", "ILIKE")
    return token.upper in KEYWORDS


def _check_constant(tokens: Sequence[Token], index: int, path: str) -> None:
    """Refuse a bare name that Spark resolves to a function when no column has it."""
    token = tokens[index]
    before = tokens[index - 1] if index else None
    if token.kind is not TokenKind.WORD or token.is_word("USER") or _is_part(before):
        return  # `user` is a common column name: `require_columns` checks that the column exists
    reason = CONSTANTS.get(token.name.lower()) or CONSTANTS.get(token.upper.lower())
    if reason:
        fix = f"If it is the name of a column, write it as `` `{token.text}` ``."
        raise _forbidden_function(token, reason, path, fix=fix)


def _check_typed_literal(tokens: Sequence[Token], index: int, path: str) -> None:
    """Refuse `timestamp'now'` and the like, which Spark computes once for a kept plan."""
    token = tokens[index]
    if not token.is_word("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
        return
    text = tokens[index + 1] if index + 1 < len(tokens) else None
    if text is None or text.kind not in (TokenKind.STRING, TokenKind.RAW_STRING):
        return
    if not _TIME.match(text.text):
        raise ConfigError(
            "transform.frozen_time",
            f"`{token.text} {text.text}` at {token.at} is not a date or time in digits; Spark "
            "computes `now`, `today` and the like only once for all micro-batches",
            fix="Write it in digits, as in `date'2026-01-31'`; for the time of a row use "
            "InsertField with `timestamp.field`.",
            config_path=path,
        )


def require_columns(tokens: Sequence[Token], row: Row, path: str) -> None:
    """Refuse names that Spark resolves to a function where they are not columns of the row: `user`,
    which is the user of the engine, and the other `CONSTANTS` in backticks.

    Raises:
        ConfigError: `transform.unknown_column`.
    """
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if token.is_name and _is_constant(token.name) and not _is_part(before):
            row.require(token.name, path)


def _is_constant(name: str) -> bool:
    return name.lower() in CONSTANTS or name.upper().lower() in CONSTANTS


def _is_part(before: Token | None) -> bool:
    """Whether the name behind a token is a field (`a.user`) or an alias (`AS user`)."""
    return before is not None and (before.is_symbol(".") or before.is_word("AS"))


def _is_symbol(tokens: Sequence[Token], index: int, text: str) -> bool:
    return index < len(tokens) and tokens[index].is_symbol(text)


def _invalid_expression(message: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.bad_expression",
        message,
        fix="Write one Spark SQL expression over the columns of the row.",
        config_path=path,
    )


def _refused_function(token: Token, function: str, path: str) -> ConfigError:
    if function in REFUSED:
        return _forbidden_function(token, REFUSED[function], path)
    near = get_close_matches(function, ALLOWED, n=1)
    return _forbidden_function(
        token,
        "it is not on the list of functions that expressions may call",
        path,
        fix=f"Did you mean `{near[0]}`?" if near else _FIX,
    )


def _forbidden_function(token: Token, reason: str, path: str, *, fix: str = _FIX) -> ConfigError:
    return ConfigError(
        "transform.forbidden_function",
        f"`{token.name}` at {token.at} is not allowed: {reason}",
        fix=fix,
        config_path=path,
    )
