"""The youngest rows that were read, by their digests: what is read again is known. Pure.

A row may become visible later than its time says: its transaction was long, or its clock is coarse
and another row of the same second came after a look. So the last `timestamp.late.ms` before now
are read again and again, and rows that went out already are known by their time and key, or, in a
table without a key, by all of their values and how often they were there. The digests are in the
offset: nothing is read twice after a crash, either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa

from penstock_connector.tables.columns import Column

MOST: Final = 8192
"""Rows that are remembered. More make the offset larger than 64 KiB. When it is full, younger rows
wait until they are older than `timestamp.late.ms`: later, never lost."""

_SIZE: Final = 8
"""Bytes of a digest: that two of so many rows share one is as likely as 2^-38."""


def digest(at: int, values: Sequence[Any]) -> bytes:
    """Return the digest of a row."""
    text = repr((at, tuple(values))).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=_SIZE).digest()


def digests(
    rows: pa.RecordBatch, times: Sequence[int], keys: Sequence[Column]
) -> list[tuple[int, bytes]]:
    """Return times and digests of rows: of their keys, or of all of their values."""
    columns = [rows.column(c.name) for c in keys] if keys else rows.columns
    values = zip(*(column.to_pylist() for column in columns), strict=True)
    return [(at, digest(at, row)) for at, row in zip(times, values, strict=True)]


class Window:
    """Rows that went out, younger than what is settled.

    Attributes:
        restored_until: The times of digests from an offset are not known; all are before this.
    """

    def __init__(self, offset: bytes = b"") -> None:
        """Take the digests of an offset."""
        self.restored_until = 0
        self._rows: Counter[tuple[int, bytes]] = Counter()
        self._restored = Counter(
            offset[start : start + _SIZE] for start in range(0, len(offset), _SIZE)
        )

    def __len__(self) -> int:
        """Tell how many rows are remembered."""
        return self._rows.total() + self._restored.total()

    def copy(self) -> Window:
        """Return one that can be changed alone."""
        other = Window()
        other._rows, other._restored = self._rows.copy(), self._restored.copy()
        other.restored_until = self.restored_until
        return other

    def new(self, rows: Sequence[tuple[int, bytes]]) -> list[bool]:
        """Tell of each row of one look whether it did not go out yet."""
        if not len(self):
            return [True] * len(rows)
        left, restored = self._rows.copy(), self._restored.copy()
        answers = []
        for row in rows:
            known = left[row] > 0
            if known:
                left[row] -= 1
            elif restored[row[1]] > 0:
                restored[row[1]] -= 1
                known = True
            answers.append(not known)
        return answers

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Remember rows that go out."""
        self._rows.update(rows)

    def take_back(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Forget rows one by one: they were met again, and will not be."""
        for row in rows:
            of, mark = (self._rows, row) if self._rows[row] else (self._restored, row[1])
            of[mark] -= 1  # type: ignore[index] # each has keys of its kind

    def forget_before(self, at: int) -> None:
        """Forget rows that are settled."""
        for row in [row for row in self._rows if row[0] < at]:
            del self._rows[row]
        if at > self.restored_until:
            self._restored.clear()

    def digests(self) -> bytes:
        """Return them as an offset has them."""
        marks = [mark for _, mark in self._rows.elements()]
        return b"".join(sorted([*marks, *self._restored.elements()]))
