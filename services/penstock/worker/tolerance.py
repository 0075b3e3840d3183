"""How many bad rows a task may meet before one of them ends it. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import ConfigError

MOST: Final = 100_000
"""Bad rows that a window may allow: their places are remembered (invariant 12)."""

_WINDOW: Final = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,12})\s*")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`most` bad rows among any `among` rows that follow each other; 0 of them: none at all. No
    `among`: any number.
    """

    most: int = 0
    among: int | None = 1

    @property
    def none(self) -> bool:
        """Whether the first bad row is one too many."""
        return self.among is not None and self.most == 0


NONE: Final = Tolerance()
ALL: Final = Tolerance(among=None)


def read_tolerance(text: str) -> Tolerance:
    """Return what `errors.tolerance` says: none, all, or N/M.

    Raises:
        ConfigError: `config.wrong_type`.
    """
    known = {"none": NONE, "all": ALL}.get(text.strip().lower())
    if known is not None:
        return known
    match = _WINDOW.fullmatch(text)
    most, among = (int(number) for number in match.groups()) if match else (0, 0)
    if not 0 < most < among or most > MOST:
        raise ConfigError(
            "config.wrong_type",
            f"{text[:100]!r} is not how many bad rows are tolerated",
            fix=f"Write `none`, `all`, or `5/1000` for five among a thousand; at most {MOST:,}.",
            config_path="errors.tolerance",
        )
    return Tolerance(most, among)


class Tolerated:
    """The bad rows that one run of a task has met."""

    def __init__(self, rule: Tolerance) -> None:
        self._rule = rule
        self._latest: deque[int] = deque(maxlen=max(rule.most, 1))

    def refused(self, places: Iterable[int]) -> int | None:
        """Take bad rows by their places among all rows of the run, in order. Returns the index of
        the first that is one too many, None when all are tolerated.
        """
        rule, latest = self._rule, self._latest
        for index, place in enumerate(places):
            if rule.none:
                return index
            if rule.among is None:
                return None
            if len(latest) == rule.most and place - latest[0] < rule.among:
                return index
            latest.append(place)
        return None
