"""Reads numbers and texts of many messages at once: a cursor a message in one buffer. Pure.

A message that ends too early, or says what cannot be, is marked with its reason, and its cursor is
set to its end: nothing behind it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_converters.ragged import Bools, Bytes, Ints, slices

_PADDING: Final = 16
"""Bytes behind the last message that a number may be read from before its end is checked."""

REASONS: Final = (
    "",
    "it ends too early",
    "a number has too many bytes",
    "a length or a count is negative, or reaches beyond its end",
    "a union has no such type, an enum no such symbol, or a boolean is neither 0 nor 1",
    "a text is not UTF-8",
    "a number does not fit into its type",
    "its lists have too many items that are lists",
    "it has bytes behind its end",
    "a key of a map is null",
    "a field has another type than its schema says",
    "a message in it occurs twice where there is one",
    "its lists or unknown fields are too many",
    "it does not say which message of its schema it is, or there is none",
)
"""Why a message has no value, by number."""

SHORT, LONG_NUMBER, LENGTH, CHOICE, TEXT, RANGE, ITEMS, TRAILING, NULL_KEY = range(1, 10)
WIRE_TYPE, TWICE, TOO_MANY, NO_MESSAGE = range(10, 14)

Unsigned = npt.NDArray[np.uint64]


@dataclass(slots=True)
class Cursor:
    """Where messages are read, and which they are."""

    at: Ints
    end: Ints
    rows: Ints

    def take(self, places: Any) -> Cursor:
        """Return the cursors at some places."""
        return Cursor(self.at[places], self.end[places], self.rows[places])


def padded(data: Bytes) -> Bytes:
    """Return bytes with what a reader may look at behind them."""
    found = np.zeros(len(data) + _PADDING, np.uint8)
    found[: len(data)] = data
    return found


def zigzag(numbers: Unsigned) -> Ints:
    """Return the signed numbers that zigzag stands for."""
    half = (numbers >> np.uint64(1)).view(np.int64)
    signs: Ints = (numbers & np.uint64(1)).view(np.int64)
    return half ^ -signs


class ByteReader:
    """Reads the messages of a buffer, which is padded.

    Attributes:
        data: The bytes.
        words4: The numbers of four bytes that begin at each byte; `words8` those of eight.
        reasons: Why a message has no value; 0: it has one.
    """

    def __init__(self, data: Bytes, count: int) -> None:
        self.data = data
        self.words4 = np.ndarray((len(data) - 3,), "<u4", data.data, strides=(1,))
        self.words8 = np.ndarray((len(data) - 7,), "<u8", data.data, strides=(1,))
        self.reasons = np.zeros(count, np.int64)

    def fail(self, cursor: Cursor, wrong: Bools, reason: int) -> None:
        """Mark messages with a reason, if they have none yet. They are at their end then."""
        if not wrong.any():
            return
        rows = cursor.rows[wrong]
        self.reasons[rows] = np.where(self.reasons[rows] == 0, reason, self.reasons[rows])
        cursor.at[wrong] = cursor.end[wrong]

    def fixed(self, cursor: Cursor, numbers: Any, size: int) -> Any:
        """Return a number of a size of each message. `numbers` are those that begin at each
        byte.
        """
        short = cursor.end - cursor.at < size
        self.fail(cursor, short, SHORT)
        found = numbers[np.minimum(cursor.at, len(numbers) - 1)]
        cursor.at += np.where(short, 0, size)
        return found

    def unsigned(self, cursor: Cursor) -> Unsigned:
        """Return a number of each message, which has seven bits a byte."""
        first = self.data[cursor.at]
        value = (first & 0x7F).astype(np.uint64)
        size = np.ones(len(first), np.int64)
        (more,) = np.nonzero(first >= 0x80)
        turn = 1
        while len(more) and turn < 10:
            byte = self.data[cursor.at[more] + turn]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * turn)
            size[more] += 1
            more = more[byte > 1] if turn == 9 else more[byte >= 0x80]  # of 64 bits one is left
            turn += 1
        cursor.at += size
        self.fail(cursor, cursor.at > cursor.end, SHORT)
        if len(more):
            wrong = np.zeros(len(first), bool)
            wrong[more] = True
            self.fail(cursor, wrong, LONG_NUMBER)
        return value

    def check_room(self, cursor: Cursor, lengths: Ints) -> None:
        """Refuse lengths that reach beyond the end; they are 0 then."""
        wrong = (lengths < 0) | (lengths > cursor.end - cursor.at)
        self.fail(cursor, wrong, LENGTH)
        lengths[wrong] = 0

    def slices(self, cursor: Cursor, lengths: Ints) -> pa.Array:
        """Return the next bytes of each message, which it has."""
        begins = cursor.at.copy()
        cursor.at += lengths
        return slices(self.data, begins, cursor.at)

    def texts_of(self, pieces: pa.Array, cursor: Cursor) -> pa.Array:
        """Return texts of their bytes."""
        try:
            return pieces.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # one by one, to find which are not
        values = pieces.to_pylist()
        wrong = np.zeros(len(values), bool)
        for at, value in enumerate(values):
            try:
                value.decode()
            except UnicodeDecodeError:
                wrong[at], values[at] = True, b""
        self.fail(cursor, wrong, TEXT)
        return pa.array(values, pa.binary()).cast(pa.string())
