"""Places in streams, and what a stream has lost. Pure.

A place is the id of the entry that was read last, and how many entries the stream had ever got when
that one came. The server counts what it ever got, too, and what it has; so it is known whether
entries were trimmed that nobody read, without a group of consumers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock_values.start_times import EXAMPLES, is_start_time, start_time_ms

_ID: Final = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?", re.ASCII)
_MOST: Final = 2**64 - 1


class EntryId(NamedTuple):
    """The id of an entry: milliseconds, and a number in them."""

    ms: int
    number: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.number}"


FIRST: Final = EntryId(0, 0)
"""Before every entry."""


def parse_id(text: str) -> EntryId | None:
    """Return an id, `1526919030474-55` or `1526919030474`; None for another text."""
    found = _ID.fullmatch(text)
    if found is None:
        return None
    parsed = EntryId(int(found[1]), int(found[2] or 0))
    return parsed if max(parsed) <= _MOST else None


def id_before(at_ms: int) -> EntryId:
    """Return the id before all entries of a time or later."""
    return EntryId(at_ms - 1, _MOST) if at_ms > 0 else FIRST


@dataclass(frozen=True, slots=True)
class Place:
    """How far a stream was read.

    Attributes:
        after: The id of the last entry that was read.
        count: Entries that the stream had ever got up to that one; None where it is not known.
    """

    after: EntryId
    count: int | None = None

    def offset(self) -> dict[str, Any]:
        """Return it as an offset."""
        found: dict[str, Any] = {"id": str(self.after)}
        return found if self.count is None else {**found, "count": self.count}

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> Place:
        """Return the place that an offset means."""
        count = offset.get("count")
        after = parse_id(str(offset.get("id", ""))) or FIRST
        return cls(after, None if count is None else int(count))


@dataclass(frozen=True, slots=True)
class Stream:
    """What a server tells of a stream, at one moment.

    Attributes:
        length: Entries that it has.
        added: Entries that it ever got.
        first: Id of the oldest one that it has; of an empty one `FIRST`.
        last: Id of the newest one that it ever got.
    """

    length: int = 0
    added: int = 0
    first: EntryId = FIRST
    last: EntryId = FIRST

    @classmethod
    def told(cls, answer: list[Any] | None) -> Stream | None:
        """Return what XINFO STREAM answered; None: there is no such stream."""
        if answer is None:
            return None
        found = dict(zip(answer[::2], answer[1::2], strict=True))
        first = found[b"first-entry"]
        return cls(
            int(found[b"length"]),
            int(found[b"entries-added"]),
            _told_id(first[0]) if first else FIRST,
            _told_id(found[b"last-generated-id"]),
        )

    @property
    def gone(self) -> int:
        """Entries that it had and has no more."""
        return self.added - self.length


def _told_id(text: bytes) -> EntryId:
    return parse_id(text.decode()) or FIRST


def find_loss(place: Place, stream: Stream | None) -> str:
    """Return what was lost behind a place; empty when nothing was."""
    if stream is None:
        return ""  # when it comes again, it is seen that it is another one
    if stream.last < place.after or (place.count is not None and stream.added < place.count):
        return "it was deleted, or the server lost it, and it is another one now"
    if stream.length and stream.first <= place.after:
        return ""
    if place.count is None:
        return _trimmed(None) if stream.last > place.after else ""
    if stream.gone < place.count:
        return "it was deleted, or the server lost it, and it is another one now"
    return _trimmed(stream.gone - place.count) if stream.gone > place.count else ""


def _trimmed(number: int | None) -> str:
    many = "entries" if number is None else f"{number} entries"
    return f"{many} behind that were trimmed or deleted before they were read"


def start_place(start: str, stream: Stream | None, now: float) -> Place:
    """Return where a stream begins that was never read.

    Args:
        start: `earliest`, `latest`, an id, or a time.
        stream: The stream at this moment.
        now: Seconds since 1970.
    """
    found = stream or Stream()
    if start == "latest":
        return Place(found.last, found.added)
    after = FIRST if start == "earliest" else parse_id(start)
    if after is None:
        after = id_before(start_time_ms(start, now) or 0)
    if not found.length or found.first > after:
        return Place(after, found.gone)  # all that is gone was gone before
    return Place(after)


def is_start(start: str) -> bool:
    """Return whether a text is one of `start_place`."""
    known = start in {"earliest", "latest"} or is_start_time(start)
    return known or parse_id(start) is not None


STARTS: Final = ("earliest", "latest", "1526919030474-55", *EXAMPLES)
"""One of each, for messages."""


def next_place(place: Place, stream: Stream, last: EntryId, entries: int, *, is_end: bool) -> Place:
    """Return the place behind entries that were read at the moment of `stream`. At the end of it
    the server's own count is exact, whatever was deleted among the entries.
    """
    if is_end:
        return Place(last, stream.added)
    return Place(last, None if place.count is None else place.count + entries)
