"""Packets of the text protocol, cut out of what came over the wire, whole blocks at once. Pure.

A packet is three bytes of length, a sequence number and the row. A row is one cell after the other:
a length and so many bytes, or 251 for null. Cutting them in a Python loop costs microseconds a row;
numpy finds all of them in a few passes over the block, and Arrow gathers a column with one `take`.
https://mariadb.com/kb/en/result-set-packets/#resultset-row
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEAD: Final = 4
LONGEST: Final = 0xFFFFFF
"""Length of a packet that goes on in the next one."""

_NULL: Final = 251
_SIZES: Final = ((252, 2), (253, 3), (254, 8))
_PASSES: Final = 3
_length = struct.Struct("<I").unpack_from

Places = npt.NDArray[np.int64]
Block = npt.NDArray[np.uint8]


def split(data: bytearray, size: int) -> tuple[Places, int]:
    """Return where the whole packets of a block begin, and where the first one that is not whole
    does. A packet of the longest length is never whole: the next one belongs to it.
    """
    if size < HEAD:
        return np.empty(0, np.int64), 0
    block = np.frombuffer(data, np.uint8)
    found = _split_small(block, size)
    return _split_any(data, size) if found is None else found


def _split_small(block: Block, size: int) -> tuple[Places, int] | None:
    """Find packets below 64 KiB: the third byte of their length is 0.

    Every zero may be one of those bytes. A candidate stays when another one leads to it; a chain
    from 0 on, each leading to the next with none left over, is the chain of packets: nothing else
    can be between. None when there is no such chain.
    """
    starts = np.flatnonzero(block[2 : size - 1] == 0)
    if not len(starts) or starts[0] > 2:
        return None
    ends = starts + HEAD + block[starts] + (block[starts + 1].astype(np.int64) << 8)
    for _ in range(_PASSES):
        led_to = np.zeros(size + 1, bool)
        led_to[ends[ends <= size]] = True
        led_to[0] = True
        stays = led_to[starts]
        if not stays.all():
            starts, ends = starts[stays], ends[stays]
        if len(starts) and starts[0] == 0 and bool((ends[:-1] == starts[1:]).all()):
            if ends[-1] > size:
                return starts[:-1], int(starts[-1])
            end = int(ends[-1])
            return (starts, end) if size - end < HEAD else None  # a larger packet follows
    return None


def _split_any(data: bytearray, size: int) -> tuple[Places, int]:
    """Find packets of any size, one by one."""
    starts, at = [], 0
    while at + HEAD <= size:
        length = _length(data, at)[0] & LONGEST
        if length == LONGEST or at + HEAD + length > size:
            break
        starts.append(at)
        at += HEAD + length
    return np.array(starts, np.int64), at


def columns(data: bytearray, starts: Places, end: int, count: int) -> list[pa.Array] | None:
    """Return the cells of rows as columns of bytes; None when packets do not add up.

    Args:
        data: The block.
        starts: Where the rows' packets begin.
        end: Where the last of them ends.
        count: How many columns there are.
    """
    block = np.frombuffer(data, np.uint8)
    at = starts + HEAD
    found = []
    for _ in range(count):
        if int(at.max()) > end:
            return None
        first, lengths, nulls = _cells(block, at)
        found.append((first, lengths, nulls))
        at = first + lengths
    if not bool((at == np.append(starts[1:], end)).all()):
        return None
    return [_gathered(data, *cells) for cells in found]


def _cells(block: Block, at: Places) -> tuple[Places, Places, npt.NDArray[np.bool_] | None]:
    """Return where the cells' bytes begin that stand at some places, how many they are, and which
    are null.
    """
    marks = block[at]
    lengths = marks.astype(np.int64)
    first = at + 1
    if int(marks.max()) < _NULL:
        return first, lengths, None
    nulls = marks == _NULL
    lengths[nulls] = 0
    for mark, size in _SIZES:
        places = np.flatnonzero(marks == mark)
        if len(places):
            where = at[places] + 1
            values = np.zeros(len(places), np.int64)
            for byte in range(size):
                values |= block[where + byte].astype(np.int64) << (8 * byte)
            lengths[places] = values
            first[places] = where + size
    return first, lengths, nulls if bool(nulls.any()) else None


def _gathered(
    data: bytearray, first: Places, lengths: Places, nulls: npt.NDArray[np.bool_] | None
) -> pa.Array:
    """Return cells as a column. To Arrow the block is an array of the cells and what is between
    them, in turn; every second one is taken, with a copy of its bytes: the block is used again.
    """
    count = len(first)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = first
    offsets[1::2] = first + lengths
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    all_of_it = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    places = np.arange(0, 2 * count, 2, dtype=np.int32)
    return all_of_it.take(pa.array(places) if nulls is None else pa.array(places, mask=nulls))


def one_row(row: bytes, count: int) -> list[pa.Array]:
    """Return the cells of a single row of any size as columns."""
    at = 0
    cells: list[bytes | None] = []
    for _ in range(count):
        mark = row[at]
        at += 1
        if mark == _NULL:
            cells.append(None)
            continue
        size = dict(_SIZES).get(mark, 0)
        length = int.from_bytes(row[at : at + size], "little") if size else mark
        at += size
        cells.append(row[at : at + length])
        at += length
    return [pa.array([cell], pa.binary()) for cell in cells]


def sequence_fits(data: bytearray, starts: Places, number: int) -> bool:
    """Return whether packets carry the numbers that follow on one."""
    block: Any = np.frombuffer(data, np.uint8)
    wanted = ((np.arange(len(starts)) + number) & 0xFF).astype(np.uint8)
    return bool((block[starts + 3] == wanted).all())
