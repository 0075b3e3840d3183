"""Calls a plugin's transform for each batch, and checks its answers.

Each batch is one call that keeps no state, so a slot can run again on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.connector.v1.transform_service_pb2_grpc import TransformServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.columns import is_reserved
from penstock.model.errors import ConfigError, DataError, Diagnostic, error_from_diagnostic
from penstock.model.step import ROW, RejectedRow, RemoteTransform
from penstock.rpc.status import error_from
from penstock.spark.connector_io.frames import (
    Decoder,
    encode_frames,
    join_chunks,
    parse_schema,
    split_batches,
)
from penstock.spark.connector_io.plugin_calls import (
    MAX_MESSAGE_BYTES,
    StallTimer,
    call_metadata,
    plugin_channel,
    protocol_error,
)
from penstock.spark.schema import normalize_schema
from penstock.wire.error import DIAGNOSTIC

MAX_ROW_BYTES: Final = MAX_MESSAGE_BYTES - (64 << 10)
"""Bytes of rows in a message; the rest is reserved for everything else."""

_SCHEMA_ID: Final = 1
"""Id of the schema of the rows that are sent: a call has only one."""


@dataclass(frozen=True, slots=True)
class RemoteKernel:
    """A plugin's transform fitted to a schema: rows in, rows out. Pickled to the executors.

    Attributes:
        remote: The transform.
        input_schema: The columns that go in.
        plugin_schema: The columns that the plugin announced.
        output_schema: The columns that go on: those in the engine's types, and the reserved ones.
    """

    remote: RemoteTransform
    input_schema: pa.Schema
    plugin_schema: pa.Schema
    output_schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows after the transform, all of them.

        Raises:
            PenstockError: the plugin's error, its end or its timeout; or the reason of the first
                row that it rejects.
        """
        rows, failed = self.split_rejected(batch)
        if failed:
            raise error_from_diagnostic(failed[0][1])
        return rows

    def split_rejected(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RejectedRow]]:
        """Return the rows after the transform, and the rejected ones by their number in `ROW`.

        Raises:
            PenstockError: the plugin's error, its end or its timeout.
        """
        numbers = batch.column(ROW) if ROW in batch.schema.names else None
        values = batch if numbers is None else batch.drop_columns([ROW])
        rows, kept, failed = self._transform(values)
        if numbers is None:
            return rows, [(-1, why) for _, why in failed]
        numbered = rows.append_column(ROW, numbers.take(pa.array(kept, pa.int64())))
        return numbered, [(numbers[row].as_py(), why) for row, why in failed]

    def _transform(
        self, batch: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, list[int], list[RejectedRow]]:
        """Return rows, the input row of each, and the rejected rows by their place in the batch."""
        if not batch.num_rows:
            return _empty(self.output_schema), [], []
        parts = list(split_batches([batch], MAX_ROW_BYTES))
        requests = [
            _schema_request(self.input_schema),
            *(pb.TransformRequest(batch=frame) for frame in _encode_parts(parts)),
        ]
        outputs = _Outputs(_responses(self.remote, requests))
        done, places, failed, start = [], list[int](), list[RejectedRow](), 0
        for seq, (rows, _) in enumerate(parts, 1):
            out, part, kept = self._take_part(outputs, seq, batch.slice(start, rows))
            done.append(part)
            places += [start + place for place in kept]
            failed += [(start + one.row, _reason(self.remote, one)) for one in out.failed]
            start += rows
        table = pa.Table.from_batches(done, self.output_schema).combine_chunks()
        return next(iter(table.to_batches()), None) or _empty(self.output_schema), places, failed

    def _take_part(
        self, outputs: _Outputs, seq: int, batch: pa.RecordBatch
    ) -> tuple[pb.TransformOut, pa.RecordBatch, Sequence[int]]:
        out, frames = outputs.take(seq)
        for frame in frames:
            if not self.plugin_schema.equals(outputs.schemas.get(frame.schema_id, pa.schema([]))):
                raise protocol_error("schema", "rows came in other columns than were announced")
        rows = decode_rows(frames, self.plugin_schema)
        kept = _input_rows(out, rows.num_rows, batch.num_rows)
        columns = [rows.column(name) for name in rows.schema.names if not is_reserved(name)]
        reserved = [name for name in batch.schema.names if is_reserved(name)]
        columns += [batch.column(name).take(pa.array(kept, pa.int32())) for name in reserved]
        return out, pa.RecordBatch.from_arrays(columns, schema=self.output_schema), kept


def fit_transform(remote: RemoteTransform, schema: pa.Schema) -> RemoteKernel:
    """Return the columns that a plugin makes of rows of a schema.

    Raises:
        PenstockError: it refuses the schema, or does not answer.
        ConfigError: `transform.no_columns`: no column would be left.
    """
    announced = None
    for response in _responses(remote, [_schema_request(schema)]):
        if response.HasField("schema"):
            announced = parse_schema(response.schema.arrow_schema)
    if announced is None:
        raise protocol_error("schema", f"{remote.connector} did not announce its output columns")
    columns = [column for column in normalize_schema(announced) if not is_reserved(column.name)]
    if not columns:
        raise ConfigError(
            "transform.no_columns",
            f"{remote.connector} leaves no column",
            fix="Keep at least one.",
            config_path=remote.path,
        )
    reserved = [column for column in schema if is_reserved(column.name)]
    return RemoteKernel(remote, schema, announced, pa.schema([*columns, *reserved]))


