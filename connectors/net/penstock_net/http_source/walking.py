"""How the next request follows from an answer, and what the offset is. Pure.

An offset names a page and how many of its rows were given: pages grow at their end, so the last one
is asked for again, and only what is behind those rows is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from penstock_connector import OffsetLostError
from penstock_net.http_source.asking import Question, at_link, full_link, question
from penstock_net.http_source.config import HttpSourceConfig
from penstock_net.http_source.decoding import Decoded
from penstock_net.http_source.pointer import MISSING, Pointer
from penstock_net.web.client import Answer
from penstock_net.web.headers import next_link

Offset = Mapping[str, Any]
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """What an answer brought.

    Attributes:
        rows: The rows that are new.
        offset: Where to go on after them.
        more: There may be more at once; else it is time to wait.
    """

    rows: Rows
    offset: Offset
    more: bool


class Walk(Protocol):
    """A way through the answers. It is asked what to ask, and shown what came."""

    def ask(self) -> Question:
        """Return the next request."""

    def took(self, answer: Answer, decoded: Decoded) -> Step:
        """Learn what came, and go on."""


class SnapshotWalk:
    """All rows, whenever the answer is another one."""

    def __init__(self, config: HttpSourceConfig, offset: Offset | None) -> None:
        self._config = config
        self._digest = str((offset or {}).get("digest", ""))

    def ask(self) -> Question:
        """Return the one request."""
        return question(self._config, "")

    def took(self, answer: Answer, decoded: Decoded) -> Step:
        """Take all rows, unless they are those that were given last."""
        digest = hashlib.sha256(answer.body).hexdigest()
        rows = [] if digest == self._digest else decoded.rows
        self._digest = digest
        offset = {
            "digest": digest,
            "etag": answer.header("ETag"),
            "modified": answer.header("Last-Modified"),
        }
        return Step(rows, offset, more=False)


class PageWalk:
    """Pages with numbers. Where the size of a full one is not known, a page is full when there are
    rows on the one after it.
    """

    def __init__(self, config: HttpSourceConfig, offset: Offset | None) -> None:
        self._config = config
        place = offset or {}
        self._page = int(place.get("page", config.first_number))
        self._taken = int(place.get("taken", 0))
        self._ahead = False

    def ask(self) -> Question:
        """Return the request for the page, or for the one after it."""
        return question(self._config, str(self._page + self._ahead))

    def took(self, answer: Answer, decoded: Decoded) -> Step:
        """Take what is new on the page."""
        rows = decoded.rows
        if self._ahead:
            self._ahead = False
            if not rows:
                return self._step([], more=False)
            self._page, self._taken = self._page + 1, 0
        new = _behind(rows, self._taken, f"page {self._page}")
        self._taken = len(rows)
        if not self._config.page_size:
            self._ahead = bool(rows)
            return self._step(new, more=self._ahead)
        if len(rows) < self._config.page_size:
            return self._step(new, more=False)
        self._page, self._taken = self._page + 1, 0
        return self._step(new, more=True)

    def _step(self, rows: Rows, *, more: bool) -> Step:
        return Step(rows, {"page": self._page, "taken": self._taken}, more)


class RowWalk:
    """Rows by their number: so many are passed over."""

    def __init__(self, config: HttpSourceConfig, offset: Offset | None) -> None:
        self._config = config
        self._row = int((offset or {}).get("row", config.first_number))

    def ask(self) -> Question:
        """Return the request for what follows."""
        return question(self._config, str(self._row))

    def took(self, answer: Answer, decoded: Decoded) -> Step:
        """Take all: what was given before is passed over at the other side."""
        self._row += len(decoded.rows)
        more = len(decoded.rows) >= max(self._config.page_size, 1)
        return Step(decoded.rows, {"row": self._row}, more)


class NextWalk:
    """Pages that name the one after them, by an address or by a token."""

    def __init__(self, config: HttpSourceConfig, offset: Offset | None) -> None:
        self._config = config
        place = offset or {}
        self._next = str(place.get("next", "" if _is_link(config) else config.position_initial))
        self._taken = int(place.get("taken", 0))

    def ask(self) -> Question:
        """Return the request for the page."""
        if self._next and _is_link(self._config):
            return at_link(self._config, self._next)
        return question(self._config, self._next)

    def took(self, answer: Answer, decoded: Decoded) -> Step:
        """Take what is new on the page, and go where it points."""
        new = _behind(decoded.rows, self._taken, "a page")
        link = next_of(self._config, answer, decoded, linked=_is_link(self._config))
        more = bool(link) and link != self._next
        self._next, self._taken = (link, 0) if more else (self._next, len(decoded.rows))
        return Step(new, {"next": self._next, "taken": self._taken}, more)


def _is_link(config: HttpSourceConfig) -> bool:
    """Return whether the next page has an address of its own, or a token goes into ours."""
    return not config.carries_position


def next_of(config: HttpSourceConfig, answer: Answer, decoded: Decoded, *, linked: bool) -> str:
    """Return the next page's address, if it is `linked`, or token; empty when there is none."""
    if config.next_pointer:
        found = Pointer(config.next_pointer, "next.pointer").of(decoded.document)
        link = "" if found is MISSING or found in (None, False) else str(found)
    else:
        link = next_link(answer.header("Link"))
    return full_link(config, answer.url, link) if link and linked else link


def _behind(rows: Rows, taken: int, place: str) -> Rows:
    """Return the rows behind those that were given."""
    if len(rows) < taken:
        raise OffsetLostError(
            "http.rows_vanished",
            f"{place} had {taken} rows when it was read, and has {len(rows)} now",
            fix="Rows that vanish shift those behind them, so some could be missed: read by "
            "`mode=cursor`, or reset the connector's offsets to read all again.",
        )
    return rows[taken:]
