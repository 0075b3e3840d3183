"""Sets of sequence numbers, kept as ranges: a million rows in order cost one pair of numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

Span = tuple[int, int]
"""First and last sequence number, both inside."""


class Spans:
    """A set of whole numbers as sorted ranges that neither overlap nor touch."""

    __slots__ = ("_firsts", "_lasts")
    __hash__ = None  # type: ignore[assignment]  # it changes, so it is no key

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in spans:
            self.add(first, last)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Spans:
        """Return the set of these numbers."""
        return cls((number, number) for number in numbers)

    @property
    def highest(self) -> int | None:
        """The highest number, None for the empty set."""
        return self._lasts[-1] if self._lasts else None

    def add(self, first: int, last: int) -> list[Span]:
        """Put a range in; returns the parts of it that were in already.

        Raises:
            ValueError: `first` is after `last`.
        """
        if first > last:
            raise ValueError(f"a range from {first} to {last} holds nothing")
        start = bisect_left(self._lasts, first - 1)  # the first range that reaches ours, or touches
        stop = start
        again = [_overlap(span, (first, last)) for span in self._meeting(first, last)]
        low, high = first, last
        while stop < len(self._firsts) and self._firsts[stop] <= last + 1:
            low, high = min(low, self._firsts[stop]), max(high, self._lasts[stop])
            stop += 1
        self._firsts[start:stop], self._lasts[start:stop] = [low], [high]
        return again

    def minus(self, other: Spans) -> Spans:
        """Return what is here and not in `other`."""
        result = Spans()
        for first, last in self:
            low = first
            for hole in other._meeting(first, last):
                if low < hole[0]:
                    result.add(low, hole[0] - 1)
                low = hole[1] + 1
            if low <= last:
                result.add(low, last)
        return result

    def common(self, other: Spans) -> Spans:
        """Return what is in both."""
        return self.minus(self.minus(other))

    def union(self, *others: Spans) -> Spans:
        """Return what is in any of them."""
        return Spans(span for spans in (self, *others) for span in spans)

    def _meeting(self, first: int, last: int) -> Iterator[Span]:
        place = bisect_left(self._lasts, first)
        while place < len(self._firsts) and self._firsts[place] <= last:
            yield self._firsts[place], self._lasts[place]
            place += 1

    def __iter__(self) -> Iterator[Span]:
        return iter(list(zip(self._firsts, self._lasts, strict=True)))

    def __len__(self) -> int:
        return size(self)

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self._lasts, number)
        return place < len(self._lasts) and self._firsts[place] <= number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Spans({text(self)})"


def size(spans: Iterable[Span]) -> int:
    """Return how many numbers the ranges hold."""
    return sum(last - first + 1 for first, last in spans)


def text(spans: Iterable[Span], limit: int = 8) -> str:
    """Return ranges for people: `0-4, 7, 9-11, … 3 more`."""
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    more = len(parts) - limit
    return ", ".join(parts[:limit]) + (f", … {more} more" if more > 0 else "")


def _overlap(one: Span, other: Span) -> Span:
    return max(one[0], other[0]), min(one[1], other[1])
