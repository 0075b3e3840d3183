"""What a converter is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.model.errors import DataError

BadRow = tuple[int, DataError]
"""A row that could not be converted: its index in what was given, and why."""


@dataclass(frozen=True, slots=True)
class Run:
    """Rows in a row whose values have one type.

    Attributes:
        field: Name, type and nullability of the value; Kafka Connect's words in its metadata.
        rows: Indices of the rows in what was given, ascending.
        column: Their values; null where the bytes were.
    """

    field: pa.Field
    rows: Sequence[int]
    column: pa.Array


@dataclass(frozen=True, slots=True)
class Decoded:
    """Values of bytes: every row is in one run, or bad."""

    runs: tuple[Run, ...]
    bad: tuple[BadRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes of values, one for each; null where the value was null, and where the row is bad."""

    column: pa.Array
    bad: tuple[BadRow, ...] = ()


class Converter(Protocol):
    """Turns bytes into values and back. Not thread-safe: it may remember schemas."""

    def decode(self, data: pa.Array) -> Decoded:
        """Return the values of binary values."""

    def encode(self, values: pa.Array, field: pa.Field) -> Encoded:
        """Return the bytes of values; the field has their type and Kafka Connect's words."""

    def close(self) -> None:
        """Let go of what it holds."""


def bad_row(row: int, code: str, message: str, fix: str) -> BadRow:
    """Return a row that could not be converted."""
    return row, DataError(code, message, fix=fix)
