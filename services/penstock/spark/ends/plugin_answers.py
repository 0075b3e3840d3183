"""What a plugin answers to rows that it changes or converts, read and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.record.v1 import record_pb2
from penstock.model.step import Remote
from penstock.rpc.status import error_from
from penstock.spark.ends.frames import Decoder, schema_of, whole
from penstock.spark.ends.plugin_calls import LARGEST_MESSAGE, Stall, violation
from penstock.spark.schema import normal_schema

ROOM: Final = LARGEST_MESSAGE - (64 << 10)
"""Bytes of rows in a message; the rest is for everything else."""

SCHEMA_ID: Final = 1
"""Of the rows that are sent: a call has one schema."""


def target_of(remote: Remote) -> connector_pb.Target:
    """Return how a plugin is told what to do."""
    return connector_pb.Target(
        connector=remote.connector, instance=remote.instance, config=dict(remote.config)
    )


def announced(schema: pa.Schema) -> record_pb2.Schema:
    """Return the frame for a schema of rows that are sent."""
    return record_pb2.Schema(schema_id=SCHEMA_ID, arrow_schema=bytes(schema.serialize()))


def frames_of(
    parts: Sequence[tuple[int, pa.Buffer]], schema_id: int = SCHEMA_ID, room: int = ROOM
) -> Iterator[record_pb2.Batch]:
    """Yield the frames of batches, numbered from 1; a large row comes in chunks (rule R10)."""
    for seq, (rows, data) in enumerate(parts, 1):
        view = memoryview(data)
        for chunk, start in enumerate(range(0, len(view), room)):
            yield record_pb2.Batch(
                seq=seq,
                schema_id=schema_id,
                rows=rows,
                encoding=record_pb2.ENCODING_ARROW_IPC,
                data=bytes(view[start : start + room]),
                chunk=chunk,
                more_chunks=start + room < len(view),
            )


def answers_of(call: Any, seconds: float, stage: str) -> Iterator[Any]:
    """Yield the answers of a call. A plugin that hangs is left, one that ended is told; both are
    tried again by whoever runs the micro-batch.
    """
    try:
        with Stall(stage, seconds, call.cancel) as stall:
            while (response := _next(call, stall, stage)) is not None:
                yield response
    finally:
        call.cancel()


def _next(call: Any, stall: Stall, stage: str) -> Any:
    try:
        with stall.waiting():
            return next(call, None)
    except grpc.RpcError as error:
        raise (stall.error() if stall.expired else error_from(error, stage)) from None


class Outs:
    """The answers of one call, batch by batch."""

    def __init__(self, answers: Iterator[Any]) -> None:
        """`answers` have a `schema` or an `out`."""
        self.schemas: dict[int, pa.Schema] = {}
        self._answers = answers

    def of(self, seq: int) -> tuple[pb.TransformOut, list[record_pb2.Batch]]:
        """Return the last frame of the answer to a batch, and all that have rows."""
        frames: list[record_pb2.Batch] = []
        for answer in self._answers:
            if answer.HasField("schema"):
                self.schemas[answer.schema.schema_id] = schema_of(answer.schema.arrow_schema)
            if not answer.HasField("out"):
                continue
            out: pb.TransformOut = answer.out
            if out.input_seq != seq:
                raise violation("transform_order", f"batch {out.input_seq} came, not {seq}")
            if out.HasField("batch"):
                frames.append(out.batch)
            if not out.more:
                return out, frames
        raise violation("transform_incomplete", f"the answer to batch {seq} did not come")


def rows_of(frames: Sequence[record_pb2.Batch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of the frames of one batch, in the types that the engine takes."""
    batches = list(whole(frames))
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=normal_schema(schema))
    if len(batches) > 1:
        raise violation("frame", "an answer has several batches")
    head = bytes(schema.serialize())
    return Decoder(head, schema_id=batches[0].schema_id).rows(batches[0])


def kept_of(out: pb.TransformOut, rows: int, given: int) -> list[int]:
    """Return the input row of each output row. Each input row is in exactly one place (invariant
    5), and they keep their order (invariant 6).
    """
    gone = [*out.filtered, *(failure.row for failure in out.failed)]
    one_for_one = not out.input_rows and not gone
    kept = list(range(given)) if one_for_one else list(out.input_rows)
    told = {*kept, *gone}
    if len(kept) != rows or told != set(range(given)) or {*gone} & {*kept}:
        raise violation(
            "transform_rows",
            f"{rows} rows came of {given}, and {len(gone)} went: a row is nowhere, or twice",
        )
    if kept != sorted(kept):
        raise violation("transform_order", "rows came in another order")
    return kept
