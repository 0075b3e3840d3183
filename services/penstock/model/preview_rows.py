"""Rows that somebody makes up, to see what a chain of transforms makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.model.errors import Diagnostic

MOST_ROWS: Final = 1_000
MOST_BYTES: Final = 256 << 10
"""Bounds of the rows that are given (invariant 12): they travel with the ticket of a job."""


@dataclass(frozen=True, slots=True)
class Given:
    """Rows, each a JSON object, of a dataset. `columns` has the types of those that the values do
    not tell, as `CAST` names them; a column is as often in a row as it likes. With `sample`, so
    many rows are read from the source instead.
    """

    rows: tuple[str, ...]
    dataset: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What became of them: JSON as live rows are shown in, where they would go, and which of those
    that were given fail (counted from 1), and why.
    """

    rows: tuple[str, ...]
    dataset: str
    failed: tuple[tuple[int, Diagnostic], ...] = ()
