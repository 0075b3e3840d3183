"""What a user's SQL may contain: one expression over the row, and nothing that reaches beyond it.

Expressions are only ever given to Spark's expression parser, which reads one expression and no
statement. That alone is not enough: a subquery, `reflect(…)` or `${env:…}` inside an expression
reads other data, runs code, or leaks the environment. So the text is refused here before Spark sees
it, with these codes:
`transform.bad_expression`, `transform.subquery`, `transform.forbidden_function`,
`transform.substitution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.model.errors import ConfigError
from penstock.transform import forbidden
from penstock.transform.sql import has_substitution
from penstock.transform.tokens import Kind, Token, tokens_of

_QUERY_WORDS: Final = ("SELECT", "TABLE", "VALUES", "USING")
"""One of these is in every query that Spark's grammar allows in an expression; a query that starts
with FROM is seen by its parenthesis. `EXISTS`, `IN` and scalar subqueries all need one."""

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
    after = [t.text for t in tokens[place + 1 : place + 3]]
    if after[:1] != ["("]:
        if token.kind is Kind.WORD and token.upper in forbidden.CONSTANTS:
            raise _forbidden(token, forbidden.CONSTANTS[token.upper], path)
        return
    before = tokens[place - 1] if place else None
    if before is not None and before.is_word("LIKE", "ILIKE"):
        return  # LIKE ANY (…) and LIKE SOME (…) are no calls
    if token.is_word("OVER"):
        raise _forbidden(token, "a transform sees one row at a time", path)
    if before is not None and before.is_symbol("."):
        raise _forbidden(token, "functions are called by their plain name", path)
    reason = _reason(token, after)
    if reason:
        raise _forbidden(token, reason, path)


def _reason(token: Token, after: Sequence[str]) -> str:
    # Spark lower-cases function names but upper-cases keywords; both readings are looked up.
    for function in (token.name.lower(), token.name.upper().lower()):
        if function in forbidden.FUNCTIONS:
            return forbidden.FUNCTIONS[function]
        if after == ["(", ")"] and function in forbidden.WITHOUT_ARGUMENTS:
            return forbidden.WITHOUT_ARGUMENTS[function]
    return ""


def _bad(message: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.bad_expression",
        message,
        fix="Write one Spark SQL expression over the columns of the row.",
        config_path=path,
    )


def _forbidden(token: Token, reason: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.forbidden_function",
        f"`{token.name}` at {token.at} is not allowed: {reason}",
        fix="Use functions of the row's own columns only.",
        config_path=path,
    )
