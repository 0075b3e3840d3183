"""Where in the log rows are from, as the block `source` of Debezium's envelopes tells it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_databases.cdc.snapshot_marks import STREAMED
from penstock_databases.cdc.transactions import with_transactions
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.statements import TableName

ORIGIN_TYPE: Final = pa.struct([
    ("snapshot", pa.string()), ("db", pa.string()), ("sequence", pa.string()),
    ("table", pa.string()), ("server_id", pa.int64()), ("gtid", pa.string()),
    ("file", pa.string()), ("pos", pa.int64()), ("row", pa.int32()), ("thread", pa.int64()),
    ("query", pa.string()),
])  # fmt: skip


class EventOrigin(NamedTuple):
    """Where an event stands.

    Attributes:
        server_id: The server that the change was made at.
        gtid: The transaction; empty: unknown.
        file: The log file.
        pos: Where the event begins in it.
        thread: The session that made the change; -1: the log does not tell.
        begin: Where its transaction begins in the log.
    """

    server_id: int
    gtid: str
    file: str
    pos: int
    thread: int
    begin: tuple[str, int] = ("", 0)

    @property
    def transaction(self) -> str:
        """What tells the transaction from others."""
        file, pos = self.begin
        return self.gtid or f"file={file},pos={pos}"


def log_origins(
    table: TableName,
    events: Sequence[EventOrigin],
    event_of: npt.NDArray[np.int64],
    row_of: npt.NDArray[np.int64],
) -> pa.StructArray:
    """Return where rows of the log are from.

    Args:
        table: Their table.
        events: Where events stand.
        event_of: Of each row, the place of its event in `events`.
        row_of: Of each row, its number within the event, from 0.
    """
    take = pa.array(event_of)
    server_id, gtid, file, pos, thread, _ = zip(*events, strict=True)
    columns = {
        "server_id": pa.array(server_id, pa.int64()).take(take),
        "gtid": pa.array([one or None for one in gtid], pa.string()).take(take),
        "file": pa.array(file, pa.string()).take(take),
        "pos": pa.array(pos, pa.int64()).take(take),
        "row": pa.array(row_of).cast(pa.int32()),
        "thread": pa.array([one if one >= 0 else None for one in thread], pa.int64()).take(take),
    }
    marks = pa.repeat(pa.scalar(STREAMED), len(event_of))
    return _struct(table, marks, columns, ORIGIN_TYPE)


def snapshot_origins(
    table: TableName, place: Place, marks: pa.Array, kind: pa.StructType
) -> pa.StructArray:
    """Return where rows are from that were read of a table as it was at a place; with their marks
    (`cdc.snapshot_marks`).
    """
    count = len(marks)
    columns = {
        "server_id": pa.repeat(pa.scalar(0, pa.int64()), count),
        "file": pa.repeat(place.file, count),
        "pos": pa.repeat(pa.scalar(place.pos, pa.int64()), count),
        "row": pa.repeat(pa.scalar(0, pa.int32()), count),
    }
    return _struct(table, marks, columns, kind)


def with_places(origins: pa.StructArray, transactions: pa.Array) -> pa.StructArray:
    """Return where rows are from, with their places in transactions."""
    return pa.StructArray.from_arrays(
        [*origins.flatten(), transactions], fields=list(with_transactions(origins.type))
    )


def _struct(
    table: TableName, marks: pa.Array, columns: dict[str, pa.Array], kind: pa.StructType
) -> pa.StructArray:
    database, name = table
    count = len(marks)
    columns |= {
        "snapshot": marks,
        "db": pa.repeat(database, count),
        "table": pa.repeat(name, count),
    }
    return pa.StructArray.from_arrays(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in kind],
        fields=list(kind),
    )
