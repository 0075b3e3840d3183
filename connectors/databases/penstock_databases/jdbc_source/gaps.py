"""Gaps in a growing column, which transactions that began earlier may still fill. Pure.

A database hands out numbers before the commit: row 8 can be visible while row 7 is not yet, and a
reader that goes on behind 8 would never see 7. So gaps are remembered, in the offset, too, and
looked at again: at once, then more and more rarely, for as long as `gap.wait.ms` says, and once
more after that. A rolled-back or deleted number costs a few looks, and then nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_MOST: Final = 1000
"""Gaps that are remembered: the last ones. A first load through a table with many holes would grow
the offset without end otherwise; it is the newest numbers that are still in somebody's hands."""

_RARER: Final = 8
"""A gap is looked at again after one part in so many of its age."""

_SHAPE: Final = re.compile(r"(-?\d+)\.\.(-?\d+)@(\d+)")


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers that were not there.

    Attributes:
        low, high: The first and the last.
        since: When it was seen, in seconds of a monotonic clock.
        looked: When it was last looked at.
    """

    low: int
    high: int
    since: float
    looked: float

    def is_due(self, now: float) -> bool:
        """Return whether it is time to look again."""
        return now - self.looked >= (self.looked - self.since) / _RARER


def found(before: int | None, numbers: pa.Array, now: float) -> list[Gap]:
    """Return the gaps of numbers in their order, and between them and the last one before."""
    first, last = numbers[0].as_py(), numbers[-1].as_py()
    gaps = []
    low = 1 if before is None else before + 1  # databases count from 1
    if first > low:
        gaps.append(Gap(low, first - 1, now, now))
    if last - first + 1 != len(numbers):
        wide = pc.greater(pc.pairwise_diff(numbers), 1).fill_null(False)
        for place in pc.indices_nonzero(wide)[-_MOST:].to_pylist():
            low, high = numbers[place - 1].as_py() + 1, numbers[place].as_py() - 1
            gaps.append(Gap(low, high, now, now))
    return gaps


def joined(gaps: Sequence[Gap], more: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return gaps and more of them: the last ones."""
    return (*gaps, *more)[-_MOST:]


def looked_at(
    gaps: Sequence[Gap],
    due: Sequence[Gap],
    numbers: Sequence[int],
    now: float,
    wait: float,
    *,
    is_cut: bool = False,
) -> tuple[Gap, ...]:
    """Return what is left of gaps after a look: without the numbers that are there now, and without
    those that were old enough when it was looked. A look that was cut short was none for the
    numbers behind its last row: they are due at once.
    """
    left: list[Gap] = []
    ids = sorted(numbers)
    for gap in gaps:
        if gap not in due:
            left.append(gap)
        elif is_cut:
            left += _without(gap, ids)
        elif now - gap.since < wait:
            left += _without(replace(gap, looked=now), ids)
    return tuple(left)


def _without(gap: Gap, numbers: Sequence[int]) -> list[Gap]:
    parts = []
    for number in numbers:
        if not gap.low <= number <= gap.high:
            continue
        if number > gap.low:
            parts.append(replace(gap, high=number - 1))
        gap = replace(gap, low=number + 1)
    if gap.low <= gap.high:
        parts.append(gap)
    return parts


def to_text(gaps: Sequence[Gap], now: float) -> str:
    """Return gaps as an offset has them: `5..7@3`, numbers 5 to 7, not there for 3 seconds."""
    return ",".join(f"{gap.low}..{gap.high}@{max(int(now - gap.since), 0)}" for gap in gaps)


def of_text(text: str, now: float) -> tuple[Gap, ...]:
    """Return the gaps of an offset. The time in between does not count: nobody looked.

    Raises:
        ValueError: It is no such text.
    """
    gaps = []
    for part in text.split(",") if text else ():
        match = _SHAPE.fullmatch(part)
        if match is None:
            raise ValueError(part)
        since = now - int(match[3])
        gaps.append(Gap(int(match[1]), int(match[2]), since, since))
    return tuple(gaps)
