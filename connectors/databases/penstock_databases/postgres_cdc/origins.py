"""Where in the log rows are from, as the block `source` of Debezium's envelopes tells it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from penstock_connector.tables.names import TableId
from penstock_databases.cdc.snapshot_marks import STREAMED
from penstock_databases.cdc.transactions import (
    TRANSACTION,
    TransactionPlace,
    transaction_column,
)

ORIGIN_TYPE: Final = pa.struct([
    ("snapshot", pa.string()), ("db", pa.string()), ("sequence", pa.string()),
    ("schema", pa.string()), ("table", pa.string()), ("txId", pa.int64()), ("lsn", pa.int64()),
    ("xmin", pa.int64()),
])  # fmt: skip


class ChangeOrigin(NamedTuple):
    """Where a change stands.

    Attributes:
        xid: Its transaction.
        lsn: Its place in the log.
        last_lsn: Behind the transaction before it; 0: unknown.
        place: Its place in the transaction; None: it is not counted.
    """

    xid: int
    lsn: int
    last_lsn: int
    place: TransactionPlace | None = None


@dataclass(frozen=True, slots=True)
class TableOrigin:
    """A table, as the origin of rows.

    Attributes:
        database: Its database.
        table: Its name.
        kind: The type of what is said.
    """

    database: str
    table: TableId
    kind: pa.StructType = ORIGIN_TYPE

    def of_log(self, changes: Sequence[ChangeOrigin]) -> pa.StructArray:
        """Return where changes are from."""
        xids, lsns, _, places = zip(*changes, strict=True)
        sequence = [
            json.dumps(
                [str(one.last_lsn) if one.last_lsn else None, str(one.lsn)], separators=(",", ":")
            )
            for one in changes
        ]
        columns = {"txId": pa.array(xids, pa.int64()), "lsn": pa.array(lsns, pa.int64())}
        columns["sequence"] = pa.array(sequence, pa.string())
        columns[TRANSACTION] = transaction_column(list(places))
        return self._struct(pa.repeat(pa.scalar(STREAMED), len(changes)), columns)

    def of_snapshot(self, lsn: int, marks: pa.Array) -> pa.StructArray:
        """Return where rows are from that were read of the table as it was at a place; with their
        marks (`cdc.snapshot_marks`).
        """
        lsns = pa.repeat(pa.scalar(lsn, pa.int64()), len(marks))
        return self._struct(marks, {"lsn": lsns})

    def _struct(self, marks: pa.Array, columns: dict[str, pa.Array]) -> pa.StructArray:
        count = len(marks)
        texts = {
            "db": self.database,
            "schema": self.table.schema,
            "table": self.table.name,
        }
        columns["snapshot"] = marks
        columns |= {name: pa.repeat(text, count) for name, text in texts.items()}
        return pa.StructArray.from_arrays(
            [columns.get(field.name, pa.nulls(count, field.type)) for field in self.kind],
            fields=list(self.kind),
        )
