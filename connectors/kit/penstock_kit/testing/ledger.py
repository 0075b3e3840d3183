"""The ledger that the verifiable sink writes, and sets of sequence numbers.

The ledger is append-only and has one JSON object for each committed batch. A line is one
partition's part of one transaction:

    {"epoch": 7, "task": "c/0", "txn": 12, "slot": 0, "source_task": 1, "partition": "1",
     "sequences": [[0, 499], [600, 699]], "rows": 600, "checksum_ok": true, "mono_ns": 123456789}

A line with a single range may have `first_seq` and `last_seq` instead. Ranges are in the order of
their rows. A line that a crash cut short has no newline and was never committed: it is `torn`, not
an error. Any other unreadable line is an error: half a ledger would report a loss as a success.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Span = tuple[int, int]
"""First and last sequence number, both included."""


class Spans:
    """A set of whole numbers as sorted ranges that neither overlap nor touch.

    A million rows in order cost one pair of numbers.
    """

    __slots__ = ("_firsts", "_lasts")
    __hash__ = None  # type: ignore[assignment]  # mutable

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
        """Add a range; return the parts of it that were in the set before.

        Raises:
            ValueError: `first` is after `last`.
        """
        if first > last:
            raise ValueError(f"a range from {first} to {last} is empty")
        start = bisect_left(self._lasts, first - 1)  # the first range that reaches ours, or touches
        stop = start
        known = [_overlap(span, (first, last)) for span in self._meeting(first, last)]
        low, high = first, last
        while stop < len(self._firsts) and self._firsts[stop] <= last + 1:
            low, high = min(low, self._firsts[stop]), max(high, self._lasts[stop])
            stop += 1
        self._firsts[start:stop], self._lasts[start:stop] = [low], [high]
        return known

    def minus(self, other: Spans) -> Spans:
        """Return the numbers that are not in `other`."""
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
        """Return the numbers that are in both."""
        return self.minus(self.minus(other))

    def union(self, *others: Spans) -> Spans:
        """Return the numbers that are in any of them."""
        return Spans(span for spans in (self, *others) for span in spans)

    def _meeting(self, first: int, last: int) -> Iterator[Span]:
        place = bisect_left(self._lasts, first)
        while place < len(self._firsts) and self._firsts[place] <= last:
            yield self._firsts[place], self._lasts[place]
            place += 1

    def __iter__(self) -> Iterator[Span]:
        return iter(list(zip(self._firsts, self._lasts, strict=True)))

    def __len__(self) -> int:
        return count_numbers(self)

    def __contains__(self, number: int) -> bool:
        place = bisect_left(self._lasts, number)
        return place < len(self._lasts) and self._firsts[place] <= number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Spans({format_spans(self)})"


def count_numbers(spans: Iterable[Span]) -> int:
    """Return how many numbers the ranges contain."""
    return sum(last - first + 1 for first, last in spans)


def format_spans(spans: Iterable[Span], limit: int = 8) -> str:
    """Return ranges as text: `0-4, 7, 9-11, … 3 more`."""
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    more = len(parts) - limit
    return ", ".join(parts[:limit]) + (f", … {more} more" if more > 0 else "")


def _overlap(one: Span, other: Span) -> Span:
    return max(one[0], other[0]), min(one[1], other[1])


class LedgerError(ValueError):
    """A line of a ledger is not an entry of the verifiable sink."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Rows of one partition in one committed batch. `source_task` and `slot` are -1 if unknown."""

    epoch: int
    task: str
    txn: int
    partition: str
    sequences: tuple[Span, ...]
    rows: int
    checksum_ok: bool = True
    slot: int = -1
    source_task: int = -1
    mono_ns: int = 0
    line: str = ""

    def __post_init__(self) -> None:
        if self.rows != count_numbers(self.sequences):
            raise LedgerError(f"{self.line or self}: {self.rows} rows in {self.sequences}")


@dataclass(frozen=True, slots=True)
class Ledger:
    """The committed batches in order of commit. `torn` are the lines that a crash cut short."""

    entries: tuple[Entry, ...]
    torn: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of written rows; a repeated row counts each time."""
        return sum(entry.rows for entry in self.entries)


def read_ledger(path: Path) -> Ledger:
    """Return the ledger in a file, or in all `*.jsonl` files of a folder, merged by time.

    A path that does not exist is an empty ledger.

    Raises:
        LedgerError: a complete line is not an entry.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    entries: list[Entry] = []
    torn: list[str] = []
    for file in files:
        lines, rest = _complete_lines(file)
        entries += parse_lines(lines, str(file))
        torn += [rest] if rest else []
    # One machine has one monotonic clock; within a file the order of lines decides.
    ordered = sorted(entries, key=lambda entry: entry.mono_ns) if len(files) > 1 else entries
    return Ledger(tuple(ordered), tuple(torn))


def parse_lines(lines: Iterable[str], name: str = "ledger") -> Iterator[Entry]:
    """Yield the entries of complete lines. `name` stands for the file in errors."""
    for number, line in enumerate(lines, start=1):
        place = f"{name}:{number}"
        try:
            fields = json.loads(line)
            yield _entry(fields, place)
        except LedgerError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"{place}: not an entry ({error!r}): {line[:200]}") from error


def _complete_lines(file: Path) -> tuple[list[str], str]:
    if not file.exists():
        return [], ""
    *complete, rest = file.read_text(encoding="utf-8", errors="replace").split("\n")
    return complete, rest


def _entry(fields: Mapping[str, Any], place: str) -> Entry:
    return Entry(
        epoch=int(fields["epoch"]),
        task=str(fields["task"]),
        txn=int(fields["txn"]),
        partition=str(fields["partition"]),
        sequences=_sequences(fields),
        rows=int(fields["rows"]),
        checksum_ok=bool(fields["checksum_ok"]),
        slot=int(fields.get("slot", -1)),
        source_task=int(fields.get("source_task", -1)),
        mono_ns=int(fields.get("mono_ns", 0)),
        line=place,
    )


def _sequences(fields: Mapping[str, Any]) -> tuple[Span, ...]:
    if "sequences" in fields:
        return tuple((int(first), int(last)) for first, last in fields["sequences"])
    return ((int(fields["first_seq"]), int(fields["last_seq"])),)
