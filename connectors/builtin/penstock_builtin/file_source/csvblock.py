"""A block of CSV records: the bytes that Arrow parses, and where each row of them was in the file.

Rows that cannot be read are left out before Arrow sees them. Which line a row was on is only
computed when an error asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from penstock_builtin.file_source.chunk import Chunk, excerpt, spot
from penstock_builtin.file_source.records import Bounds, Dialect, Places, Records
from penstock_connector import DataError

_BROKEN: Final = "file.invalid_csv"
_NO_TEXT: Final = "file.invalid_utf8"

Rejected: TypeAlias = "tuple[bytes, DataError]"
"""A record that cannot be read, and why."""


class CsvBlock:
    """Records of a chunk without its header.

    Attributes:
        chunk: What the records are of.
        data: What is to be parsed.
        is_checked: Rows that cannot be read are no longer in `data`.
    """

    def __init__(self, chunk: Chunk, data: bytes, lines: int, dialect: Dialect) -> None:
        self.chunk, self.data, self.is_checked = chunk, data, False
        self._raw, self._lines, self._dialect = data, lines, dialect
        self._left_out: list[int] = []

    @property
    def may_have_broken_ends(self) -> bool:
        """Whether a lone carriage return or a quote that is never closed may be in it. The normal
        case costs two searches for a byte.
        """
        data, quote = self._raw, self._dialect.quote
        if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
            return True
        is_last = self.chunk.complete or not data.endswith(b"\n")
        return is_last and bool(quote) and quote in data and self._records.unclosed >= 0

    def leave_out_broken(self, width: int, *, is_utf8: bool) -> Iterator[Rejected]:
        """Leave out the records that are no rows of so many columns, and return them."""
        self.is_checked = True
        reasons = dict(self._reasons(width, is_utf8=is_utf8))
        self._left_out = sorted(reasons)
        self.data = b"".join(self._kept())
        return (self.reject(record, *reasons[record]) for record in self._left_out)

    @property
    def where(self) -> str:
        """Where it begins."""
        return f"{self._spot(0)} or after it"

    def kept_records(self, width: int) -> Places:
        """Return which record each row of the parsed table was."""
        kept = np.ones(self._records.ends.size, np.bool_)
        kept[self._left_out] = False
        if width > 1:
            kept &= self._records.widths > 0
        return np.flatnonzero(kept)

    def reject(self, record: int, why: str, code: str = _BROKEN) -> Rejected:
        """Return a record with the error for it."""
        raw = self._bytes_of(record)
        where = self._spot(int(self._bounds.lines[record]))
        if code == _NO_TEXT:
            return raw, not_of_the_encoding(where, raw)
        return raw, broken_row(where, why, raw)

    @property
    def has_blank_lines(self) -> bool:
        """Whether a line of it is empty."""
        data = self.data
        return data.startswith((b"\n", b"\r\n")) or b"\n\n" in data or b"\n\r\n" in data

    @cached_property
    def _records(self) -> Records:
        return Records(self._raw, len(self._raw), self._dialect)

    @property
    def _bounds(self) -> Bounds:
        return self._records.bounds

    def _bytes_of(self, record: int) -> bytes:
        return self._raw[int(self._bounds.begins[record]) : int(self._bounds.ends[record])]

    def _spot(self, line: int) -> str:
        return spot(self.chunk, self._lines + line)

    def _kept(self) -> Iterator[bytes]:
        """The bytes between the records that were left out."""
        at = 0
        for record in self._left_out:
            yield self._raw[at : int(self._bounds.begins[record])]
            at = int(self._bounds.ends[record])
        yield self._raw[at:]

    def _reasons(self, width: int, *, is_utf8: bool) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield the indices of broken records with what is wrong and its code; of several
        reasons for a record the last counts: a block may end behind a lone carriage return, so
        that one is an error whatever else is wrong with its record.
        """
        records = self._records
        widths = records.widths
        wrong = widths != width
        if width > 1:
            wrong &= widths > 0
        else:
            wrong &= widths > 1
        for index in np.flatnonzero(wrong).tolist():
            counted = f"it has {widths[index]} columns instead of {width}"
            yield index, (counted, _BROKEN)
        if not is_utf8:
            for index in range(records.ends.size):
                if not _is_utf8(self._bytes_of(index)):
                    yield index, ("", _NO_TEXT)
        for index in records.indices_at(records.lone_returns).tolist():
            lone = "a carriage return without a newline is in it, outside of quotes"
            yield index, (lone, _BROKEN)
        if records.unclosed >= 0:
            line = self._raw.count(b"\n", 0, records.unclosed)
            place = self._spot(line).rpartition(", ")[2]
            text = f"the quote that opens on {place} is never closed"
            yield records.ends.size - 1, (text, _BROKEN)


def broken_row(where: str, why: str, row: bytes) -> DataError:
    """Return the error for a row that cannot be read."""
    return DataError(
        _BROKEN,
        f"{where} cannot be read: {why}: {excerpt(row)}",
        fix="Correct the row, or set `invalid.rows` to `dead-letter`.",
        config_path="invalid.rows",
    )


def not_of_the_encoding(where: str, row: bytes) -> DataError:
    """Return the error for a row whose bytes are no text."""
    return DataError(
        _NO_TEXT,
        f"{where} is not of the encoding: {excerpt(row)}",
        fix="Correct the file or `encoding`, or set `invalid.utf8` to `replace` or `dead-letter`.",
        config_path="invalid.utf8",
    )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
