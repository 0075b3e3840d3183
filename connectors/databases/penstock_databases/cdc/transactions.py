"""`provide.transaction.metadata`: the place of a change within its transaction, and where
transactions begin and end. Pure.

Source: Debezium's documentation, "Transaction metadata" of its MySQL and PostgreSQL connectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from penstock_connector import Batch, Op
from penstock_databases.cdc.rows import KEY, OP, TS_US
from penstock_values.semantic_types import with_schema_name

TRANSACTION: Final = "transaction"
"""The block of an envelope, and the field that has it in what says where a row is from."""

TRANSACTION_TYPE: Final = pa.struct([
    ("id", pa.string()), ("total_order", pa.int64()), ("data_collection_order", pa.int64()),
])  # fmt: skip


BEGIN: Final = "BEGIN"
END: Final = "END"

_COLLECTIONS: Final = pa.list_(
    pa.struct([("data_collection", pa.string()), ("event_count", pa.int64())])
)
_BOUNDARY_SCHEMA: Final = pa.schema([
    ("status", pa.string()), ("id", pa.string()), ("event_count", pa.int64()),
    ("data_collections", _COLLECTIONS), ("ts_ms", pa.int64()), OP, TS_US,
    with_schema_name(
        pa.field(KEY, pa.struct([("id", pa.string())])),
        "io.debezium.connector.common.TransactionMetadataKey",
    ),
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


class Boundary(NamedTuple):
    """Where a transaction begins or ends.

    Attributes:
        status: `BEGIN` or `END`.
        id: The transaction.
        stamp: When, in microseconds since 1970.
        counts: At its end, its changes by tables.
    """

    status: str
    id: str
    stamp: int
    counts: Mapping[str, int] | None = None


class TransactionCounter:
    """Counts changes that are given. Transactions come one after the other; one that was given in
    part goes on with the counts of its offset.

    Attributes:
        id: What tells the last transaction from the others.
        counts: Its changes so far, by tables; empty behind its end.
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
        elif not self.counts:
            self._total = 0
        self._total += 1
        order = self.counts[table] = self.counts.get(table, 0) + 1
        return TransactionPlace(shown or id_, self._total, order)

    @property
    def open(self) -> bool:
        """Whether changes of a transaction were counted that has not ended."""
        return bool(self.counts)

    def end(self) -> Mapping[str, int]:
        """End the transaction; returns its changes by tables."""
        counts, self.counts = self.counts, {}
        return counts


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


def boundary_batch(boundaries: Sequence[Boundary], dataset: str) -> Batch:
    """Return the rows that say where transactions begin and end, without an offset."""
    rows = [
        {
            "status": one.status,
            "id": one.id,
            "event_count": None if one.counts is None else sum(one.counts.values()),
            "data_collections": None if one.counts is None else _collections(one.counts),
            "ts_ms": one.stamp // 1_000,
            OP.name: int(Op.UNSPECIFIED),
            TS_US.name: one.stamp,
            KEY: {"id": one.id},
        }
        for one in boundaries
    ]
    return Batch(pa.RecordBatch.from_pylist(rows, schema=_BOUNDARY_SCHEMA), dataset=dataset)


def _collections(counts: Mapping[str, int]) -> list[dict[str, str | int]]:
    return [{"data_collection": table, "event_count": count} for table, count in counts.items()]
