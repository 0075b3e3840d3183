"""Lines of JSON before Arrow reads them: each must be one object. Pure.

Arrow reads objects wherever they begin and end, so `{"a":1}{"b":2}` and an object over several
lines are rows to it. A line `null` and a line that is nested some ten thousand levels deep kill the
process.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock_builtin.file_source.text import lines_of

BLANK: Final = b" \t\r\n"
"""What JSON takes for space."""

MAX_LEVELS: Final = 60
"""Objects and lists of a line inside each other. Arrow's format for rows ends at 64."""

_SAFE_LEVELS: Final = 1_000
"""Levels that Arrow reads without harm, though there is no type for them."""

_MAX_INDENT: Final = 64
"""Spaces around an object that are skipped for all lines at once."""

_MAX_DIGITS: Final = 400
"""Digits of a whole number that is read as one: a double ends at 309."""

_NEWLINE, _OPEN, _CLOSE = b"\n{}"
_IS_BLANK: Final = np.isin(np.arange(256), list(BLANK))
_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?')
_BRACKETS: Final = re.compile(rb"[\[{]|[\]}]")


def count_objects(data: bytes) -> int:
    """Return the number of lines that are not blank.

    Raises:
        pa.ArrowInvalid: a line does not begin as an object or does not end as one, or is nested
            deeper than Arrow stands. If none is so and Arrow finds as many objects as there are
            lines, each line is one object: none can end a line within an object, because a line
            that begins with `{` cannot follow one that ends with `}` there.
    """
    text = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(text == _NEWLINE)
    begins = np.concatenate(([0], newlines + 1))
    ends = np.concatenate((newlines, [len(data)]))
    begins, ends = _trim(text, begins, ends)
    if np.any(text[begins] != _OPEN) or np.any(text[ends - 1] != _CLOSE):
        raise pa.ArrowInvalid("a line is not an object")
    for at in np.flatnonzero(ends - begins > 2 * _SAFE_LEVELS):
        if depth_of(data[begins[at] : ends[at]]) > _SAFE_LEVELS:
            raise pa.ArrowInvalid("a line is nested too deep")
    return len(begins)


def _trim(text: Any, begins: Any, ends: Any) -> tuple[Any, Any]:
    """Leave the spaces around lines out, and lines of nothing else."""
    for _ in range(_MAX_INDENT):
        some = begins < ends
        begins, ends = begins[some], ends[some]
        leading, trailing = _IS_BLANK[text[begins]], _IS_BLANK[text[ends - 1]]
        if not (leading.any() or trailing.any()):
            return begins, ends
        begins, ends = begins + leading, ends - (trailing & (ends - begins > leading))
    raise pa.ArrowInvalid("a line has many spaces around its object")


def depth_of(line: bytes) -> int:
    """Return how many objects and lists of a line are inside each other. It is exact above
    `MAX_LEVELS`, and may be too large below.
    """
    openings = line.count(b"{") + line.count(b"[")
    if openings <= MAX_LEVELS:
        return openings
    brackets = np.frombuffer(b"".join(_BRACKETS.findall(_TEXT.sub(b"", line))), np.uint8)
    steps = np.where((brackets == ord("{")) | (brackets == ord("[")), 1, -1)
    return int(np.cumsum(steps).max(initial=0))


@dataclass(frozen=True, slots=True)
class JsonLine:
    """A line, and the object that it is."""

    number: int
    raw: bytes
    row: dict[str, Any]


def split_objects(data: bytes) -> tuple[list[JsonLine], list[tuple[int, bytes, str]]]:
    """Return the lines that are objects, and number, bytes and fault of each that is none: only
    when a block was refused, one by one.
    """
    good: list[JsonLine] = []
    broken: list[tuple[int, bytes, str]] = []
    for number, raw in enumerate(lines_of(data)):
        if not raw.strip(BLANK):
            continue
        row = _row_of(raw)
        if isinstance(row, str):
            broken.append((number, raw, row))
        else:
            good.append(JsonLine(number, raw, row))
    return good, broken


def _row_of(line: bytes) -> dict[str, Any] | str:
    """Return the object of a line, or what is wrong with it."""
    if depth_of(line) > MAX_LEVELS:
        return f"nested deeper than {MAX_LEVELS} levels"
    try:
        value = json.loads(
            line.decode(), object_pairs_hook=_once, parse_int=_whole, parse_float=_fraction,
        )  # fmt: skip
    except _Unfit as error:
        return str(error)
    except json.JSONDecodeError as error:
        return "more than one JSON value" if error.msg == "Extra data" else "not JSON"
    if not isinstance(value, dict):
        return "not an object"
    if b"\\u" in line and not _is_unicode(value):
        return "invalid Unicode: it has a lone surrogate"
    return value


class _Unfit(ValueError):  # noqa: N818 - it carries what is wrong with a line
    """JSON that is not a row."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Unfit("an object that has a field twice")
    return fields


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _Unfit("beyond what a number can hold")
    return int(digits)


def _fraction(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _Unfit(f"beyond what a number can hold ({digits[:40]})")
    return number


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
