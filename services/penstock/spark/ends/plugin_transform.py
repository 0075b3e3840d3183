"""A transform of a plugin, called where the rows are.

A batch is a call: nothing is kept between two, so a slot that is run again, on whichever machine,
finds everything as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.connector.v1.transform_service_pb2_grpc import TransformServiceStub
from penstock.api.record.v1 import record_pb2
from penstock.model.columns import is_reserved
from penstock.model.errors import ConfigError, DataError, Diagnostic, error_of
from penstock.model.step import ROW, Remote, SetApart
from penstock.spark.ends import plugin_answers
from penstock.spark.ends.frames import schema_of
from penstock.spark.ends.plugin_calls import channel, metadata, violation
from penstock.spark.ends.plugin_sink import cut
from penstock.spark.schema import normal_schema
from penstock.wire import error as wire


@dataclass(frozen=True, slots=True)
class RemoteKernel:
    """A transform fitted to a schema: rows in, rows out. Travels to executors.

    Attributes:
        remote: The transform.
        given: The columns that go in.
        told: The columns that the plugin says come out.
        made: The columns that go on: those, as the engine takes them, and the reserved ones.
    """

    remote: Remote
    given: pa.Schema
    told: pa.Schema
    made: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what becomes of rows, all of them.

        Raises:
            PenstockError: what the plugin says, how it ended, or that it took too long; what it
                says of the first row that it cannot change.
        """
        rows, failed = self.attempt(batch)
        if failed:
            raise error_of(failed[0][1])
        return rows

    def attempt(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[SetApart]]:
        """Return the rows that could be changed, and the others by the number in `ROW`.

        Raises:
            PenstockError: what the plugin says, how it ended, or that it took too long.
        """
        numbers = batch.column(ROW) if ROW in batch.schema.names else None
        own = batch if numbers is None else batch.drop_columns([ROW])
        rows, kept, failed = self._changed(own)
        if numbers is None:
            return rows, [(-1, why) for _, why in failed]
        left = rows.append_column(ROW, numbers.take(pa.array(kept, pa.int64())))
        return left, [(numbers[row].as_py(), why) for row, why in failed]

    def _changed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int], list[SetApart]]:
        """Return rows, the places in the batch that they had, and those that failed, by place."""
        if not batch.num_rows:
            return _empty(self.made), [], []
        parts = list(cut([batch], plugin_answers.ROOM))
        frames = plugin_answers.frames_of(parts, room=plugin_answers.ROOM)
        sent = [_announced(self.given), *(pb.TransformRequest(batch=frame) for frame in frames)]
        outs = plugin_answers.Outs(_answers(self.remote, sent))
        done, places, failed, start = [], list[int](), list[SetApart](), 0
        for seq, (rows, _) in enumerate(parts, 1):
            out, part, kept = self._part(outs, seq, batch.slice(start, rows))
            done.append(part)
            places += [start + place for place in kept]
            failed += [(start + one.row, _reason(self.remote, one)) for one in out.failed]
            start += rows
        table = pa.Table.from_batches(done, self.made).combine_chunks()
        return next(iter(table.to_batches()), None) or _empty(self.made), places, failed

    def _part(
        self, outs: plugin_answers.Outs, seq: int, given: pa.RecordBatch
    ) -> tuple[pb.TransformOut, pa.RecordBatch, Sequence[int]]:
        out, frames = outs.of(seq)
        for frame in frames:
            if not self.told.equals(outs.schemas.get(frame.schema_id, pa.schema([]))):
                raise violation("schema", "rows came in other columns than were told before")
        rows = plugin_answers.rows_of(frames, self.told)
        kept = plugin_answers.kept_of(out, rows.num_rows, given.num_rows)
        columns = [rows.column(name) for name in rows.schema.names if not is_reserved(name)]
        beside = [name for name in given.schema.names if is_reserved(name)]
        columns += [given.column(name).take(pa.array(kept, pa.int32())) for name in beside]
        return out, pa.RecordBatch.from_arrays(columns, schema=self.made), kept


def fit(remote: Remote, schema: pa.Schema) -> RemoteKernel:
    """Ask a plugin what comes out for rows of a schema.

    Raises:
        PenstockError: it refuses the schema, or cannot be asked.
        ConfigError: `transform.no_columns`: no column would be left.
    """
    told = None
    for answer in _answers(remote, [_announced(schema)]):
        if answer.HasField("schema"):
            told = schema_of(answer.schema.arrow_schema)
    if told is None:
        raise violation("schema", f"{remote.connector} did not say which columns come out")
    own = [column for column in normal_schema(told) if not is_reserved(column.name)]
    if not own:
        raise ConfigError(
            "transform.no_columns",
            f"{remote.connector} leaves no column",
            fix="Keep at least one.",
            config_path=remote.path,
        )
    beside = [column for column in schema if is_reserved(column.name)]
    return RemoteKernel(remote, schema, told, pa.schema([*own, *beside]))


def _answers(
    remote: Remote, frames: Iterable[pb.TransformRequest]
) -> Iterator[pb.TransformResponse]:
    opening = pb.TransformOpen(
        target=plugin_answers.target_of(remote), encodings=[record_pb2.ENCODING_ARROW_IPC]
    )
    requests = iter([pb.TransformRequest(open=opening), *frames])
    stub = TransformServiceStub(channel(remote.place))
    call = stub.Transform(requests, metadata=metadata(remote.place))
    return plugin_answers.answers_of(call, remote.stall, f"plugin.transform ({remote.path})")


def _announced(schema: pa.Schema) -> pb.TransformRequest:
    return pb.TransformRequest(schema=plugin_answers.announced(schema))


def _reason(remote: Remote, failure: pb.RowFailure) -> Diagnostic:
    """Return why a row failed.

    Raises:
        PenstockError: It is nothing about the row.
    """
    error = error_of(wire.from_proto(failure.reason))
    if not isinstance(error, DataError):
        raise error
    told = error.diagnostic
    return replace(told, message=f"{remote.path}: {told.message}", config_path=remote.path)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
