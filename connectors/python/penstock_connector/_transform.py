"""What the author of a transform or of a converter writes.

The host calls one where the rows are: from several machines at once, batch by batch. An object is
called by one thread at a time, and keeps nothing from one batch to the next: another object may get
the next one. `init` and `connect` come first, `close` last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from penstock_connector._connector import C, Connector
from penstock_connector._errors import ConnectorError


@dataclass(slots=True)
class Transformed:
    """Rows that came of rows, where they are not one for one.

    Attributes:
        rows: What came out.
        input_rows: The input row of each of them, ascending; None when they are the input's rows
            in order, but for those that are named below.
        filtered: Input rows that were dropped on purpose.
        failed: Input rows that could not be changed, and why.
    """

    rows: pa.RecordBatch
    input_rows: Sequence[int] | None = None
    filtered: Sequence[int] = ()
    failed: Sequence[tuple[int, ConnectorError]] = field(default_factory=list)


Changed: TypeAlias = "pa.RecordBatch | Transformed"
"""What `apply` returns: as many rows as came in, or what became of them."""


class Transform(Connector[C]):
    """Changes rows. A subclass must have a `name` and `apply`."""

    def connect(self) -> None:
        """Open what is needed."""

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that come out for these. Pure; the same for the same.

        Columns whose names begin with two underscores (`__op`, `__key`) can be read; they go on
        beside the rows, whatever comes out.
        """
        return schema

    def apply(self, rows: pa.RecordBatch) -> Changed:
        """Return what becomes of rows, in the schema that `schema` gave for theirs."""
        raise NotImplementedError


class Converter(Connector[C]):
    """Turns bytes into rows and back. A subclass must have a `name`, and `decode` or `encode`.

    Attributes:
        dataset: The topic whose messages it converts.
        key: It converts keys; otherwise values.
    """

    dataset: str = ""
    key: bool = False

    def connect(self) -> None:
        """Open what is needed."""

    def decode(self, data: pa.Array) -> Changed:
        """Return the rows in binary values, one for each; none is null."""
        raise NotImplementedError

    def encode(self, rows: pa.RecordBatch) -> pa.Array | Transformed:
        """Return the bytes of rows: binary values, one for each."""
        raise NotImplementedError
