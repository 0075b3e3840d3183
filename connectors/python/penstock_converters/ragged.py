"""Columns of texts of different lengths in one buffer, by numpy and Arrow. Pure.

An Arrow array of bytes is the form of all parts of messages. That rows get more or fewer of its
pieces changes its offsets only.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


@functools.cache
def _nothing() -> pa.Scalar:
    """Made when it is needed: Arrow loads pandas with the first scalar, which takes 0.4 s."""
    return pa.scalar(b"", pa.large_binary())


_UNITS: Final[Mapping[str, int]] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
"""Nanoseconds of the units of times."""


def from_offsets(offsets: Ints, data: Any) -> pa.Array:
    """Return pieces of a buffer of bytes."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def from_matrix(matrix: Bytes) -> pa.Array:
    """Return pieces of equal length: the rows of a matrix."""
    rows, width = matrix.shape
    return from_offsets(np.arange(rows + 1, dtype=np.int64) * width, np.ascontiguousarray(matrix))


def from_lengths(matrix: Bytes, lengths: Ints) -> pa.Array:
    """Return the first bytes of the rows of a matrix, as many as `lengths` says."""
    width = matrix.shape[1]
    if width and bool((lengths == width).all()):
        return from_matrix(matrix)
    return from_offsets(to_offsets(lengths), matrix[np.arange(width) < lengths[:, None]])


def repeat(piece: bytes, count: int) -> pa.Array:
    """Return a piece for each row."""
    offsets = np.arange(count + 1, dtype=np.int64) * len(piece)
    return from_offsets(offsets, np.frombuffer(piece * count, np.uint8))


def slices(data: Bytes, starts: Ints, ends: Ints) -> pa.Array:
    """Return parts of a buffer, in the order of their bytes. What lies between them are pieces,
    too, that are left out.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return pieces.take(pa.array(np.arange(0, 2 * count, 2)))


def to_offsets(lengths: Ints) -> Ints:
    """Return where pieces begin that follow each other, and the end of the last."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def regroup(pieces: pa.Array, offsets: Ints) -> pa.Array:
    """Return rows of several pieces, one after the other. `offsets` are numbers of pieces."""
    begins = offsets_of(pieces)
    return from_offsets(begins[offsets], pieces.buffers()[2] or b"")


def spread(pieces: pa.Array, present: Bools) -> pa.Array:
    """Return a piece for each row that is present, and nothing for the others."""
    return regroup(pieces, to_offsets(present.astype(np.int64)))


def join(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the parts of each row, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, _nothing())


def offsets_of(pieces: pa.Array) -> Ints:
    """Return where the pieces of a large binary array begin in its buffer, and their end."""
    buffer = pieces.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(len(pieces) + 1, np.int64)
    return np.frombuffer(buffer, np.int64)[pieces.offset : pieces.offset + len(pieces) + 1]


def varints(values: Ints) -> pa.Array:
    """Return whole numbers as Avro writes them: zigzag, seven bits a byte."""
    return unsigned_varints(((values << 1) ^ (values >> 63)).view(np.uint64))


def unsigned_varints(values: npt.NDArray[np.uint64]) -> pa.Array:
    """Return numbers of seven bits a byte."""
    width, lengths = 1, np.ones(len(values), np.int64)
    while width < 10 and bool((longer := values >= np.uint64(1 << (7 * width))).any()):
        lengths += longer
        width += 1
    matrix = np.empty((len(values), width), np.uint8)
    for at in range(width):
        matrix[:, at] = (values >> np.uint64(7 * at)).astype(np.uint8) & 0x7F
        if at + 1 < width:
            matrix[:, at] |= ((lengths > at + 1) * 0x80).astype(np.uint8)
    return from_lengths(matrix, lengths)


def rescale(numbers: Ints, unit: str, wanted: str) -> tuple[Ints, Bools]:
    """Return times of a unit in another one, and which are not exact in it."""
    have, want = _UNITS[unit], _UNITS[wanted]
    if have >= want:
        factor = have // want
        wide = numbers * factor
        return wide, wide // factor != numbers
    factor = want // have
    found = numbers // factor
    return found, found * factor != numbers


