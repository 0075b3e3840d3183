"""The ends of an embedded topic: Parquet files, written here and made visible by the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.model.ticket import SlotTicket
from penstock.spark.ends import Written
from penstock.spark.schema import normal_batch, normal_schema
from penstock.topic_files import read_files, write_files


def read(slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the ticket's files, as Spark takes them."""
    for batch in read_files(slot.read):
        yield normal_batch(batch, normal_schema(batch.schema))


def write(slot: SlotTicket, attempt: int, batches: Iterable[pa.RecordBatch]) -> Written:
    """Write the rows into files of this attempt; the detail names them."""
    detail = write_files(batches, slot.write, attempt)
    return Written(sum(file["rows"] for file in detail["files"]), detail=dict(detail))
