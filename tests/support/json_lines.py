"""A task of a source that gives its rows as JSON lines, seen from the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.record.v1 import record_pb2
from penstock.spark.connector_io import json_lines
from penstock_connector import Partition
from penstock_connector._values import partition_to_proto
from penstock_connector.testing import SourceTask
from support.foreign import ForeignBed

JSON_LINES: Final = record_pb2.ENCODING_JSON_LINES


@contextmanager
def json_task(
    bed: ForeignBed,
    name: str,
    config: Mapping[str, str],
    *,
    offset: Mapping[str, Any] | None = None,
    credit: int = 64 << 20,
    epoch: int = 1,
    limits: types_pb2.Limits | None = None,
    encodings: Sequence[int] = (JSON_LINES,),
) -> Iterator[SourceTask]:
    """Run one task with the one partition of a source named `name`."""
    partition = partition_to_proto(Partition({"source": name}, offset))
    order = pb.ReadOpen(
        target=connector_pb.Target(connector=name, instance="test", config=config),
        task=connector_pb.TaskPlan(task_id="test-0", partitions=[partition]),
        epoch=epoch,
        encodings=encodings,  # type: ignore[arg-type] # enums are numbers
        limits=limits,
        credit=types_pb2.Credit(bytes=credit),
    )
    task = SourceTask(bed, order)  # type: ignore[arg-type] # a bed is a channel and metadata
    try:
        yield task
    finally:
        task.call.cancel()


def fetched(task: SourceTask, ready: pb.BatchReady) -> pa.RecordBatch:
    """Return an announced batch, after a look at what was announced."""
    (frame,) = task.fetch_frames(ready.seq)
    assert frame.batch.encoding == JSON_LINES
    rows = json_lines.parse_rows(frame.batch.data, task.schemas[frame.batch.schema_id])
    assert rows.num_rows == ready.rows
    return rows


def all_numbers(task: SourceTask) -> list[int]:
    """Return the column `number` of all rows, up to the end of a bounded source."""
    numbers: list[int] = []
    while (frame := task.event()) is not None and not frame.HasField("drained"):
        if frame.HasField("ready"):
            numbers += fetched(task, frame.ready).column("number").to_pylist()
            task.release(frame.ready.seq)
    return numbers
