"""Arguments of functions that are harmless with most values and not with all.

Options: `from_xml` opens the file or URL of its option `rowValidationXSDPath`, and Spark adds
options with each version. So options are a literal `map('name', 'value', …)`, and each name is on a
list.

Sizes: `array_repeat(line, 2000000000)` asks the engine for 16 GB for one row. So how often
something is repeated is written as a number, or as the length of something in the row. The bound
catches mistakes and cheap attacks; a chain of steps can still multiply what each of them allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.transform.sql.tokens import Kind, Token

MAX_REPEATS: Final = 10_000
"""How often an expression may repeat something, nested repetitions multiplied. Pads, rulers and
lists of indexes are far below it; 10,000 copies of a line of 1 KiB are 10 MiB."""

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
    function: (place, frozenset(names.lower().split()))
    for function, (place, names) in _OPTIONS.items()
}
"""Function to the place of its options and their names (lower case, as Spark compares them)."""

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
"""Function to the place of the argument that decides how much memory its result takes."""

_COPIES: Final = frozenset({"array_repeat", "repeat"})
"""What these repeat may be of any length itself, so a length of the row would be multiplied."""

_LENGTHS: Final = frozenset(
    {"array_size", "cardinality", "char_length", "character_length", "len", "length", "size"}
)
"""Functions that return how much of something the row has."""

_FORMATS: Final = frozenset({"format_string", "printf"})

_WIDTH: Final = re.compile(r"[0-9]{5,}|\\\\[uU0-9]")
"""A width of five digits or more, or an escape that could be a digit."""

_WHOLE: Final = re.compile(r"([0-9]{1,12})([lLsSyY]?)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is refused, and what to write instead."""

    reason: str
    fix: str


def refusal_of(tokens: Sequence[Token], place: int, function: str) -> Refusal | None:
    """Return why the arguments of a call are refused, None where they are harmless.

    Args:
        tokens: The tokens of the expression; brackets match.
        place: Where the name of the function stands.
        function: Its name in small letters.
    """
    arguments = arguments_of(tokens, place)
    if function in OPTIONS:
        return _options_refusal(arguments, function)
    if function in _FORMATS:
        return _format_refusal(arguments)
    if function not in SIZES and function != "sequence":
        return None
    if _has_named(arguments):
        return Refusal(
            "its arguments are named, so that its size cannot be checked",
            "Write the arguments in order, without names.",
        )
    repeats = _repeats(arguments, function)
    if repeats is None:
        return Refusal(
            "how much it makes of a row is not bounded",
            _sequence_fix() if function == "sequence" else _size_fix(function),
        )
    total = repeats
    for outer, name in _enclosing(tokens, place):
        total *= max(1, _repeats(outer, name) or 1)
    if total > MAX_REPEATS:
        return Refusal(
            f"it makes {total:,} of one thing; at most {MAX_REPEATS:,} are allowed, nested calls "
            "multiplied",
            f"Write a number up to {MAX_REPEATS:,}.",
        )
    return None


