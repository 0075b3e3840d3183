"""`provide.transaction.metadata`: the place of a change within its transaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import pyarrow as pa

TRANSACTION: Final = "transaction"
"""The block of an envelope, and the field that has it in what says where a row is from."""

TRANSACTION_TYPE: Final = pa.struct([
    ("id", pa.string()), ("total_order", pa.int64()), ("data_collection_order", pa.int64()),
])  # fmt: skip


class TransactionPlace(NamedTuple):
    """The place of a change in its transaction.

    Attributes:
        id: The transaction.
        total_order: Its number among the changes of the transaction, from 1.
        data_collection_order: The same among those of its table.
    """

    id: str
    total_order: int
    data_collection_order: int


class TransactionCounter:
    """Counts changes that are given. Transactions come one after the other; one that was given in
    part goes on with the counts of its offset.

    Attributes:
        id: What tells the last transaction from the others.
        counts: Its changes so far, by tables.
    """

    def __init__(self, id_: str = "", counts: Mapping[str, int] | None = None) -> None:
        self.id, self.counts = id_, dict(counts or {})
        self._total = sum(self.counts.values())

    def count(self, id_: str, table: str, shown: str = "") -> TransactionPlace:
        """Return the place of the next change.

        Args:
            id_: Its transaction.
            table: Its table.
            shown: What the change says as its transaction; empty: `id_`.
        """
        if id_ != self.id:
            self.id, self._total = id_, 0
            self.counts.clear()
        self._total += 1
        order = self.counts[table] = self.counts.get(table, 0) + 1
        return TransactionPlace(shown or id_, self._total, order)


def with_transactions(origin: pa.StructType) -> pa.StructType:
    """Return the type of what says where a row is from, with its transaction."""
    return pa.struct([*origin, pa.field(TRANSACTION, TRANSACTION_TYPE)])


def transaction_column(places: list[TransactionPlace | None]) -> pa.Array:
    """Return the blocks of changes; null for those that are not counted."""
    known = [place or TransactionPlace("", 0, 0) for place in places]
    columns = [
        pa.array([place.id for place in known], pa.string()),
        pa.array([place.total_order for place in known], pa.int64()),
        pa.array([place.data_collection_order for place in known], pa.int64()),
    ]
    mask = pa.array([place is None for place in places], pa.bool_())
    return pa.StructArray.from_arrays(columns, fields=list(TRANSACTION_TYPE), mask=mask)
