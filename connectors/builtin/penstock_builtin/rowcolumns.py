"""Which columns of a batch are the row, and which ride along."""

from __future__ import annotations

import pyarrow as pa

RESERVED = "__"
"""How names of columns begin that are about the row and not of it: `__op`, `__ts_us`, `__key`."""


def row_names(schema: pa.Schema, *, reserved: bool) -> list[str]:
    """Return the names of the row's own columns; with `reserved`, of all."""
    return [name for name in schema.names if reserved or not name.startswith(RESERVED)]
