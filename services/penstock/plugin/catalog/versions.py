"""The order of plugin versions, and the versions that a configuration allows.

The rules are Maven's, as in Kafka Connect since 4.1 (KIP-891): `1.2.0` is exactly that version,
`[1.2,2.0)` is a range, `(,1.0],[1.2,)` are several ranges, and an empty text or `latest` is the
newest version. Trailing zeros do not count, a hyphen equals a dot, and a qualifier comes before the
release that it qualifies:

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
"""Rank of an unknown qualifier: after `sp`, before any number. Unknown ones sort by name."""
_NUMBER: Final = 3
_END: Final = (0, "", 0)
_ZERO: Final = (_NUMBER, "", 0)
_MAX_CHARACTERS: Final = 200
_RANGE: Final = re.compile(r"\s*([\[(])([^\[\](),]*)(,)?([^\[\](),]*)([\])])\s*(?:,|$)")

_Part: TypeAlias = tuple[int, str, int]


@total_ordering
class Version:
    """A version in Maven's order. Equal versions may have different texts."""

    def __init__(self, text: str) -> None:
        self.text = text
        parts = [_rank_part(part) for part in _PART.findall(text.lower()[:_MAX_CHARACTERS])]
        self._parts = _trim_parts(parts)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __lt__(self, other: Version) -> bool:
        longest = max(len(self._parts), len(other._parts))
        return _pad_parts(self._parts, longest) < _pad_parts(other._parts, longest)


@dataclass(frozen=True, slots=True)
class _Range:
    low: Version | None
    includes_low: bool
    high: Version | None
    includes_high: bool

    def contains(self, version: Version) -> bool:
        if self.low and (version < self.low or (version == self.low and not self.includes_low)):
            return False
        return not (
            self.high and (version > self.high or (version == self.high and not self.includes_high))
        )


@dataclass(frozen=True, slots=True)
class VersionRequirement:
    """The versions that `connector.plugin.version` allows. Without ranges: any version."""

    text: str = ""
    ranges: tuple[_Range, ...] = ()

    def allows(self, version: str) -> bool:
        """Return whether a version is in one of the ranges."""
        parsed = Version(version)
        return not self.ranges or any(range_.contains(parsed) for range_ in self.ranges)


def parse_requirement(text: str) -> VersionRequirement:
    """Return the requirement in a text.

    Raises:
        ValueError: it is neither a version nor ranges of versions.
    """
    text = text.strip()
    if text in {"", "latest"}:
        return VersionRequirement()
    if not re.search(r"[\[\](),]", text):
        return VersionRequirement(text, (_Range(Version(text), True, Version(text), True),))
    ranges, position = [], 0
    while position < len(text):
        match = _RANGE.match(text, position)
        if match is None:
            raise ValueError(f"cannot be read from {text[position : position + 40]!r} on")
        ranges.append(_parse_range(match))
        position = match.end()
    return VersionRequirement(text, tuple(ranges))


def _parse_range(match: re.Match[str]) -> _Range:
    opening, low, comma, high, closing = match.groups()
    low, high = low.strip(), high.strip()
    if not comma:
        if (opening, closing) != ("[", "]") or not low:
            raise ValueError(f"{match[0].strip()} is not a version: write a single one as [1.2.0]")
        return _Range(Version(low), True, Version(low), True)
    parsed = _Range(
        Version(low) if low else None,
        opening == "[",
        Version(high) if high else None,
        closing == "]",
    )
    if parsed.low and parsed.high and parsed.high < parsed.low:
        raise ValueError(f"{match[0].strip()} ends before it begins")
    return parsed


def _rank_part(part: str) -> _Part:
    if part.isdigit():
        return (_NUMBER, "", int(part))
    rank = _QUALIFIERS.get(part)
    return (_OTHER, part, 0) if rank is None else (rank, "", 0)


def _trim_parts(parts: list[_Part]) -> tuple[_Part, ...]:
    """Drop zeros and `final` at the end and before a qualifier: they do not count."""
    kept: list[_Part] = []
    for part in parts:
        if part[0] != _NUMBER:
            kept = _drop_trailing(kept)
        kept.append(part)
    return tuple(_drop_trailing(kept))


def _drop_trailing(parts: list[_Part]) -> list[_Part]:
    while parts and parts[-1] in {_END, _ZERO}:
        parts = parts[:-1]
    return parts


def _pad_parts(parts: tuple[_Part, ...], length: int) -> tuple[_Part, ...]:
    return (*parts, *(_END,) * (length - len(parts)))