def arguments_of(tokens: Sequence[Token], place: int) -> list[list[Token]]:
    """Return the arguments of the call whose name stands at a place; none for `f()`."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[place + 1 :]:
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if not depth:
            break
        if token.is_symbol(",") and depth == 1:
            arguments.append([])
        elif depth > 1 or not token.is_symbol("("):
            arguments[-1].append(token)
    # the parenthesis that opens the call was left out above only where nothing stands before it
    return [] if arguments == [[]] else arguments


def _enclosing(tokens: Sequence[Token], place: int) -> Iterator[tuple[list[list[Token]], str]]:
    """Return the calls around a place that repeat what is in them, with their arguments."""
    depth = 0
    for at in range(place - 1, 0, -1):
        depth += tokens[at].is_symbol(")", "]") - tokens[at].is_symbol("(", "[")
        if depth < 0:
            depth = 0
            name = tokens[at - 1]
            if name.is_name and name.name.lower() in (*SIZES, "sequence"):
                yield arguments_of(tokens, at - 1), name.name.lower()


def _options_refusal(arguments: Sequence[Sequence[Token]], function: str) -> Refusal | None:
    place, allowed = OPTIONS[function]
    if _has_named(arguments):
        return Refusal(
            "its arguments are named, so that its options cannot be checked",
            "Write the arguments in order, without names.",
        )
    if len(arguments) <= place:
        return None
    names = _option_names(arguments[place])
    if names is None:
        return Refusal(
            "its options are not written out, so that they cannot be checked",
            "Write the options as map('name', 'value', …), with texts only.",
        )
    for name in names:
        if name.lower() not in allowed:
            return Refusal(
                f"its option {name!r} is not one that expressions may set",
                f"Leave it out. Allowed are {', '.join(sorted(allowed))}.",
            )
    return None


def _option_names(tokens: Sequence[Token]) -> list[str] | None:
    """Return the names of a literal `map('name', 'value', …)`, None for anything else."""
    if len(tokens) < 3 or not tokens[0].is_word("MAP") or not tokens[1].is_symbol("("):
        return None
    pairs = arguments_of(tokens, 0)
    if 3 + sum(len(pair) + 1 for pair in pairs) - (1 if pairs else 0) != len(tokens):
        return None  # something follows the map
    texts = [pair[0] for pair in pairs if len(pair) == 1 and pair[0].kind is Kind.STRING]
    if len(texts) != len(pairs) or len(texts) % 2:
        return None
    return [text.text[1:-1] for text in texts[::2]]


def _format_refusal(arguments: Sequence[Sequence[Token]]) -> Refusal | None:
    first = arguments[0] if arguments else []
    if len(first) != 1 or first[0].kind not in (Kind.STRING, Kind.RAW_STRING):
        return Refusal(
            "its format is not a plain text, so that the widths in it cannot be checked",
            "Write the format as a text in quotes.",
        )
    if _WIDTH.search(first[0].text):
        return Refusal(
            "its format has a width of more than four digits", "Write a width up to 9999."
        )
    return None


def _has_named(arguments: Sequence[Sequence[Token]]) -> bool:
    return any(len(a) > 1 and a[0].is_name and a[1].is_symbol("=>") for a in arguments)


def _repeats(arguments: Sequence[Sequence[Token]], function: str) -> int | None:
    """Return how often a call repeats, at most; 1 where a length of the row bounds it; None where
    nothing does.
    """
    if function == "sequence":
        return _members(arguments)
    place = SIZES[function]
    if len(arguments) <= place:
        return 1  # Spark refuses the call, or the argument has a small default
    if function not in _COPIES or _is_literal(arguments[0]):
        return _bounded(arguments[place])
    return _bounded(arguments[place], of_row=False)


def _members(arguments: Sequence[Sequence[Token]]) -> int | None:
    """Return how many members a sequence of whole numbers has, at most; a step only makes it
    shorter. Sequences of dates and times have no bound.
    """
    if len(arguments) < 2:
        return None
    first, last = (_number(argument) for argument in arguments[:2])
    if first is not None and last is not None:
        return abs(last - first) + 1
    ends = [_bounded(argument) for argument in arguments[:2]]
    return None if None in ends else sum(end or 0 for end in ends)


def _bounded(tokens: Sequence[Token], *, of_row: bool = True) -> int | None:
    """Return the largest amount that a sum of whole numbers and lengths of the row can have,
    lengths not counted; None for any other expression.
    """
    total, at = 0, 0
    while at < len(tokens):
        token = tokens[at]
        whole = _WHOLE.fullmatch(token.text)
        if whole and token.kind in (Kind.NUMBER, Kind.WORD):
            total += int(whole[1])
        elif of_row and token.kind is Kind.WORD and token.name.lower() in _LENGTHS:
            end = _call_end(tokens, at)
            if end is None:
                return None
            at = end
        elif not token.is_symbol("+", "-", "(", ")"):
            return None
        at += 1
    return total


def _number(tokens: Sequence[Token]) -> int | None:
    """Return the value of a whole number with or without a sign, None for anything else."""
    negative = len(tokens) == 2 and tokens[0].is_symbol("-")
    whole = _WHOLE.fullmatch(tokens[-1].text) if len(tokens) == 1 + negative else None
    return None if whole is None else int(whole[1]) * (-1 if negative else 1)


def _call_end(tokens: Sequence[Token], place: int) -> int | None:
    """Return where the call ends whose name stands at a place, None where it is not a call."""
    depth = 0
    for at in range(place + 1, len(tokens)):
        depth += tokens[at].is_symbol("(", "[") - tokens[at].is_symbol(")", "]")
        if not depth:
            return at if at > place + 1 else None
    return None


def _is_literal(tokens: Sequence[Token]) -> bool:
    return len(tokens) == 1 and tokens[0].kind in (Kind.STRING, Kind.NUMBER)


def _size_fix(function: str) -> str:
    lengths = "" if function in _COPIES else ", or a length such as size(column)"
    return f"Write a number up to {MAX_REPEATS:,}{lengths}."


def _sequence_fix() -> str:
    return (
        f"Write its ends as numbers up to {MAX_REPEATS:,} or lengths, as in "
        "sequence(1, size(column))."
    )
