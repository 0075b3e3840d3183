"""Rows of a table in the log → Arrow columns: made once per table map, applied to many events.

Rows have columns of any length, so where a row begins is only known when the one before was
walked. That walk is the one thing done per row in Python; it is generated for the table: with no
nulls it is one addition for each column of varying length. Everything else is done a column at a
time over all rows at once (`arena`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from penstock_databases.mysql_cdc.arena import Arena, Ints, Mask
from penstock_databases.mysql_cdc.events import corrupt
from penstock_databases.mysql_cdc.texts import Slices


class Fixed(Protocol):
    """Decodes a column of fixed width."""

    @property
    def width(self) -> int:
        """Bytes of a value."""

    def values(self, arena: Arena, at: Ints, null: Mask | None) -> pa.Array:
        """Return the values at places."""


Decoder = Fixed | Slices
Step = tuple[int, int]
"""How to pass a column: its bytes, and the bytes of its length when that is in front of it."""

Walk = Callable[[bytearray, int, int, Callable[[int], None]], int]

_PATTERNS_MOST: Final = 512
"""Patterns of nulls whose walk is kept. Tables with more of them have theirs made again."""


@dataclass(slots=True)
class Layout:
    """How the rows of a table are read.

    Attributes:
        fields: Name and type of each column.
        decoders: What reads each column.
        key: Places of the columns of the primary key.
    """

    fields: tuple[pa.Field, ...]
    decoders: tuple[Decoder, ...]
    key: tuple[int, ...] = ()
    walk: Walk = field(init=False)
    bitmap: int = field(init=False)

    def __post_init__(self) -> None:
        self.bitmap = (len(self.decoders) + 7) // 8
        steps = [
            (0, decoder.prefix) if isinstance(decoder, Slices) else (decoder.width, 0)
            for decoder in self.decoders
        ]
        self.walk = walker(steps)

    def starts(self, rows: bytearray, at: int, places: array[int]) -> None:
        """Find where rows begin, from a place to the end."""
        try:
            end = self.walk(rows, at, len(rows), places.append)
        except IndexError:
            end = -1
        if end != len(rows):
            raise corrupt("rows in the log are not of the columns that the log told of")

    def columns(self, arena: Arena, starts: Ints) -> list[pa.Array]:
        """Return the columns of rows that begin at places."""
        at, columns = starts + self.bitmap, []
        bits = None
        for place, decoder in enumerate(self.decoders):
            if not place & 7:
                bits = arena.gather(starts, "u1", place >> 3)
                bits = bits if bits.any() else None
            null = None
            if bits is not None:
                null = (bits >> (place & 7) & 1).astype(bool)
                null = null if null.any() else None
            column, width = _column(decoder, arena, at, null)
            columns.append(column)
            at = at + (width if null is None else np.where(null, 0, width))
        return columns


def _column(decoder: Decoder, arena: Arena, at: Ints, null: Mask | None) -> tuple[Any, Any]:
    """Return a column, and the bytes that its values take."""
    if not isinstance(decoder, Slices):
        return decoder.values(arena, at, null), decoder.width
    size = arena.little(at, decoder.prefix).astype(np.int64)
    if null is not None:
        size[null] = 0
    data = at + decoder.prefix if null is None else at + np.where(null, 0, decoder.prefix)
    return decoder.values(arena, data, size, null), size + decoder.prefix


def walker(steps: Sequence[Step]) -> Walk:
    """Return what finds the beginnings of rows, made for a table.

    Its source has nothing in it but numbers that were computed here.
    """
    bitmap = (len(steps) + 7) // 8
    bits = [min(len(steps) - 8 * byte, 8) for byte in range(bitmap)]
    nulls = " or ".join(f"b[p + {n}] & {(1 << count) - 1}" for n, count in enumerate(bits))
    lines = [
        "def walk(b, p, end, add):",
        "    while p < end:",
        "        add(p)",
        f"        if {nulls or 0}:",
        "            p = other(b, p)",
        "        else:",
        *(f"            {line}" for line in _passing([(bitmap, 0), *steps])),
        "    return p",
    ]
    found: Walk = _made(lines, "walk", {"other": _with_nulls(steps, bitmap)})
    return found


def _with_nulls(steps: Sequence[Step], bitmap: int) -> Callable[[bytearray, int], int]:
    """Return what passes one row with nulls: made for each pattern of nulls when it comes."""
    known: dict[bytes, Callable[[bytearray, int], int]] = {}

    def other(rows: bytearray, at: int) -> int:
        pattern = bytes(rows[at : at + bitmap])
        passing = known.get(pattern)
        if passing is None:
            there = [
                step
                for place, step in enumerate(steps)
                if not pattern[place >> 3] >> (place & 7) & 1
            ]
            lines = [f"    {line}" for line in _passing([(bitmap, 0), *there])]
            passing = _made(["def pass_row(b, p):", *lines, "    return p"], "pass_row", {})
            if len(known) >= _PATTERNS_MOST:
                known.clear()
            known[pattern] = passing
        return passing(rows, at)

    return other


def _passing(steps: Sequence[Step]) -> list[str]:
    """Return the statements that move `p` over columns: neighbours of fixed width at once."""
    lines, ahead = [], 0
    for width, prefix in steps:
        if not prefix:
            ahead += width
            continue
        if ahead:
            lines.append(f"p += {ahead}")
        terms = [f"(b[p + {n}] << {8 * n})" if n else "b[p]" for n in range(prefix)]
        lines.append(f"p += {' + '.join(terms)}")
        ahead = prefix
    return [*lines, f"p += {ahead}"] if ahead or not lines else lines


def _made(lines: list[str], name: str, scope: dict[str, Any]) -> Any:
    exec("\n".join(lines), scope)  # noqa: S102 - only numbers of ours are in it
    return scope[name]