def _responses(
    remote: RemoteTransform, frames: Iterable[pb.TransformRequest]
) -> Iterator[pb.TransformResponse]:
    open_request = pb.TransformOpen(target=_target_of(remote))
    requests = iter([pb.TransformRequest(open=open_request), *frames])
    stub = TransformServiceStub(plugin_channel(remote.connection))
    call = stub.Transform(requests, metadata=call_metadata(remote.connection))
    return _read_responses(call, remote.stall_timeout_s, f"plugin.transform ({remote.path})")


def _schema_request(schema: pa.Schema) -> pb.TransformRequest:
    return pb.TransformRequest(schema=_schema_frame(schema))


def _reason(remote: RemoteTransform, failure: pb.RowFailure) -> Diagnostic:
    """Return why a row failed.

    Raises:
        PenstockError: The failure is not about the row.
    """
    error = error_from_diagnostic(DIAGNOSTIC.from_proto(failure.reason))
    if not isinstance(error, DataError):
        raise error
    reason = error.diagnostic
    return replace(reason, message=f"{remote.path}: {reason.message}", config_path=remote.path)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _target_of(remote: RemoteTransform) -> connector_pb.Target:
    """Return the protocol's message that names a transform and its configuration."""
    return connector_pb.Target(
        connector=remote.connector, instance=remote.instance, config=dict(remote.config)
    )


def _schema_frame(schema: pa.Schema) -> record_pb2.Schema:
    """Return the frame of the schema of rows that are sent."""
    return record_pb2.Schema(schema_id=_SCHEMA_ID, arrow_schema=bytes(schema.serialize()))


def _encode_parts(parts: Sequence[tuple[int, pa.Buffer]]) -> Iterator[record_pb2.Batch]:
    """Yield the frames of the parts of a batch, numbered from 1."""
    for seq, (rows, data) in enumerate(parts, 1):
        yield from encode_frames(seq, rows, data, _SCHEMA_ID, MAX_ROW_BYTES)


def _read_responses(call: Any, stall_timeout_s: float, stage: str) -> Iterator[Any]:
    """Yield the responses of a call. The worker retries the micro-batch of a plugin that hangs or
    has ended.
    """
    try:
        with StallTimer(stage, stall_timeout_s, call.cancel) as timer:
            while (response := _next(call, timer, stage)) is not None:
                yield response
    finally:
        call.cancel()


def _next(call: Any, timer: StallTimer, stage: str) -> Any:
    try:
        with timer.waiting():
            return next(call, None)
    except grpc.RpcError as error:
        raise (timer.error() if timer.expired else error_from(error, stage)) from None


class _Outputs:
    """The outputs of one call, batch by batch, and their schemas."""

    def __init__(self, responses: Iterator[Any]) -> None:
        """Each response has a `schema` or an `out`."""
        self.schemas: dict[int, pa.Schema] = {}
        self._responses = responses

    def take(self, seq: int) -> tuple[pb.TransformOut, list[record_pb2.Batch]]:
        """Return the last frame of the output of a batch, and all its frames with rows."""
        frames: list[record_pb2.Batch] = []
        for response in self._responses:
            if response.HasField("schema"):
                self.schemas[response.schema.schema_id] = parse_schema(response.schema.arrow_schema)
            if not response.HasField("out"):
                continue
            out: pb.TransformOut = response.out
            if out.input_seq != seq:
                raise protocol_error("transform_order", f"batch {out.input_seq} came, not {seq}")
            if out.HasField("batch"):
                frames.append(out.batch)
            if not out.more:
                return out, frames
        raise protocol_error("transform_incomplete", f"the answer to batch {seq} did not come")


def decode_rows(frames: Sequence[record_pb2.Batch], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in the frames of one batch, in the engine's types."""
    batches = list(join_chunks(frames))
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=normalize_schema(schema))
    if len(batches) > 1:
        raise protocol_error("frame", "an answer has several batches")
    decoder = Decoder(bytes(schema.serialize()), schema_id=batches[0].schema_id)
    return decoder.decode(batches[0])


def _input_rows(out: pb.TransformOut, rows: int, input_count: int) -> list[int]:
    """Return the input row of each output row. Each input row is kept, filtered or failed, exactly
    one of them (invariant 5), and rows keep their order (invariant 6).
    """
    dropped = [*out.filtered, *(failure.row for failure in out.failed)]
    is_one_for_one = not out.input_rows and not dropped
    kept = list(range(input_count)) if is_one_for_one else list(out.input_rows)
    if len(kept) != rows or {*kept, *dropped} != set(range(input_count)) or {*dropped} & {*kept}:
        raise protocol_error(
            "transform_rows",
            f"{rows} rows came of {input_count}, and {len(dropped)} were dropped: "
            "a row is missing, or in two places",
        )
    if kept != sorted(kept):
        raise protocol_error("transform_order", "rows came in another order")
    return kept
