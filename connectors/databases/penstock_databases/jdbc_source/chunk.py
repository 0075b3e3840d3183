"""How many rows are read at once: as many as make a batch of a good size."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_BYTES: Final = 8 << 20
"""Bytes of rows that are read at once. Smaller costs more statements a row, larger more memory, of
which a first load over several connections holds some times as much."""

_FIRST: Final = 1024
"""Rows of the first read, when nothing is known of their size."""

_GROWTH: Final = 8
"""It grows so fast at most: rows further on may be larger."""


class Chunk:
    """The number of rows to ask for.

    Attributes:
        rows: The number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.rows = min(most, _FIRST)

    def learn(self, rows: pa.RecordBatch) -> None:
        """Look at rows that came."""
        if rows.num_rows:
            fit = max(int(_BYTES * rows.num_rows / max(rows.nbytes, 1)), 1)
            self.rows = min(self._most, fit, self.rows * _GROWTH)
