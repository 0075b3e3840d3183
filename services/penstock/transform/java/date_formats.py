"""Java's `SimpleDateFormat` patterns as Spark's, as far as both mean the same.

What is counted, written or read otherwise there (`SSSSSS`, `YYYY`, weeks, days as numbers) is
refused, never approximated. Texts are read strictly: there is no 13th month, and nothing may
follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from penstock.model.errors import ConfigError

_PART: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")

_ALIKE: Final = {
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
"""Letters, and how often in a row they mean the same."""

_DIGITS: Final = frozenset("dDHkKhmsM")
"""Letters of numbers, which have two digits where they stand twice."""

_SPECIAL: Final = frozenset("{}[]#")
"""Signs that stand for themselves in Java's patterns, and must be quoted in Spark's."""


def spark_pattern(text: str, path: str) -> str:
    """Return Spark's pattern of the same meaning.

    Raises:
        ConfigError: `transform.bad_date_format`.
    """
    return "".join(_parts(text, path))


def fractions_of(pattern: str) -> str:
    """Return a regular expression of the texts whose milliseconds have three digits; empty for a
    pattern without milliseconds. Java reads `.1` as one millisecond, Spark as a hundred.
    """
    if "SSS" not in _PART.sub(lambda part: part[0] if part[1] else "", pattern):
        return ""
    return "(?s)" + "".join(_expression(part[0], part[1]) for part in _PART.finditer(pattern))


def _expression(part: str, letter: str | None) -> str:
    if letter == "S":
        return "[0-9]{3}"
    if letter is not None:
        counted = letter in _DIGITS and len(part) == 2
        return "[0-9]{2}" if counted else ".+?"
    text = part[1:-1].replace("''", "'") or "'" if part.startswith("'") else part
    return re.sub(r"[^A-Za-z0-9 ]", lambda sign: f"\\{sign[0]}", text)


def _parts(text: str, path: str) -> Iterator[str]:
    for match in _PART.finditer(text):
        part, letter = match[0], match[1]
        if letter is None:
            if part == "'":
                raise _bad(text, "a quote is never closed", path)
            quoted = not part.startswith("'") and bool(_SPECIAL.intersection(part))
            yield f"'{part}'" if quoted else part
        elif len(part) in _ALIKE.get(letter, ()):
            yield part
        else:
            raise _bad(text, f"`{part}` has no equal here", path)


def _bad(text: str, why: str, path: str) -> ConfigError:
    return ConfigError(
        "transform.bad_date_format",
        f"`{text}` is not a format that can be used here: {why}",
        fix="Use y, yyyy, M to MMMM, d, D, H, h, k, K, m, s, SSS, a, E, z, Z, X and quoted text.",
        config_path=path,
    )
