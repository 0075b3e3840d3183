"""Numbers of rows in the log: integers, decimals, floats, bits, years. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock_databases.mysql_cdc.arena import Arena, Ints, Mask, Words, fixed

_LITTLE: Final = {1: "i1", 2: "<i2", 4: "<i4", 8: "<i8"}
_UNSIGNED: Final = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_U64: Final = pa.decimal128(20, 0)


@dataclass(frozen=True, slots=True)
class Integers:
    """Integers of 1, 2, 3, 4 or 8 bytes."""

    width: int
    unsigned: bool
    kind: pa.DataType

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the numbers at places."""
        numbers = integers(arena, at, self.width, unsigned=self.unsigned)
        if self.kind == _U64:
            return unsigned_64(numbers.astype(np.uint64), null)
        return fixed(numbers.astype(self.kind.to_pandas_dtype(), copy=False), self.kind, null)


def integers(arena: Arena, at: Ints, width: int, *, unsigned: bool) -> Ints | Words:
    """Return the integers at places; of type uint64 only where they are unsigned and of 8 bytes."""
    if width == 3:
        three = arena.gather(at, "<u4") & np.uint32(0xFFFFFF)
        return three if unsigned else (three << np.uint32(8)).view(np.int32) >> 8
    return arena.gather(at, (_UNSIGNED if unsigned else _LITTLE)[width])


def unsigned_64(numbers: Words, null: Mask | None) -> pa.Array:
    """Return unsigned integers as decimals without fraction."""
    pairs = np.zeros((len(numbers), 2), np.uint64)
    pairs[:, 0] = numbers
    return fixed(pairs, _U64, null)


@dataclass(frozen=True, slots=True)
class Floats:
    """Floats of 4 or 8 bytes."""

    width: int
    kind: pa.DataType

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the numbers at places."""
        return fixed(arena.gather(at, f"<f{self.width}"), self.kind, null)


@dataclass(frozen=True, slots=True)
class Years:
    """Years of one byte: 0, and 1901 to 2155."""

    kind: pa.DataType
    width: int = 1

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the years at places."""
        years = arena.gather(at, "u1").astype(np.int32)
        return fixed(np.where(years == 0, 0, years + 1900).astype(np.int32), self.kind, null)


@dataclass(frozen=True, slots=True)
class Bits:
    """Bits, the most significant byte first."""

    width: int
    kind: pa.DataType

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the bits at places, as numbers or truths."""
        words = arena.big(at, self.width)
        if self.kind == pa.bool_():
            return pa.array(words != 0, mask=null)
        if self.kind == _U64:
            return unsigned_64(words, null)
        return fixed(words.astype(np.int64), self.kind, null)


# ── decimals ─────────────────────────────────────────────────────────────────────────────────────

_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes that so many digits take; nine digits are a full group."""

_LIMB: Final = np.uint64(0xFFFFFFFF)


def decimal_width(precision: int, scale: int) -> int:
    """Return the bytes of a decimal."""
    whole = precision - scale
    return whole // 9 * 4 + _BYTES[whole % 9] + scale // 9 * 4 + _BYTES[scale % 9]


@dataclass(frozen=True, slots=True)
class Decimals:
    """Decimals: groups of nine digits, big-endian; negative ones with all bits turned.

    What has more digits than Arrow's decimals have becomes text.
    """

    precision: int
    scale: int
    kind: pa.DataType

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return decimal_width(self.precision, self.scale)

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the decimals at places."""
        sign = arena.gather(at, "u1") < 0x80
        groups = list(self._groups(arena, at, sign))
        if pa.types.is_string(self.kind):
            return self._texts(groups, sign, null)
        if self.precision <= 18:
            number = np.zeros(len(at), np.int64)
            for digits, group in groups:
                number = number * 10**digits + group.astype(np.int64)
            number = np.where(sign, -number, number)
            pairs = np.empty((len(at), 2), np.int64)
            pairs[:, 0], pairs[:, 1] = number, number >> 63
            return fixed(pairs, self.kind, null)
        return fixed(_wide(groups, sign), self.kind, null)

    def _groups(self, arena: Arena, at: Ints, sign: Mask) -> list[tuple[int, Words]]:
        """Return the groups of digits, the first of them first: how many digits, and which."""
        whole = self.precision - self.scale
        sizes = [*([whole % 9] if whole % 9 else []), *[9] * (whole // 9)]
        sizes += [*[9] * (self.scale // 9), *([self.scale % 9] if self.scale % 9 else [])]
        groups, offset = [], 0
        for digits in sizes:
            width = _BYTES[digits]
            mask = np.uint64((1 << 8 * width) - 1)
            words = arena.big(at, width, offset)
            words = np.where(sign, words ^ mask, words)
            if not offset:
                words &= mask >> np.uint64(1)
            groups.append((digits, words))
            offset += width
        return groups

    def _texts(self, groups: list[tuple[int, Words]], sign: Mask, null: Mask | None) -> pa.Array:
        texts: list[str | None] = []
        columns = [group.tolist() for _, group in groups]
        for place, negative in enumerate(sign.tolist()):
            if null is not None and null[place]:
                texts.append(None)
                continue
            number = 0
            for (digits, _), column in zip(groups, columns, strict=True):
                number = number * 10**digits + column[place]
            text = str(number).rjust(self.scale + 1, "0")
            cut = len(text) - self.scale
            fraction = f".{text[cut:]}" if self.scale else ""
            texts.append(f"{'-' if negative and number else ''}{text[:cut]}{fraction}")
        return pa.array(texts, self.kind)


def _wide(groups: list[tuple[int, Words]], sign: Mask) -> Words:
    """Return numbers of up to 38 digits, two words each: four limbs of 32 bits, with carries."""
    limbs = [np.zeros(len(sign), np.uint64) for _ in range(4)]
    for digits, group in groups:
        carry, factor = group, np.uint64(10**digits)
        for place, limb in enumerate(limbs):
            total = limb * factor + carry
            limbs[place], carry = total & _LIMB, total >> np.uint64(32)
    carry = sign.astype(np.uint64)
    turned = np.where(sign, _LIMB, np.uint64(0))
    for place, limb in enumerate(limbs):  # a negative number: all bits turned, and one more
        total = (limb ^ turned) + carry
        limbs[place], carry = total & _LIMB, total >> np.uint64(32)
    pairs = np.empty((len(sign), 2), np.uint64)
    pairs[:, 0] = limbs[0] | limbs[1] << np.uint64(32)
    pairs[:, 1] = limbs[2] | limbs[3] << np.uint64(32)
    return pairs
