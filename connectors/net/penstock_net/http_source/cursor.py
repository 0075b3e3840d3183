"""Rows by a field that grows. Pure.

The offset is the largest value so far, and digests of the rows that have it: whether the other side
gives rows from that value on or only those behind it, none comes twice, and a row that appears
later with the same value is new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from penstock_connector import DataError
from penstock_net.http_source.asking import Question, at_link, question
from penstock_net.http_source.config import HttpSourceConfig
from penstock_net.http_source.decoding import Decoded
from penstock_net.http_source.pointer import field_pointer
from penstock_net.http_source.walking import Offset, Rows, Step, next_of
from penstock_net.web.client import Answer

_TIES: Final = 2000
"""Rows with the same value that an offset remembers; its size is bounded by them."""

_Order = tuple[str, Any]


class CursorWalk:
    """Rows whose field is larger than what was given, page by page where there are links."""

    def __init__(self, config: HttpSourceConfig, offset: Offset | None) -> None:
        self._config = config
        self._field = field_pointer(config.cursor_field, "cursor.field")
        self._cursor: Any = (offset or {}).get("cursor")
        self._seen: frozenset[str] = frozenset((offset or {}).get("seen", ()))
        self._link = ""

    def ask(self) -> Question:
        """Return the request for what is behind the cursor, or for the next page of it."""
        if self._link:
            return at_link(self._config, self._link)
        cursor = self._config.position_initial if self._cursor is None else str(self._cursor)
        return question(self._config, cursor)

    def took(self, answer: Answer, decoded: Decoded) -> Step:
        """Take what is new, in the order of the field."""
        ordered = sorted(((self._order(row), row) for row in decoded.rows), key=_sort_key())
        if self._link:
            self._check_order(ordered)
        new = self._new(ordered)
        link = self._next_page(answer, decoded)
        full = 0 < self._config.page_size <= len(decoded.rows)
        if full and not new and not link:
            raise _stuck(self._cursor)
        self._link = link
        return Step(new, {"cursor": self._cursor, "seen": sorted(self._seen)}, bool(link) or full)

    def _next_page(self, answer: Answer, decoded: Decoded) -> str:
        link = next_of(self._config, answer, decoded, linked=True) if decoded.rows else ""
        return "" if link == self._link else link

    def _new(self, ordered: list[tuple[_Order, dict[str, Any]]]) -> Rows:
        new: Rows = []
        for order, row in ordered:
            last = None if self._cursor is None else _order_of(self._cursor)
            if last is not None and _compare(order, last) < 0:
                continue
            mark = _digest(row)
            if last is not None and order == last:
                if mark in self._seen:
                    continue
                self._seen |= {mark}
            else:
                self._cursor, self._seen = self._field.of(row), frozenset({mark})
            if len(self._seen) > _TIES:
                raise _stuck(self._cursor)
            new.append(row)
        return new

    def _order(self, row: dict[str, Any]) -> _Order:
        return _order_of(self._field.of(row))

    def _check_order(self, ordered: Sequence[tuple[_Order, Any]]) -> None:
        """Refuse a page that begins before the end of the one before it: after a crash between the
        two, its rows would be passed over.
        """
        if ordered and _compare(ordered[0][0], _order_of(self._cursor)) < 0:
            raise DataError(
                "http.cursor_order",
                f"{self._config.cursor_field!r} does not grow from page to page: after "
                f"{self._cursor!r} comes a smaller one",
                fix="Ask for rows in ascending order; most servers have a parameter for it.",
            )


def _order_of(value: Any) -> _Order:
    """Return a value as what it is ordered by, and of which kind that is."""
    match value:
        case bool():
            pass
        case int() | float() | Decimal():
            return "number", value
        case str():
            return _text_order(value)
        case datetime():
            return "time", value.replace(tzinfo=UTC) if value.tzinfo is None else value
    shown = "nothing" if value is None or not isinstance(value, bool | list | dict) else repr(value)
    raise DataError(
        "http.cursor_missing",
        f"a row has {shown[:80]} for its cursor",
        fix="Name a field in `cursor.field` that every row has: a number, a text or a time.",
    )


def _text_order(text: str) -> _Order:
    """Times are not ordered as texts are: their zones and the lengths of fractions differ."""
    if len(text) >= 10 and text[:4].isdigit() and text[4] == "-":
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return "text", text
        return "time", moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return "text", text


def _compare(one: _Order, other: _Order) -> int:
    if one[0] != other[0]:
        raise _mixed({one[0], other[0]})
    return int(one[1] > other[1]) - int(one[1] < other[1])


def _sort_key() -> Any:
    """Return what rows are sorted by; it refuses values of several kinds."""
    kinds: set[str] = set()

    def key(item: tuple[_Order, Any]) -> Any:
        kinds.add(item[0][0])
        if len(kinds) > 1:
            raise _mixed(kinds)
        return item[0][1]

    return key


def _mixed(kinds: set[str]) -> DataError:
    return DataError(
        "http.cursor_type",
        f"cursors are of several kinds: {' and '.join(sorted(kinds))}",
        fix="Name a field in `cursor.field` that has one kind of value.",
    )


def _stuck(cursor: Any) -> DataError:
    return DataError(
        "http.cursor_stuck",
        f"more rows have the cursor {cursor!r} than a page or an offset holds",
        fix="Ask for larger pages, or name a field in `cursor.field` that fewer rows share.",
    )


def _digest(row: dict[str, Any]) -> str:
    text = json.dumps(row, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
