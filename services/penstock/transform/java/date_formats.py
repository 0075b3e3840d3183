"""Translates Java's `SimpleDateFormat` patterns to Spark's, as far as both mean the same.

What Spark counts, formats or parses differently (`SSSSSS`, `YYYY`, weeks, days as numbers) is
refused, never approximated. Texts are parsed strictly: there is no 13th month, and nothing may
follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from penstock.model.errors import ConfigError

PART: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")
"""A part of a pattern: quoted text, a letter (group 1) as often as it stands, or other signs."""

_SAME_COUNTS: Final = {
    **dict.fromkeys("dDHkKhms", (1, 2)),
    "y": (1, 4),
    "M": (1, 2, 3, 4),
    "D": (1, 3),
    "E": (1, 2, 3, 4),
    "S": (3,),
    "a": (1,),
    "z": (1, 2, 3, 4),
    "Z": (1, 2, 3),
    "X": (1, 2, 3),
    "G": (1, 2, 3),
}
"""Pattern letters → counts with the same meaning in Java and Spark."""

_DIGITS: Final = frozenset("dDHkKhmsM")
"""Letters of numbers, which have two digits when the letter is doubled."""

_SPECIAL: Final = frozenset("{}[]#")
"""Characters that are literal in Java's patterns and must be quoted in Spark's."""


def translate_date_format(text: str, path: str) -> str:
    """Return the Spark pattern of the same meaning.

    Raises:
        ConfigError: `transform.bad_date_format`.
    """
    return "".join(_translate_parts(text, path))


def milliseconds_pattern(pattern: str) -> str:
    """Return a regular expression for texts whose milliseconds have three digits; empty for a
    pattern without milliseconds. Java parses `.1` as 1 ms, Spark as 100 ms.
    """
    if "SSS" not in PART.sub(lambda part: part[0] if part[1] else "", pattern):
        return ""
    return "(?s)" + "".join(_part_regex(part[0], part[1]) for part in PART.finditer(pattern))


def literal_text(part: str) -> str:
    """Return what a part of a pattern without a letter stands for: quotes are taken away."""
    return part[1:-1].replace("''", "'") or "'" if part.startswith("'") else part


def _part_regex(part: str, letter: str | None) -> str:
    if letter == "S":
        return "[0-9]{3}"
    if letter is not None:
        counted = letter in _DIGITS and len(part) == 2
        return "[0-9]{2}" if counted else ".+?"
    return re.sub(r"[^A-Za-z0-9 ]", lambda sign: f"\\{sign[0]}", literal_text(part))


def _translate_parts(text: str, path: str) -> Iterator[str]:
    for match in PART.finditer(text):
        part, letter = match[0], match[1]
        if letter is None:
            if part == "'":
                raise _invalid_format(text, "a quote is never closed", path)
            quoted = not part.startswith("'") and bool(_SPECIAL.intersection(part))
            yield f"'{part}'" if quoted else part
        elif len(part) in _SAME_COUNTS.get(letter, ()):
            yield part
        else:
            raise _invalid_format(text, f"`{part}` has no equivalent in Spark", path)


def _invalid_format(text: str, why: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.bad_date_format",
        f"`{text}` is not a supported date format: {why}",
        fix="Use y, yyyy, M to MMMM, d, D, H, h, k, K, m, s, SSS, a, E, z, Z, X and quoted text.",
        config_path=path,
    )