def unscaled_bytes(values: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of decimals as whole numbers, the highest first, and how many of them say
    nothing: what is left is as short as Java writes it.
    """
    width = values.type.byte_width
    data = np.frombuffer(values.buffers()[1], np.uint8, len(values) * width, values.offset * width)
    number = data.reshape(-1, width)[:, ::-1]
    sign = np.where(number[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    differs = number != sign[:, None]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), width - 1)
    same_sign = (number[np.arange(len(number)), first] >= 0x80) == (sign == 0xFF)
    return number, np.where(same_sign, first, first - 1).astype(np.int64)


def without_first(matrix: Bytes, skipped: Ints) -> pa.Array:
    """Return the rows of a matrix without their first bytes."""
    width = matrix.shape[1]
    return from_offsets(to_offsets(width - skipped), matrix[np.arange(width) >= skipped[:, None]])


def from_unscaled(
    data: Bytes, begins: Ints, lengths: Ints, column: pa.DataType
) -> tuple[pa.Array, Bools]:
    """Return decimals of their whole numbers in a buffer, the highest byte first, and which are
    none of the type: without bytes, or with too many digits.
    """
    width = column.byte_width
    places = (begins + lengths)[:, None] - np.arange(1, width + 1)  # the lowest byte first
    inside = places >= begins[:, None]
    filled = data if len(data) else np.zeros(1, np.uint8)
    first = filled[np.minimum(begins, len(filled) - 1)]
    sign = np.where((first >= 0x80) & (lengths > 0), 0xFF, 0).astype(np.uint8)
    number = np.where(inside, filled[np.where(inside, places, 0)], sign[:, None])
    wrong = (lengths == 0) | ((number[:, -1] >= 0x80) != (sign == 0xFF))
    for at in np.nonzero(lengths > width)[0].tolist():
        more = data[begins[at] : begins[at] + lengths[at] - width]
        wrong[at] |= bool((more != sign[at]).any())
    limbs = np.ascontiguousarray(number).view("<u8").copy()
    wrong |= ~_is_below(limbs, 10**column.precision) | _is_below(limbs, 1 - 10**column.precision)
    limbs[wrong] = 0
    return pa.Array.from_buffers(column, len(limbs), [None, pa.py_buffer(limbs)]), wrong


def _is_below(limbs: Any, bound: int) -> Bools:
    """Return which numbers, of words of 64 bits with the lowest first, are below a bound."""
    count = limbs.shape[1]
    below, equal = np.zeros(len(limbs), bool), np.ones(len(limbs), bool)
    for at in reversed(range(count)):
        word = limbs[:, at]
        part = (bound >> (64 * at)) & ((1 << 64) - 1)
        if at == count - 1:  # the sign is in the highest one
            word = word.view(np.int64)
            part -= (part >> 63) << 64
            below |= word < np.int64(part)
            equal &= word == np.int64(part)
        else:
            below |= equal & (word < np.uint64(part))
            equal &= word == np.uint64(part)
    return below


_BASE64: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8
)
_NO_CODE: Final = 0xFF
_CODES: Final = np.full(256, _NO_CODE, np.uint8)
_CODES[_BASE64] = np.arange(64)
_EQUALS: Final = ord("=")


def to_base64(pieces: pa.Array) -> pa.Array:
    """Return pieces of bytes in base64."""
    offsets = offsets_of(pieces)
    lengths = np.diff(offsets)
    data = np.frombuffer(pieces.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    threes = to_offsets((lengths + 2) // 3 * 3)
    padded = np.zeros(threes[-1], np.uint8)
    padded[np.arange(len(data)) + np.repeat(threes[:-1] - (offsets[:-1] - offsets[0]), lengths)] = (
        data
    )
    a, b, c = padded.reshape(-1, 3).T
    codes = np.stack([a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63], axis=1)
    text = _BASE64[codes].reshape(-1)
    ends = threes[1:] // 3 * 4
    text[ends[lengths % 3 > 0] - 1] = _EQUALS
    text[ends[lengths % 3 == 1] - 2] = _EQUALS
    return from_offsets(threes // 3 * 4, text)


def from_base64(pieces: pa.Array) -> tuple[pa.Array, Bools]:
    """Return the bytes of pieces in base64, and which are not."""
    offsets = offsets_of(pieces)
    lengths = np.diff(offsets)
    if (lengths % 4).any():  # the others could not be read side by side
        wrong = lengths % 4 > 0
        kept = pieces.filter(pa.array(~wrong))
        found, more = from_base64(kept)
        whole = wrong.copy()
        whole[~wrong] = more
        return spread(found, ~wrong), whole
    text = np.frombuffer(pieces.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    ends = offsets[1:] - offsets[0]
    some = lengths > 0
    pads = np.zeros(len(lengths), np.int64)
    pads[some] = text[ends[some] - 1] == _EQUALS
    pads[some] += (pads[some] == 1) & (text[ends[some] - 2] == _EQUALS)
    codes = _CODES[text]
    wrong_at = codes == _NO_CODE
    codes = np.where(wrong_at, 0, codes)
    for pad in (1, 2):
        wrong_at[ends[pads >= pad] - pad] = False
    wrong = np.add.reduceat(np.append(wrong_at, 0), np.append(offsets[:-1] - offsets[0], len(text)))
    a, b, c, d = codes.reshape(-1, 4).T
    data = np.stack([a << 2 | b >> 4, (b & 15) << 4 | c >> 2, (c & 3) << 6 | d], axis=1).reshape(-1)
    keep = np.ones(len(data), bool)
    thirds = ends // 4 * 3
    for pad in (1, 2):
        keep[thirds[pads >= pad] - pad] = False
    return from_offsets(to_offsets(lengths // 4 * 3 - pads), data[keep]), (wrong[:-1] > 0) & some
