"""Checks the arguments of functions that are harmless only with some arguments.

Options: `from_xml` opens the file or URL of its option `rowValidationXSDPath`, and each version of
Spark adds options. So options must be a literal `map('name', 'value', …)` with names of a list.

Sizes: `array_repeat(line, 2000000000)` allocates 16 GB for one row. So counts must be numbers, or
lengths of values of the row. The bound catches mistakes and cheap attacks; several steps of a chain
can still multiply it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.transform.sql.tokens import Token, TokenKind

MAX_REPEATS: Final = 10_000
"""How often an expression may repeat a value, nested repetitions multiplied. Padding, separators
and lists of indexes are far below it; 10,000 copies of a line of 1 KiB are 10 MiB."""

_TIME_FORMATS: Final = "dateFormat timestampFormat timestampNTZFormat timeZone locale"

_READ_JSON: Final = f"""
    {_TIME_FORMATS} allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers
    allowNumericLeadingZeros allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames
    columnNameOfCorruptRecord dropFieldIfAllNull mode prefersDecimal primitivesAsString"""

_WRITE_JSON: Final = f"{_TIME_FORMATS} ignoreNullFields pretty"

_CSV: Final = f"""
    {_TIME_FORMATS} charToEscapeQuoteEscaping columnNameOfCorruptRecord delimiter emptyValue
    enforceSchema escape escapeQuotes ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace mode nanValue
    negativeInf nullValue positiveInf preferDate quote quoteAll sep unescapedQuoteHandling"""

_XML: Final = f"""
    {_TIME_FORMATS} arrayElementName attributePrefix columnNameOfCorruptRecord declaration
    excludeAttribute ignoreNamespace ignoreSurroundingSpaces inferSchema mode nullValue
    prefersDecimal rootTag rowTag treatEmptyValuesAsNulls valueTag wildcardColName"""

_OPTIONS: Final[Mapping[str, tuple[int, str]]] = {
    "from_csv": (2, _CSV),
    "from_json": (2, _READ_JSON),
    "from_xml": (2, _XML),
    "schema_of_csv": (1, _CSV),
    "schema_of_json": (1, _READ_JSON),
    "schema_of_xml": (1, _XML),
    "to_csv": (1, _CSV),
    "to_json": (1, _WRITE_JSON),
    "to_xml": (1, _XML),
}

OPTIONS: Final[Mapping[str, tuple[int, frozenset[str]]]] = {
    function: (index, frozenset(names.lower().split()))
    for function, (index, names) in _OPTIONS.items()
}
"""Function → index of its options argument, and valid names (lower case, as Spark compares)."""

SIZES: Final[Mapping[str, int]] = {
    "array_insert": 1,
    "array_repeat": 1,
    "bround": 1,
    "ceil": 1,
    "ceiling": 1,
    "floor": 1,
    "format_number": 1,
    "lpad": 1,
    "repeat": 1,
    "round": 1,
    "rpad": 1,
    "space": 0,
}
"""Function → index of the argument that determines the size of its result."""

_COPIES: Final = frozenset({"array_repeat", "repeat"})
"""Functions that repeat a value of any length, so that a length of the row is not a bound."""

_LENGTHS: Final = frozenset(
    {"array_size", "cardinality", "char_length", "character_length", "len", "length", "size"}
)
"""Functions that return the length of a value of the row."""

_FORMATS: Final = frozenset({"format_string", "printf"})

_WIDTH: Final = re.compile(r"[0-9]{5,}|\\\\[uU0-9]")
"""A width of five digits or more, or an escape that could be a digit."""

_WHOLE: Final = re.compile(r"([0-9]{1,12})([lLsSyY]?)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a call is refused, and what to write instead."""

    reason: str
    fix: str


def find_refusal(tokens: Sequence[Token], index: int, function: str) -> Refusal | None:
    """Return why the arguments of a call are refused; None when they are harmless.

    Args:
        tokens: The tokens of the expression; brackets match.
        index: Index of the token with the function's name.
        function: The function's name in lower case.
    """
    arguments = split_arguments(tokens, index)
    if function in OPTIONS:
        return _options_refusal(arguments, function)
    if function in _FORMATS:
        return _format_refusal(arguments)
    if function not in SIZES and function != "sequence":
        return None
    if _has_named(arguments):
        return Refusal(
            "its arguments are named, so the size of its result cannot be checked",
            "Write the arguments in order, without names.",
        )
    repeats = _max_repeats(arguments, function)
    if repeats is None:
        return Refusal(
            "the size of its result is not bounded",
            _sequence_fix() if function == "sequence" else _size_fix(function),
        )
    total = repeats
    for outer, name in _enclosing_calls(tokens, index):
        total *= max(1, _max_repeats(outer, name) or 1)
    if total > MAX_REPEATS:
        return Refusal(
            f"it repeats a value {total:,} times; at most {MAX_REPEATS:,} are allowed, nested "
            "calls multiplied",
            f"Write a number up to {MAX_REPEATS:,}.",
        )
    return None


