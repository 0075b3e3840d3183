"""Where the records of CSV begin and end, as RFC 4180 says. Pure.

A quote opens a quoted value only at the start of a field; elsewhere it is a character like any
other. Newlines, delimiters and carriage returns inside a quoted value, or behind an escape, are
part of the value. The Arrow parser reads the same way, so a block that is cut here between two
records is read there as whole records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock_builtin.file_source.cutting import Cut, cut_lines
from penstock_builtin.file_source.text import BOM

Places: TypeAlias = NDArray[np.int64]
"""Ascending positions in a block."""

_LF: Final = b"\n"
_CR: Final = b"\r"
_NONE: Final = np.zeros(0, np.int64)
_FIRST: Final = 4096
"""Bytes that are searched first for the end of a header."""


@dataclass(frozen=True)
class Dialect:
    """The characters of a CSV file that mean something; an empty quote or escape is none."""

    delimiter: bytes
    quote: bytes = b'"'
    escape: bytes = b""

    @property
    def marks(self) -> bytes:
        """All of them, the delimiter first."""
        return self.delimiter + self.quote + self.escape

    @cached_property
    def tokens(self) -> re.Pattern[bytes]:
        """The pattern of the rest of a quoted value, up to its closing quote."""
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        if not escape:
            return re.compile(b"[^%b]*+(?:%b%b[^%b]*+)*+%b" % ((quote,) * 5))
        inside = b"(?:[^%b%b]++|%b.|%b%b)*+%b" % (quote, escape, escape, quote, quote, quote)
        return re.compile(inside, re.DOTALL)

    def values(self, record: bytes) -> list[bytes]:
        """Return the values of a record without its line end."""
        return [self._value(field) for field in self.fields(record)]

    def fields(self, record: bytes) -> list[bytes]:
        """Return the fields of a record without its line end as they are written, with quotes."""
        records = Records(record, len(record), self)
        edges = [*records.delimiters.tolist(), len(record)]
        begins = [0, *(edge + 1 for edge in edges)]
        return [record[begin:edge] for begin, edge in zip(begins, edges, strict=False)]

    def field(self, value: bytes) -> bytes | None:
        """Return a value as a field is written; None: this dialect has no way to write it."""
        marks = (self.delimiter, self.quote, self.escape, _LF, _CR)
        if not any(mark and mark in value for mark in marks):
            return value
        if self.quote:
            escaped = value.replace(self.escape, self.escape * 2) if self.escape else value
            return self.quote + escaped.replace(self.quote, self.quote * 2) + self.quote
        if not self.escape:
            return None
        special = b"[%b]" % b"".join(re.escape(mark) for mark in marks if mark)
        return re.sub(special, lambda found: self.escape + found[0], value)

    def _value(self, field: bytes) -> bytes:
        if not self.quote or not field.startswith(self.quote):
            return self._unescaped(field)
        closed = self.tokens.match(field, 1)
        inside, rest = (
            (field[1:], b"") if closed is None else (closed[0][:-1], field[closed.end() :])
        )
        if not self.escape:
            return inside.replace(self.quote * 2, self.quote) + rest
        plain = re.sub(
            b"%b(.)|%b(%b)" % (re.escape(self.escape), *(re.escape(self.quote),) * 2),
            lambda found: found[1] or found[2],
            inside,
            flags=re.DOTALL,
        )
        return plain + self._unescaped(rest)

    def _unescaped(self, text: bytes) -> bytes:
        if not self.escape:
            return text
        return re.sub(re.escape(self.escape) + b"(.)", rb"\1", text, flags=re.DOTALL)


class Bounds(NamedTuple):
    """Where each record begins and ends, and how many lines are before it."""

    begins: Places
    ends: Places
    lines: Places


class Records:
    """The records in the first `size` bytes of a block, which begins with a record.

    Args:
        data: The block.
        size: How much of it counts.
        dialect: Its characters.
        is_start: The block is the start of a file, where a byte order mark may stand.
    """

    def __init__(
        self, data: bytes | bytearray, size: int, dialect: Dialect, *, is_start: bool = False
    ) -> None:
        self._data, self._size, self._dialect = data, size, dialect
        self._bytes = np.frombuffer(data, np.uint8, size) if size else np.zeros(0, np.uint8)
        self._first = len(BOM) if is_start and data.startswith(BOM) else 0

    @cached_property
    def ends(self) -> Places:
        """The ends of records, each behind its newline; the last may lack one."""
        ends = self.newline_ends
        is_whole = self._size == 0 or (ends.size and ends[-1] == self._size)
        return ends if is_whole else np.append(ends, self._size)

    @cached_property
    def newline_ends(self) -> Places:
        """The ends of those records that end with a newline."""
        return self._outside(self._places(_LF)) + 1

    @cached_property
    def bounds(self) -> Bounds:
        """The records with the numbers of their lines."""
        begins = np.concatenate([[0], self.ends])[: self.ends.size]
        newlines = np.flatnonzero(self._bytes == _LF[0])
        return Bounds(begins, self.ends, np.searchsorted(newlines, begins))

    @cached_property
    def delimiters(self) -> Places:
        """Where one field ends and the next begins."""
        return self._outside(self._places(self._dialect.delimiter))

    @property
    def widths(self) -> Places:
        """How many fields each record has; 0 for an empty line."""
        before = np.searchsorted(self.delimiters, self.ends)
        widths = np.diff(before, prepend=0) + 1
        widths[self._are_blank()] = 0
        return widths

    @property
    def lone_returns(self) -> Places:
        """Carriage returns without a newline that are no part of a quoted value."""
        places = self._outside(self._places(_CR))
        following = self._bytes[np.minimum(places + 1, self._size - 1)]
        lone: Places = places[(following != _LF[0]) | (places == self._size - 1)]
        return lone

    @property
    def unclosed(self) -> int:
        """Where the quoted value opens that is not closed; -1: all are."""
        last = self._toggles.size - 1
        if last % 2:
            return -1
        while last >= 2 and self._toggles[last] == self._toggles[last - 1] + 1:
            last -= 2  # a doubled quote is inside a value
        return int(self._toggles[last])

    def last_end(self) -> int:
        """Return the end of the last record that has a newline; 0: there is none."""
        end = cut_lines(self._data, self._size, 0)
        while end:
            toggled = int(np.searchsorted(self._toggles, end))
            if self._is_escaped(end - 1):
                end = self._data.rfind(_LF, 0, end - 1) + 1
            elif toggled % 2:
                # The quote that opened the value has to stay behind, with its record.
                end = self._data.rfind(_LF, 0, int(self._toggles[toggled - 1])) + 1
            else:
                break
        return end

    def indices_at(self, places: Places) -> Places:
        """Return which records some bytes belong to."""
        return np.unique(np.searchsorted(self.ends, places, side="right"))

    # ── marks ────────────────────────────────────────────────────────────────────────────────────

    def _places(self, mark: bytes) -> Places:
        """Return where a character stands that no escape precedes."""
        places = np.flatnonzero(self._bytes == mark[0])
        return np.setdiff1d(places, self._escaped, True) if self._escaped.size else places

    def _outside(self, places: Places) -> Places:
        """Return those places that are in no quoted value."""
        if not self._toggles.size:
            return places
        outside: Places = places[np.searchsorted(self._toggles, places) % 2 == 0]
        return outside

    def _are_blank(self) -> NDArray[np.bool_]:
        begins, ends, _ = self.bounds
        sizes = ends - begins
        are_lf = self._bytes[ends - 1] == _LF[0]
        are_crlf = (sizes == 2) & (self._bytes[begins] == _CR[0])  # CR LF
        blank: NDArray[np.bool_] = are_lf & ((sizes == 1) | are_crlf)
        return blank

    def _is_escaped(self, place: int) -> bool:
        if not self._escaped.size:
            return False
        at = int(np.searchsorted(self._escaped, place))
        return at < self._escaped.size and int(self._escaped[at]) == place

    @cached_property
    def _escaped(self) -> Places:
        escape = self._dialect.escape
        if not escape or self._data.find(escape, 0, self._size) < 0:
            return _NONE
        pairs = re.compile(re.escape(escape) + b".", re.DOTALL)
        ends = (found.end() - 1 for found in pairs.finditer(self._data, 0, self._size))
        return np.fromiter(ends, np.int64)

    @cached_property
    def _toggles(self) -> Places:
        """Where a quoted value opens or closes, in turn. A doubled quote may be there as both."""
        quote = self._dialect.quote
        if not quote or self._data.find(quote, 0, self._size) < 0:
            return _NONE
        quotes = self._places(quote)
        opening = self._are_field_starts(quotes)
        doubled = np.zeros(quotes.size, np.bool_)
        doubled[1:] = quotes[1:] == quotes[:-1] + 1
        # Each second quote opens a value, or doubles the one before it: then all quotes toggle.
        # That is the normal case, and needs no look at each of them.
        if np.all((opening | doubled)[::2]):
            return quotes
        return self._walk(quotes[opening])

    def _are_field_starts(self, quotes: Places) -> NDArray[np.bool_]:
        before = np.maximum(quotes - 1, 0)
        marks = self._bytes[before]
        starts: NDArray[np.bool_] = (marks == self._dialect.delimiter[0]) | (marks == _LF[0])
        if self._escaped.size:
            starts &= ~np.isin(before, self._escaped)
        starts |= quotes == self._first
        return starts

    def _walk(self, candidates: Places) -> Places:
        """Go from value to value: some quotes are only characters of unquoted values."""
        tokens, toggles, at = self._dialect.tokens, [], -1
        for opening in candidates.tolist():
            if opening < at:
                continue
            toggles.append(opening)
            closed = tokens.match(self._data, opening + 1, self._size)
            if closed is None:
                break
            at = closed.end()
            toggles.append(at - 1)
        return np.array(toggles, np.int64)


def cut_records(dialect: Dialect, *, strict: bool, header: bool) -> Cut:
    """Return the cut of CSV files: after the last record that ends with a newline.

    A lone carriage return ends no record. Where it is an error in any case, because such rows fail
    (`strict`) or because it is in the header, a block without any newline is cut behind it: so a
    file that has no other line ends is refused at once instead of being waited for.
    """

    def cut(data: bytearray, size: int, start: int) -> int:
        end = cut_lines(data, size, start)
        marks = [mark for mark in (dialect.quote, dialect.escape) if mark]
        if any(data.find(mark, 0, end) >= 0 for mark in marks):
            end = Records(data, end, dialect, is_start=not start).last_end()
        if not end and (strict or (header and not start)) and data.find(_CR, 0, size - 1) >= 0:
            returns = Records(data, size, dialect, is_start=not start).lone_returns
            end = next((place + 1 for place in returns.tolist() if place + 1 < size), 0)
        return end

    return cut


def first_record(data: bytes, dialect: Dialect) -> int:
    """Return the length of the first record of a file with its newline; 0: it does not end."""
    size = 0
    while size < len(data):
        size = min(max(size * 8, _FIRST), len(data))
        ends = Records(data, size, dialect, is_start=True).newline_ends
        if ends.size:
            return int(ends[0])
    return 0
