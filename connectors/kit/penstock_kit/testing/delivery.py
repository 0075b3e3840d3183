"""Check that every row arrived, once, in order, from its one owner. Pure.

The rules, with the numbers of the invariants that they check:

- **gap** (1, 2, 5): a row of the source is in none of sink, dead letters, filtered
- **stranger**: the sink has a row that the source never had
- **duplicate** (5): a row was committed twice, or is in two of sink, dead letters, filtered
- **reorder** (6): a row's *first* arrival came after that of a later row of its partition. A replay
  after a crash repeats only rows that had arrived, so it is a duplicate, not a reorder
- **stale** (4): a batch of an older epoch was committed after the first one of a newer owner
- **corrupt**: the checksum of a row is wrong

At-least-once modes allow duplicates and no other defect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations

from penstock_kit.testing.ledger import Entry, Span, Spans, count_numbers, format_spans

Rows = Mapping[str, Spans]
"""Sequence numbers by partition."""


class Kind(Enum):
    """Kinds of defects."""

    GAP = "gap"
    STRANGER = "stranger"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    STALE = "stale epoch"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect: its rows, their partition, and the line of the ledger or the places."""

    kind: Kind
    partition: str
    spans: tuple[Span, ...]
    place: str

    @property
    def rows(self) -> int:
        """Number of its rows."""
        return count_numbers(self.spans)

    def __str__(self) -> str:
        rows = f"{self.rows} row" + ("" if self.rows == 1 else "s")
        return (
            f"{self.kind.value}: {self.partition}: {rows} ({format_spans(self.spans)}) {self.place}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check: counts of rows and batches, and the defects."""

    expected: int
    delivered: int
    partitions: int
    batches: int
    defects: tuple[Defect, ...] = field(default=())

    def rows(self, kind: Kind) -> int:
        """Return the number of rows with a kind of defect."""
        return sum(defect.rows for defect in self.defects if defect.kind is kind)

    def violations(self, *, duplicates: int = 0) -> tuple[Defect, ...]:
        """Return the defects that are not allowed when up to `duplicates` rows may come twice."""
        allowed = self.rows(Kind.DUPLICATE) <= duplicates
        return tuple(d for d in self.defects if not (allowed and d.kind is Kind.DUPLICATE))

    def require(self, *, duplicates: int = 0) -> Report:
        """Return this report when it has no violations.

        Raises:
            AssertionError: with the text of the report.
        """
        if self.violations(duplicates=duplicates):
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        summary = (
            f"{self.delivered:,} of {self.expected:,} rows arrived, in {self.batches} batches "
            f"of {self.partitions} partitions"
        )
        sums = ", ".join(f"{kind.value} {self.rows(kind)}" for kind in Kind if self.rows(kind))
        shown = [f"  {defect}" for defect in self.defects[:20]]
        more = len(self.defects) - len(shown)
        rest = [f"  … and {more} more"] if more > 0 else []
        return "\n".join([f"{summary}; {sums or 'no defects'}", *shown, *rest])


def check_delivery(
    source: Rows, sink: Iterable[Entry], *, dead: Rows | None = None, filtered: Rows | None = None
) -> Report:
    """Compare the rows of the source with the ledger of the sink, in the ledger's order. `dead` are
    rows in dead letters, `filtered` those that a transform has dropped.
    """
    entries = list(sink)
    arrivals = _Arrivals()
    for entry in entries:
        arrivals.add(entry)
    places = {"sink": arrivals.rows, "dead letters": dead or {}, "filtered": filtered or {}}
    defects = [
        *_gaps_and_strangers(source, places),
        *_rows_in_two_places(places),
        *arrivals.defects,
    ]
    delivered = {
        key: spans.common(arrivals.rows.get(key, Spans())) for key, spans in source.items()
    }
    return Report(
        expected=sum(map(len, source.values())),
        delivered=sum(map(len, delivered.values())),
        partitions=len(source),
        batches=len({(entry.task, entry.epoch, entry.txn) for entry in entries}),
        defects=tuple(defects),
    )


def check_delivery_so_far(sink: Iterable[Entry]) -> Report:
    """Check a ledger while its source goes on: rows that have not come yet are no gap."""
    entries = list(sink)
    highest: dict[str, int] = {}
    for entry in entries:
        last = max((last for _, last in entry.sequences), default=-1)
        highest[entry.partition] = max(last, highest.get(entry.partition, -1))
    return check_delivery({key: Spans([(0, last)]) for key, last in highest.items()}, entries)


class _Arrivals:
    """The rows at the sink so far, and the defects of their arrival."""

    def __init__(self) -> None:
        self.rows: dict[str, Spans] = defaultdict(Spans)
        self.defects: list[Defect] = []
        self._newest: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Add the next line of the ledger."""
        place = f"in {entry.line or f'transaction {entry.txn} of {entry.task}'}"
        newest = self._newest.setdefault(entry.task, entry.epoch)
        if entry.epoch < newest:
            stale = f"{place}: epoch {entry.epoch} after {newest}"
            self._report(Kind.STALE, entry.partition, entry.sequences, stale)
        self._newest[entry.task] = max(newest, entry.epoch)
        if not entry.checksum_ok:
            self._report(Kind.CORRUPT, entry.partition, entry.sequences, place)
        for span in entry.sequences:
            self._arrive(entry.partition, span, place)

    def _arrive(self, partition: str, span: Span, place: str) -> None:
        arrived = self.rows[partition]
        highest = arrived.highest
        repeated = arrived.add(*span)
        self._report(Kind.DUPLICATE, partition, repeated, place)
        new = Spans([span]).minus(Spans(repeated))
        if highest is not None:
            late = new.minus(Spans([(highest, max(highest, span[1]))]))
            self._report(Kind.REORDER, partition, late, f"{place}: after {highest}")

    def _report(self, kind: Kind, partition: str, spans: Iterable[Span], place: str) -> None:
        if rows := tuple(spans):
            self.defects.append(Defect(kind, partition, rows, place))


def _gaps_and_strangers(source: Rows, places: Mapping[str, Rows]) -> Iterable[Defect]:
    """Yield rows of the source that are in no place, and rows in a place that it never had."""
    partitions = sorted({*source, *(key for rows in places.values() for key in rows)})
    for key in partitions:
        sent = source.get(key, Spans())
        arrived = Spans().union(*(rows.get(key, Spans()) for rows in places.values()))
        if lost := tuple(sent.minus(arrived)):
            yield Defect(Kind.GAP, key, lost, "in none of " + ", ".join(places))
        for place, rows in places.items():
            if strange := tuple(rows.get(key, Spans()).minus(sent)):
                yield Defect(Kind.STRANGER, key, strange, f"in {place}, never sent")


def _rows_in_two_places(places: Mapping[str, Rows]) -> Iterable[Defect]:
    for (one, rows), (other, others) in combinations(places.items(), 2):
        for key in sorted(rows.keys() & others.keys()):
            if both := tuple(rows[key].common(others[key])):
                yield Defect(Kind.DUPLICATE, key, both, f"in {one} and in {other}")
