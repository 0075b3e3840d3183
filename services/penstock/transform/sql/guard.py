"""What a user's SQL may contain: one expression over the row, and nothing that reaches beyond it.

Expressions are only ever given to Spark's expression parser, which reads one expression and no
statement. That alone is not enough: a subquery, `reflect(…)`, `from_xml` with a schema file or
`${env:…}` inside an expression reads other data, runs code, asks a URL, or leaks the environment.
So the text is checked here before Spark sees it. Only functions of a list are allowed
(`sql_functions`), some of them only with harmless arguments (`call_arguments`).

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
from penstock.transform.sql.call_arguments import refusal_of
from penstock.transform.sql.quoting import has_substitution
from penstock.transform.sql.tokens import Kind, Token, tokens_of

_QUERY_WORDS: Final = ("SELECT", "TABLE", "VALUES", "USING")
"""One of these is in every query that Spark's grammar allows in an expression; a query that starts
with FROM is seen by its parenthesis. `EXISTS`, `IN` and scalar subqueries all need one."""

_TIME: Final = re.compile(r"""[rR]?['"]\s*[+-]?[0-9][0-9A-Za-z:.,+\-/_ ]*['"]""")
"""A date or time that begins with a digit, whatever follows."""

_FIX: Final = "Use functions of the row's own columns only."

_CLOSES: Final = {")": "(", "]": "["}


def guarded(text: str, path: str) -> list[Token]:
    """Return the tokens of an expression that is safe to hand to Spark.

    Args:
        text: What the user wrote.
        path: The configuration key it stands in.

    Raises:
        ConfigError: it is not one expression, or it reaches beyond the row.
    """
    if has_substitution(text):
        raise ConfigError(
            "transform.substitution",
            "`${` is not allowed in an expression: Spark would put its own settings there",
            fix="Write the value itself; for the two signs in a text write `$\\u007b`.",
            config_path=path,
        )
    tokens = tokens_of(text)
    if not tokens:
        raise _bad("the expression is empty", path)
    for token in tokens:
        _check_sign(token, path)
    _check_nesting(tokens, path)
    for place, token in enumerate(tokens):
        _check_query(tokens, place, path)
        if token.is_name:
            _check_call(tokens, place, path)
    return tokens


def _check_sign(token: Token, path: str) -> None:
    if token.kind is Kind.COMMENT:
        raise _bad(f"comments are not allowed (`{token.text}` at {token.at})", path)
    if token.is_symbol(";"):
        raise _bad(f"`;` at {token.at}: one expression, not a statement", path)
    if token.is_symbol("'", '"', "`"):
        raise _bad(f"the quote at {token.at} is never closed", path)
    if token.kind is Kind.SYMBOL and not (token.text.isascii() and token.text.isprintable()):
        # Spark may take it for a space: it must not stand between a name and its parenthesis.
        raise _bad(f"{token.text!r} at {token.at} is no sign of SQL", path)


def _check_nesting(tokens: Sequence[Token], path: str) -> None:
    """Refuse brackets that do not match: an expression is later put between parentheses, and must
    not be able to leave them.
    """
    opened: list[str] = []
    for token in tokens:
        if token.is_symbol("(", "["):
            opened.append(token.text)
        elif token.is_symbol(")", "]") and (not opened or opened.pop() != _CLOSES[token.text]):
            raise _bad(f"`{token.text}` at {token.at} closes nothing", path)
    if opened:
        raise _bad(f"`{opened[-1]}` is never closed", path)


def _check_query(tokens: Sequence[Token], place: int, path: str) -> None:
    token = tokens[place]
    starts = place > 0 and tokens[place - 1].is_symbol("(")
    if token.is_word(*_QUERY_WORDS) or (token.is_word("FROM") and starts):
        raise ConfigError(
            "transform.subquery",
            f"`{token.text}` at {token.at}: an expression may not contain a query",
            fix=f"Remove it; if it is the name of a column, write it as `` `{token.text}` ``.",
            config_path=path,
        )


