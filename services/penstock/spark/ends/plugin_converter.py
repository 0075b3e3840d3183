"""A converter of a plugin, called where the bytes are: it answers the port of `penstock.convert`.

Messages without bytes never reach it: a null is a null, both ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.connector.v1.transform_service_pb2_grpc import ConverterServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.convert.port import BadRow, Decoded, Encoded, Run
from penstock.model.columns import RAW_VALUE
from penstock.model.errors import DataError, error_of
from penstock.model.step import Remote
from penstock.spark.ends import plugin_answers
from penstock.spark.ends.plugin_calls import channel, metadata, violation
from penstock.spark.ends.plugin_sink import cut
from penstock.wire import error as wire

_RAW: Final = pa.schema([(RAW_VALUE, pa.binary())])
_RAW_ID: Final = 0
"""Schema of bytes that are to be decoded: both sides know it."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What came of the rows from `start` on: values, the input row of each, those that failed."""

    start: int
    rows: pa.RecordBatch
    kept: list[int]
    bad: list[BadRow]


@dataclass(frozen=True, slots=True)
class RemoteConverter:
    """A converter of a plugin, for the keys or the values of a topic."""

    remote: Remote
    dataset: str
    key: bool = False

    def decode(self, data: pa.Array) -> Decoded:
        """Return the rows in bytes, each as one value: a struct of its columns."""
        there = _there(data)
        if not there:
            nulls = pa.nulls(len(data))
            return Decoded((Run(pa.field("value", nulls.type), range(len(data)), nulls),))
        raw = pa.RecordBatch.from_arrays([_taken(data.cast(pa.binary()), there)], schema=_RAW)
        parts = self._parts(raw, [], _RAW_ID, serialize=False)
        bad = [(there[row], error) for part in parts for row, error in part.bad]
        wrong = {row for row, _ in bad}
        runs, begin = [], 0
        for part, after in zip(parts, [*parts[1:], None], strict=True):
            end = there[after.start] if after else len(data)
            place = {there[row]: at for at, row in enumerate(part.kept)}
            rows = [row for row in range(begin, end) if row not in wrong]
            values = part.rows.to_struct_array() if part.rows.num_rows else pa.nulls(0)
            # a message without bytes has no place, and becomes a null where it was
            column = values.take(pa.array([place.get(row) for row in rows], pa.int32()))
            runs.append(Run(pa.field("value", column.type), rows, column))
            begin = end
        return Decoded(tuple(runs), tuple(bad))

    def encode(self, values: pa.Array, field: pa.Field) -> Encoded:
        """Return the bytes of rows; a value that is no struct is the column `value`."""
        there = _there(values)
        kept = _taken(values, there)
        if pa.types.is_struct(field.type):
            rows = pa.RecordBatch.from_struct_array(kept)
        else:
            rows = pa.RecordBatch.from_arrays([kept], schema=pa.schema([field]))
        schema = pb.ConvertRequest(schema=plugin_answers.announced(rows.schema))
        made: list[bytes | None] = [None] * len(values)
        bad: list[BadRow] = []
        for part in self._parts(rows, [schema], plugin_answers.SCHEMA_ID, serialize=True):
            texts = part.rows.column(0).to_pylist() if part.kept else []
            for row, text in zip(part.kept, texts, strict=True):
                made[there[row]] = text
            bad += [(there[row], error) for row, error in part.bad]
        return Encoded(pa.array(made, pa.binary()), tuple(bad))

    def close(self) -> None:
        """Nothing is held: a batch is a call."""

    def _parts(
        self,
        rows: pa.RecordBatch,
        before: Sequence[pb.ConvertRequest],
        schema_id: int,
        *,
        serialize: bool,
    ) -> list[_Part]:
        if not rows.num_rows:
            return []
        parts = list(cut([rows], plugin_answers.ROOM))
        frames = plugin_answers.frames_of(parts, schema_id)
        order = pb.ConvertOpen(
            target=plugin_answers.target_of(self.remote),
            serialize=serialize,
            key=self.key,
            dataset=self.dataset,
            encodings=[record_pb2.ENCODING_ARROW_IPC],
        )
        sent = [
            pb.ConvertRequest(open=order),
            *before,
            *(pb.ConvertRequest(batch=frame) for frame in frames),
        ]
        outs = plugin_answers.Outs(self._answers(sent))
        done, start = [], 0
        for seq, (count, _) in enumerate(parts, 1):
            done.append(_part(outs, seq, start, count))
            start += count
        return done

    def _answers(self, sent: Sequence[pb.ConvertRequest]) -> Iterator[pb.ConvertResponse]:
        stub = ConverterServiceStub(channel(self.remote.place))
        call = stub.Convert(iter(sent), metadata=metadata(self.remote.place))
        stage = f"plugin.convert ({self.remote.path})"
        return plugin_answers.answers_of(call, self.remote.stall, stage)


def _part(outs: plugin_answers.Outs, seq: int, start: int, count: int) -> _Part:
    out, frames = outs.of(seq)
    schemas = {frame.schema_id for frame in frames}
    if len(schemas) > 1 or not schemas <= outs.schemas.keys():
        raise violation("schema", "rows came of a schema that was not told")
    schema = outs.schemas[schemas.pop()] if schemas else pa.schema([])
    rows = plugin_answers.rows_of(frames, schema)
    kept = plugin_answers.kept_of(out, rows.num_rows, count)
    if out.filtered or len(set(kept)) < len(kept):
        raise violation("convert_rows", "a converter makes one value of one")
    bad = [(start + failure.row, _bad(failure)) for failure in out.failed]
    return _Part(start, rows, [start + row for row in kept], bad)


def _bad(failure: pb.RowFailure) -> DataError:
    error = error_of(wire.from_proto(failure.reason))
    if not isinstance(error, DataError):
        raise error
    return error


def _there(values: pa.Array) -> list[int]:
    """Return the indices of what is not null."""
    found: list[int] = pc.indices_nonzero(values.is_valid()).to_pylist()
    return found


def _taken(values: pa.Array, rows: list[int]) -> pa.Array:
    return values.take(pa.array(rows, pa.int32()))
