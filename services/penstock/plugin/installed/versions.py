"""Versions of plugins in their order, and which of them a configuration allows.

As Kafka Connect has it since 4.1 (KIP-891), with Maven's rules: `1.2.0` is exactly that version,
`[1.2,2.0)` a range, `(,1.0],[1.2,)` several, and nothing, or `latest`, the newest. Zeros at the end
do not count, a hyphen is as good as a dot, and a qualifier comes before the release that it
qualifies:

    1.0-alpha < 1.0-beta < 1.0-milestone < 1.0-rc < 1.0-SNAPSHOT < 1.0 = 1 = 1.0.0 < 1.0-sp < 1.0.1
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Final, TypeAlias

_PART: Final = re.compile(r"\d+|[a-z]+")
_QUALIFIERS: Final = {
    "alpha": -5,
    "a": -5,
    "beta": -4,
    "b": -4,
    "milestone": -3,
    "m": -3,
    "rc": -2,
    "cr": -2,
    "snapshot": -1,
    "ga": 0,
    "final": 0,
    "release": 0,
    "sp": 1,
}
_OTHER: Final = 2
"""Rank of a qualifier that means nothing: after `sp`, before any number; among them by letters."""
_NUMBER: Final = 3
_END: Final = (0, "", 0)
_ZERO: Final = (_NUMBER, "", 0)
_MOST_CHARACTERS: Final = 200
_RANGE: Final = re.compile(r"\s*([\[(])([^\[\](),]*)(,)?([^\[\](),]*)([\])])\s*(?:,|$)")

_Part: TypeAlias = tuple[int, str, int]


@total_ordering
class Version:
    """A version in Maven's order. Equal ones may be written in several ways."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = [_ranked(part) for part in _PART.findall(text.lower()[:_MOST_CHARACTERS])]
        self._parts = _trimmed(parts)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __lt__(self, other: Version) -> bool:
        longest = max(len(self._parts), len(other._parts))
        return _filled(self._parts, longest) < _filled(other._parts, longest)


@dataclass(frozen=True, slots=True)
class _Range:
    low: Version | None
    low_in: bool
    high: Version | None
    high_in: bool

    def holds(self, version: Version) -> bool:
        if self.low and (version < self.low or (version == self.low and not self.low_in)):
            return False
        return not (
            self.high and (version > self.high or (version == self.high and not self.high_in))
        )


@dataclass(frozen=True, slots=True)
class Requirement:
    """What `connector.plugin.version` asks for. No range: any version."""

    text: str = ""
    ranges: tuple[_Range, ...] = ()

    def allows(self, version: str) -> bool:
        """Tell whether a version may be taken."""
        one = Version(version)
        return not self.ranges or any(range_.holds(one) for range_ in self.ranges)


def parse_requirement(text: str) -> Requirement:
    """Return the requirement in a text.

    Raises:
        ValueError: it is neither a version nor ranges of versions.
    """
    text = text.strip()
    if text in {"", "latest"}:
        return Requirement()
    if not re.search(r"[\[\](),]", text):
        return Requirement(text, (_Range(Version(text), True, Version(text), True),))
    ranges, at = [], 0
    while at < len(text):
        match = _RANGE.match(text, at)
        if match is None:
            raise ValueError(f"cannot be read from {text[at : at + 40]!r} on")
        ranges.append(_range(match))
        at = match.end()
    return Requirement(text, tuple(ranges))


def _range(match: re.Match[str]) -> _Range:
    opened, low, comma, high, closed = match.groups()
    low, high = low.strip(), high.strip()
    if not comma:
        if (opened, closed) != ("[", "]") or not low:
            raise ValueError(f"{match[0].strip()} is no version: one alone stands in [ ]")
        return _Range(Version(low), True, Version(low), True)
    found = _Range(
        Version(low) if low else None,
        opened == "[",
        Version(high) if high else None,
        closed == "]",
    )
    if found.low and found.high and found.high < found.low:
        raise ValueError(f"{match[0].strip()} ends before it begins")
    return found


def _ranked(part: str) -> _Part:
    if part.isdigit():
        return (_NUMBER, "", int(part))
    rank = _QUALIFIERS.get(part)
    return (_OTHER, part, 0) if rank is None else (rank, "", 0)


def _trimmed(parts: list[_Part]) -> tuple[_Part, ...]:
    """Leave out what makes no difference: zeros and `final` at the end, and before a qualifier."""
    kept: list[_Part] = []
    for part in parts:
        if part[0] != _NUMBER:
            kept = _without_nothing(kept)
        kept.append(part)
    return tuple(_without_nothing(kept))


def _without_nothing(parts: list[_Part]) -> list[_Part]:
    while parts and parts[-1] in {_END, _ZERO}:
        parts = parts[:-1]
    return parts


def _filled(parts: tuple[_Part, ...], length: int) -> tuple[_Part, ...]:
    return (*parts, *(_END,) * (length - len(parts)))