def _check_call(tokens: Sequence[Token], place: int, path: str) -> None:
    token = tokens[place]
    if not _is_symbol(tokens, place + 1, "("):
        _check_constant(tokens, place, path)
        _check_typed_literal(tokens, place, path)
        return
    before = tokens[place - 1] if place else None
    if before is not None and before.is_symbol("."):
        raise _forbidden(token, "functions are called by their plain name", path)
    if token.kind is Kind.WORD and _is_keyword(token, before):
        return
    if token.is_word("OVER"):
        raise _forbidden(token, "a transform sees one row at a time", path)
    # Spark compares names of functions in small letters and keywords in capitals. Both readings
    # have to be on the list, or a letter such as the dotless i would make one of them another name.
    readings = {token.name.lower(), token.name.upper().lower()}
    for function in readings:
        if function not in ALLOWED:
            raise _refused(token, function, path)
        if function in WITHOUT_ARGUMENTS and _is_symbol(tokens, place + 2, ")"):
            raise _forbidden(token, WITHOUT_ARGUMENTS[function], path)
        refusal = refusal_of(tokens, place, function)
        if refusal is not None:
            raise _forbidden(token, refusal.reason, path, fix=refusal.fix)


def _is_keyword(token: Token, before: Token | None) -> bool:
    """Tell whether a word before a parenthesis calls nothing."""
    if token.upper in ("ANY", "SOME", "ALL"):
        return before is not None and before.is_word("LIKE", "ILIKE")
    return token.upper in KEYWORDS


def _check_constant(tokens: Sequence[Token], place: int, path: str) -> None:
    """Refuse a bare name that Spark reads as a call where no column has it."""
    token = tokens[place]
    before = tokens[place - 1] if place else None
    if token.kind is not Kind.WORD or token.is_word("USER") or _is_part(before):
        return  # `user` is a common name of columns: `require_columns` looks whether it is one
    reason = CONSTANTS.get(token.name.lower()) or CONSTANTS.get(token.upper.lower())
    if reason:
        fix = f"If it is the name of a column, write it as `` `{token.text}` ``."
        raise _forbidden(token, reason, path, fix=fix)


def _check_typed_literal(tokens: Sequence[Token], place: int, path: str) -> None:
    """Refuse `timestamp'now'` and its kin, which Spark computes once for a kept plan."""
    token = tokens[place]
    if not token.is_word("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
        return
    text = tokens[place + 1] if place + 1 < len(tokens) else None
    if text is None or text.kind not in (Kind.STRING, Kind.RAW_STRING):
        return
    if not _TIME.match(text.text):
        raise ConfigError(
            "transform.frozen_time",
            f"`{token.text} {text.text}` at {token.at} is not a date or time in digits; Spark "
            "computes `now`, `today` and the like once for a plan that is kept",
            fix="Write it in digits, as in `date'2026-01-31'`; for the time of a row use "
            "InsertField with `timestamp.field`.",
            config_path=path,
        )


def require_columns(tokens: Sequence[Token], row: Row, path: str) -> None:
    """Refuse a name that is not a column of the row and that Spark would read as a call: `user`,
    the user of the engine, and the others in backticks.

    Raises:
        ConfigError: `transform.unknown_column`.
    """
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        if token.is_name and _is_constant(token.name) and not _is_part(before):
            row.require(token.name, path)


def _is_constant(name: str) -> bool:
    return name.lower() in CONSTANTS or name.upper().lower() in CONSTANTS


def _is_part(before: Token | None) -> bool:
    """Tell whether what follows a token is a field of something (`a.user`) or a new name
    (`AS user`).
    """
    return before is not None and (before.is_symbol(".") or before.is_word("AS"))


def _is_symbol(tokens: Sequence[Token], place: int, text: str) -> bool:
    return place < len(tokens) and tokens[place].is_symbol(text)


def _bad(message: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.bad_expression",
        message,
        fix="Write one Spark SQL expression over the columns of the row.",
        config_path=path,
    )


def _refused(token: Token, function: str, path: str) -> ConfigError:
    if function in REFUSED:
        return _forbidden(token, REFUSED[function], path)
    near = get_close_matches(function, ALLOWED, n=1)
    return _forbidden(
        token,
        "it is not one of the functions that expressions may call",
        path,
        fix=f"Did you mean `{near[0]}`?" if near else _FIX,
    )


def _forbidden(token: Token, reason: str, path: str, *, fix: str = _FIX) -> ConfigError:
    return ConfigError(
        "transform.forbidden_function",
        f"`{token.name}` at {token.at} is not allowed: {reason}",
        fix=fix,
        config_path=path,
    )
