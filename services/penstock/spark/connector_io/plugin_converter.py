"""A plugin's converter, as a `penstock_converters` converter. Each batch is one call.

Null messages never reach the plugin: a null stays a null, in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.connector.v1.transform_service_pb2_grpc import ConverterServiceStub
from penstock.model.columns import RAW_VALUE
from penstock.model.errors import DataError, error_from_diagnostic
from penstock.model.step import RemoteTransform
from penstock.spark.connector_io import plugin_transform
from penstock.spark.connector_io.frames import split_batches
from penstock.spark.connector_io.plugin_calls import call_metadata, plugin_channel, protocol_error
from penstock.spark.connector_io.plugin_transform import Outputs
from penstock.wire.error import DIAGNOSTIC
from penstock_converters import Decoded, Encoded, Problem, RejectedValue, Run

_RAW_SCHEMA: Final = pa.schema([(RAW_VALUE, pa.binary())])
_RAW_SCHEMA_ID: Final = 0
"""Schema of bytes to decode: fixed by the protocol, so that it is not sent."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The output for the rows from `start` on: values, the input row of each, and rejected rows."""

    start: int
    rows: pa.RecordBatch
    kept: list[int]
    rejected: list[RejectedValue]


@dataclass(frozen=True, slots=True)
class RemoteConverter:
    """A plugin's converter for the keys or the values of topics."""

    takes_structs: ClassVar[bool] = True

    remote: RemoteTransform
    key: bool = False

    def decode(self, data: pa.Array, topic: str) -> Decoded:
        """Return each message as one value: a struct of its columns."""
        present = _indices_of_values(data)
        if not present:
            nulls = pa.nulls(len(data))
            return Decoded((Run(pa.field("value", nulls.type), range(len(data)), nulls),))
        messages = _take(data.cast(pa.binary()), present)
        raw = pa.RecordBatch.from_arrays([messages], schema=_RAW_SCHEMA)
        parts = self._convert(raw, [], _RAW_SCHEMA_ID, topic, serialize=False)
        rejected = [(present[row], error) for part in parts for row, error in part.rejected]
        rejected_rows = {row for row, _ in rejected}
        runs, begin = [], 0
        for part, after in zip(parts, [*parts[1:], None], strict=True):
            end = present[after.start] if after else len(data)
            place = {present[row]: at for at, row in enumerate(part.kept)}
            rows = [row for row in range(begin, end) if row not in rejected_rows]
            values = part.rows.to_struct_array() if part.rows.num_rows else pa.nulls(0)
            # a null message has no place among the values, and becomes a null where it was
            column = values.take(pa.array([place.get(row) for row in rows], pa.int32()))
            runs.append(Run(pa.field("value", column.type), rows, column))
            begin = end
        return Decoded(tuple(runs), tuple(rejected))

    def encode(self, values: pa.Array, field: pa.Field, topic: str) -> Encoded:
        """Return the bytes of values. A value that is not a struct is sent as the column
        `value`.
        """
        present = _indices_of_values(values)
        kept = _take(values, present)
        if pa.types.is_struct(field.type):
            rows = pa.RecordBatch.from_struct_array(kept)
        else:
            rows = pa.RecordBatch.from_arrays([kept], schema=pa.schema([field]))
        schema = pb.ConvertRequest(schema=plugin_transform.schema_frame(rows.schema))
        encoded: list[bytes | None] = [None] * len(values)
        rejected: list[RejectedValue] = []
        schema_id = plugin_transform.SCHEMA_ID
        for part in self._convert(rows, [schema], schema_id, topic, serialize=True):
            messages = part.rows.column(0).to_pylist() if part.kept else []
            for row, message in zip(part.kept, messages, strict=True):
                encoded[present[row]] = message
            rejected += [(present[row], error) for row, error in part.rejected]
        return Encoded(pa.array(encoded, pa.binary()), tuple(rejected))

    def close(self) -> None:
        """Do nothing: no state is kept between calls."""

    def _convert(
        self,
        rows: pa.RecordBatch,
        before: Sequence[pb.ConvertRequest],
        schema_id: int,
        topic: str,
        *,
        serialize: bool,
    ) -> list[_Part]:
        if not rows.num_rows:
            return []
        parts = list(split_batches([rows], plugin_transform.MAX_ROW_BYTES))
        frames = plugin_transform.encode_parts(parts, schema_id)
        open_request = pb.ConvertOpen(
            target=plugin_transform.target_of(self.remote),
            serialize=serialize,
            key=self.key,
            dataset=topic,
        )
        requests = [
            pb.ConvertRequest(open=open_request),
            *before,
            *(pb.ConvertRequest(batch=frame) for frame in frames),
        ]
        outputs = Outputs(self._responses(requests))
        converted, start = [], 0
        for seq, (count, _) in enumerate(parts, 1):
            converted.append(_take_part(outputs, seq, start, count))
            start += count
        return converted

    def _responses(self, requests: Sequence[pb.ConvertRequest]) -> Iterator[pb.ConvertResponse]:
        stub = ConverterServiceStub(plugin_channel(self.remote.connection))
        call = stub.Convert(iter(requests), metadata=call_metadata(self.remote.connection))
        stage = f"plugin.convert ({self.remote.path})"
        return plugin_transform.read_responses(call, self.remote.stall_timeout_s, stage)


def _take_part(outputs: Outputs, seq: int, start: int, count: int) -> _Part:
    out, frames = outputs.take(seq)
    schemas = {frame.schema_id for frame in frames}
    if len(schemas) > 1 or not schemas <= outputs.schemas.keys():
        raise protocol_error("schema", "rows came of a schema that was not announced")
    schema = outputs.schemas[schemas.pop()] if schemas else pa.schema([])
    rows = plugin_transform.decode_rows(frames, schema)
    kept = plugin_transform.input_rows(out, rows.num_rows, count)
    if out.filtered or len(set(kept)) < len(kept):
        raise protocol_error("convert_rows", "a converter must return one value for each input")
    rejected = [(start + failure.row, _reason(failure)) for failure in out.failed]
    return _Part(start, rows, [start + row for row in kept], rejected)


def _reason(failure: pb.RowFailure) -> Problem:
    error = error_from_diagnostic(DIAGNOSTIC.from_proto(failure.reason))
    if not isinstance(error, DataError):
        raise error
    return Problem(error.code, error.diagnostic.message, error.diagnostic.fix)


def _indices_of_values(values: pa.Array) -> list[int]:
    """Return the indices of the values that are not null."""
    found: list[int] = pc.indices_nonzero(values.is_valid()).to_pylist()
    return found


def _take(values: pa.Array, rows: list[int]) -> pa.Array:
    return values.take(pa.array(rows, pa.int32()))
