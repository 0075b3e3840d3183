"""Did every row arrive, once, in order, from its one owner? Pure: values in, a report out.

The rules, each one an invariant of the architecture:

- **gap** (1, 2, 5): a row of the source is in none of sink, dead letters, filtered
- **stranger**: a row at the sink that the source never had
- **duplicate** (5): a row was committed twice, or is in two of sink, dead letters, filtered
- **reorder** (6): a row's *first* arrival came after that of a later row of its partition. A replay
  after a crash goes back, but only over rows that had arrived, so it is a duplicate, no reorder
- **stale** (4): a batch of an older epoch was taken after a newer owner's first
- **corrupt**: the checksum of a row did not fit

At-least-once modes allow duplicates and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations

from penstock.testing.ledger import Entry
from penstock.testing.spans import Span, Spans, size, text

Rows = Mapping[str, Spans]
"""Sequence numbers by partition."""


class Kind(Enum):
    """What can be wrong."""

    GAP = "gap"
    STRANGER = "stranger"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    STALE = "stale epoch"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong: which rows of which partition, and where it was seen."""

    kind: Kind
    partition: str
    spans: tuple[Span, ...]
    where: str

    @property
    def rows(self) -> int:
        """How many rows it is about."""
        return size(self.spans)

    def __str__(self) -> str:
        rows = f"{self.rows} row" + ("" if self.rows == 1 else "s")
        return f"{self.kind.value}: {self.partition}: {rows} ({text(self.spans)}) {self.where}"


@dataclass(frozen=True, slots=True)
class Report:
    """What the checker found."""

    expected: int
    delivered: int
    partitions: int
    batches: int
    defects: tuple[Defect, ...] = field(default=())

    def rows(self, kind: Kind) -> int:
        """How many rows are wrong in this way."""
        return sum(defect.rows for defect in self.defects if defect.kind is kind)

    def wrong(self, *, duplicates: int = 0) -> tuple[Defect, ...]:
        """The defects that are not allowed when up to `duplicates` rows may come twice."""
        allowed = self.rows(Kind.DUPLICATE) <= duplicates
        return tuple(d for d in self.defects if not (allowed and d.kind is Kind.DUPLICATE))

    def require(self, *, duplicates: int = 0) -> Report:
        """Return this report when it is clean.

        Raises:
            AssertionError: with the whole text of the report.
        """
        if self.wrong(duplicates=duplicates):
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        head = (
            f"{self.delivered:,} of {self.expected:,} rows arrived, in {self.batches} batches "
            f"of {self.partitions} partitions"
        )
        sums = ", ".join(f"{kind.value} {self.rows(kind)}" for kind in Kind if self.rows(kind))
        shown = [f"  {defect}" for defect in self.defects[:20]]
        more = len(self.defects) - len(shown)
        rest = [f"  … and {more} more"] if more > 0 else []
        return "\n".join([f"{head}; {sums or 'nothing is wrong'}", *shown, *rest])


def check(
    source: Rows, sink: Iterable[Entry], *, dead: Rows | None = None, filtered: Rows | None = None
) -> Report:
    """Compare what the source had with what the sink's ledger says, in the ledger's order."""
    entries = list(sink)
    arrivals = _Arrivals()
    for entry in entries:
        arrivals.take(entry)
    places = {"sink": arrivals.rows, "dead letters": dead or {}, "filtered": filtered or {}}
    defects = [*_gaps(source, places), *_in_two_places(places), *arrivals.defects]
    wanted = {key: spans.common(arrivals.rows.get(key, Spans())) for key, spans in source.items()}
    return Report(
        expected=sum(map(len, source.values())),
        delivered=sum(map(len, wanted.values())),
        partitions=len(source),
        batches=len({(entry.task, entry.epoch, entry.txn) for entry in entries}),
        defects=tuple(defects),
    )


def check_so_far(sink: Iterable[Entry]) -> Report:
    """Compare what came with itself, while a source goes on: rows that have not come are no gap."""
    entries = list(sink)
    highest: dict[str, int] = {}
    for entry in entries:
        last = max((last for _, last in entry.sequences), default=-1)
        highest[entry.partition] = max(last, highest.get(entry.partition, -1))
    return check({key: Spans([(0, last)]) for key, last in highest.items()}, entries)


class _Arrivals:
    """The rows at the sink so far, and what was wrong with the way they came."""

    def __init__(self) -> None:
        self.rows: dict[str, Spans] = defaultdict(Spans)
        self.defects: list[Defect] = []
        self._newest: dict[str, int] = {}

    def take(self, entry: Entry) -> None:
        """Take the next line of the ledger."""
        where = f"in {entry.line or f'transaction {entry.txn} of {entry.task}'}"
        newest = self._newest.setdefault(entry.task, entry.epoch)
        if entry.epoch < newest:
            place = f"{where}: epoch {entry.epoch} after {newest}"
            self._found(Kind.STALE, entry.partition, entry.sequences, place)
        self._newest[entry.task] = max(newest, entry.epoch)
        if not entry.checksum_ok:
            self._found(Kind.CORRUPT, entry.partition, entry.sequences, where)
        for span in entry.sequences:
            self._arrive(entry.partition, span, where)

    def _arrive(self, partition: str, span: Span, where: str) -> None:
        seen = self.rows[partition]
        highest = seen.highest
        again = seen.add(*span)
        self._found(Kind.DUPLICATE, partition, again, where)
        new = Spans([span]).minus(Spans(again))
        if highest is not None:
            late = new.minus(Spans([(highest, max(highest, span[1]))]))
            self._found(Kind.REORDER, partition, late, f"{where}: after {highest}")

    def _found(self, kind: Kind, partition: str, spans: Iterable[Span], where: str) -> None:
        if rows := tuple(spans):
            self.defects.append(Defect(kind, partition, rows, where))


def _gaps(source: Rows, places: Mapping[str, Rows]) -> Iterable[Defect]:
    """Rows that are nowhere, and rows that came from nowhere."""
    partitions = sorted({*source, *(key for rows in places.values() for key in rows)})
    for key in partitions:
        there = source.get(key, Spans())
        arrived = Spans().union(*(rows.get(key, Spans()) for rows in places.values()))
        if lost := tuple(there.minus(arrived)):
            yield Defect(Kind.GAP, key, lost, "in none of " + ", ".join(places))
        for place, rows in places.items():
            if strange := tuple(rows.get(key, Spans()).minus(there)):
                yield Defect(Kind.STRANGER, key, strange, f"in {place}, never sent")


def _in_two_places(places: Mapping[str, Rows]) -> Iterable[Defect]:
    for (one, rows), (other, others) in combinations(places.items(), 2):
        for key in sorted(rows.keys() & others.keys()):
            if both := tuple(rows[key].common(others[key])):
                yield Defect(Kind.DUPLICATE, key, both, f"in {one} and in {other}")