def split_arguments(tokens: Sequence[Token], index: int) -> list[list[Token]]:
    """Return the arguments of the call whose name is at an index; none for `f()`."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[index + 1 :]:
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if not depth:
            break
        if token.is_symbol(",") and depth == 1:
            arguments.append([])
        elif depth > 1 or not token.is_symbol("("):
            arguments[-1].append(token)
    # above, the opening parenthesis of the call itself was skipped
    return [] if arguments == [[]] else arguments


def _enclosing_calls(
    tokens: Sequence[Token], index: int
) -> Iterator[tuple[list[list[Token]], str]]:
    """Yield the calls around an index that repeat their arguments: arguments and name."""
    depth = 0
    for at in range(index - 1, 0, -1):
        depth += tokens[at].is_symbol(")", "]") - tokens[at].is_symbol("(", "[")
        if depth < 0:
            depth = 0
            name = tokens[at - 1]
            if name.is_name and name.name.lower() in (*SIZES, "sequence"):
                yield split_arguments(tokens, at - 1), name.name.lower()


def _options_refusal(arguments: Sequence[Sequence[Token]], function: str) -> Refusal | None:
    index, allowed = OPTIONS[function]
    if _has_named(arguments):
        return Refusal(
            "its arguments are named, so its options cannot be checked",
            "Write the arguments in order, without names.",
        )
    if len(arguments) <= index:
        return None
    names = _option_names(arguments[index])
    if names is None:
        return Refusal(
            "its options are not a literal map, so they cannot be checked",
            "Write the options as map('name', 'value', …), with texts only.",
        )
    for name in names:
        if name.lower() not in allowed:
            return Refusal(
                f"its option {name!r} is not allowed in expressions",
                f"Remove it. Allowed are {', '.join(sorted(allowed))}.",
            )
    return None


def _option_names(tokens: Sequence[Token]) -> list[str] | None:
    """Return the names of a literal `map('name', 'value', …)`, None for anything else."""
    if len(tokens) < 3 or not tokens[0].is_word("MAP") or not tokens[1].is_symbol("("):
        return None
    pairs = split_arguments(tokens, 0)
    if 3 + sum(len(pair) + 1 for pair in pairs) - (1 if pairs else 0) != len(tokens):
        return None  # something follows the map
    texts = [pair[0] for pair in pairs if len(pair) == 1 and pair[0].kind is TokenKind.STRING]
    if len(texts) != len(pairs) or len(texts) % 2:
        return None
    return [text.text[1:-1] for text in texts[::2]]


def _format_refusal(arguments: Sequence[Sequence[Token]]) -> Refusal | None:
    first = arguments[0] if arguments else []
    if len(first) != 1 or first[0].kind not in (TokenKind.STRING, TokenKind.RAW_STRING):
        return Refusal(
            "its format is not a literal text, so the widths in it cannot be checked",
            "Write the format as a text in quotes.",
        )
    if _WIDTH.search(first[0].text):
        return Refusal(
            "its format has a width of more than four digits", "Write a width up to 9999."
        )
    return None


def _has_named(arguments: Sequence[Sequence[Token]]) -> bool:
    return any(len(a) > 1 and a[0].is_name and a[1].is_symbol("=>") for a in arguments)


def _max_repeats(arguments: Sequence[Sequence[Token]], function: str) -> int | None:
    """Return the maximum number of repetitions of a call; 1 where a length of the row bounds it;
    None where it is not bounded.
    """
    if function == "sequence":
        return _max_sequence_length(arguments)
    index = SIZES[function]
    if len(arguments) <= index:
        return 1  # Spark refuses the call, or the argument has a small default
    if function not in _COPIES or _is_literal(arguments[0]):
        return _max_sum(arguments[index])
    return _max_sum(arguments[index], of_row=False)


def _max_sequence_length(arguments: Sequence[Sequence[Token]]) -> int | None:
    """Return the maximum length of a sequence of integers; a step only makes it shorter. None for
    other sequences, as of dates and times.
    """
    if len(arguments) < 2:
        return None
    first, last = (_parse_integer(argument) for argument in arguments[:2])
    if first is not None and last is not None:
        return abs(last - first) + 1
    ends = [_max_sum(argument) for argument in arguments[:2]]
    return None if None in ends else sum(end or 0 for end in ends)


def _max_sum(tokens: Sequence[Token], *, of_row: bool = True) -> int | None:
    """Return the maximum of a sum of integers and lengths of the row, lengths counted as 0; None
    for any other expression.
    """
    total, at = 0, 0
    while at < len(tokens):
        token = tokens[at]
        whole = _WHOLE.fullmatch(token.text)
        if whole and token.kind in (TokenKind.NUMBER, TokenKind.WORD):
            total += int(whole[1])
        elif of_row and token.kind is TokenKind.WORD and token.name.lower() in _LENGTHS:
            end = _find_call_end(tokens, at)
            if end is None:
                return None
            at = end
        elif not token.is_symbol("+", "-", "(", ")"):
            return None
        at += 1
    return total


def _parse_integer(tokens: Sequence[Token]) -> int | None:
    """Return the value of an integer with or without a sign; None for other expressions."""
    negative = len(tokens) == 2 and tokens[0].is_symbol("-")
    whole = _WHOLE.fullmatch(tokens[-1].text) if len(tokens) == 1 + negative else None
    return None if whole is None else int(whole[1]) * (-1 if negative else 1)


def _find_call_end(tokens: Sequence[Token], index: int) -> int | None:
    """Return the index of the last token of the call at an index; None when it is not a call."""
    depth = 0
    for at in range(index + 1, len(tokens)):
        depth += tokens[at].is_symbol("(", "[") - tokens[at].is_symbol(")", "]")
        if not depth:
            return at if at > index + 1 else None
    return None


def _is_literal(tokens: Sequence[Token]) -> bool:
    return len(tokens) == 1 and tokens[0].kind in (TokenKind.STRING, TokenKind.NUMBER)


def _size_fix(function: str) -> str:
    lengths = "" if function in _COPIES else ", or a length such as size(column)"
    return f"Write a number up to {MAX_REPEATS:,}{lengths}."


def _sequence_fix() -> str:
    return (
        f"Write its bounds as numbers up to {MAX_REPEATS:,} or lengths, as in "
        "sequence(1, size(column))."
    )
