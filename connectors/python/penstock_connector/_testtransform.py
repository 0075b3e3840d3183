"""A transform or a converter in a test, over the real wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pyarrow as pa

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.connector.v1.transform_service_pb2_grpc import (
    ConverterServiceStub,
    TransformServiceStub,
)
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock_connector import _frames
from penstock_connector._changing import RAW
from penstock_connector._errors import ConnectorError
from penstock_connector._rows import to_arrow
from penstock_connector._source import Rows
from penstock_connector._testbed import DEADLINE, RemoteError, Testbed
from penstock_connector._transform import Converter, Transform


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a batch: rows, their input rows (empty: one for one), and the others.

    Attributes:
        failed: Input row to the code of its error.
    """

    rows: pa.RecordBatch
    input_rows: Sequence[int]
    filtered: Sequence[int]
    failed: Mapping[int, str]


class TransformTask:
    """A transform, as an executor calls it."""

    def __init__(self, bed: Testbed, target: connector_pb.Target) -> None:
        self._bed, self._target = bed, target
        self._stub = TransformServiceStub(bed.channel)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that come out for these."""
        answers = self._call([_schema(schema)])
        made = next(a.schema for a in answers if a.HasField("schema"))
        return _frames.decode_schema(made.arrow_schema)

    def apply(self, rows: Rows) -> Result:
        """Return what becomes of rows."""
        batch = to_arrow(rows, None, None)
        answers = self._call([_schema(batch.schema), pb.TransformRequest(batch=_batch(batch))])
        schema = next(a.schema.arrow_schema for a in answers if a.HasField("schema"))
        return _result([a.out for a in answers if a.HasField("out")], _frames.decode_schema(schema))

    def _call(self, frames: list[pb.TransformRequest]) -> list[pb.TransformResponse]:
        opening = pb.TransformRequest(open=pb.TransformOpen(target=self._target))
        stub, metadata = self._stub, self._bed.metadata
        try:
            call = stub.Transform(iter([opening, *frames]), metadata=metadata, timeout=DEADLINE)
            return list(call)
        except grpc.RpcError as error:
            raise RemoteError(error) from error


class ConverterTask:
    """A converter, as a topic calls it."""

    def __init__(self, bed: Testbed, target: connector_pb.Target, order: pb.ConvertOpen) -> None:
        self._bed, self._order = bed, order
        order.target.CopyFrom(target)
        self._stub = ConverterServiceStub(bed.channel)

    def decode(self, data: Sequence[bytes | None]) -> Result:
        """Return the rows in bytes."""
        rows = pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], schema=RAW)
        return self._call([pb.ConvertRequest(batch=_batch(rows, 0))], serialize=False)

    def encode(self, rows: Rows) -> Result:
        """Return the bytes of rows, as the one column of a result."""
        batch = to_arrow(rows, None, None)
        schema = pb.ConvertRequest(schema=_schema(batch.schema).schema)
        return self._call([schema, pb.ConvertRequest(batch=_batch(batch))], serialize=True)

    def _call(self, frames: list[pb.ConvertRequest], *, serialize: bool) -> Result:
        order = pb.ConvertOpen()
        order.CopyFrom(self._order)
        order.serialize = serialize
        requests = iter([pb.ConvertRequest(open=order), *frames])
        metadata = self._bed.metadata
        try:
            answers = list(self._stub.Convert(requests, metadata=metadata, timeout=DEADLINE))
        except grpc.RpcError as error:
            raise RemoteError(error) from error
        schema = next(a.schema.arrow_schema for a in answers if a.HasField("schema"))
        return _result([a.out for a in answers if a.HasField("out")], _frames.decode_schema(schema))


@contextmanager
def transform_task(
    kind: type[Transform[Any]], config: Mapping[str, str], *, bed: Testbed | None = None
) -> Iterator[TransformTask]:
    """Run a transform.

    Args:
        kind: The transform.
        config: Its configuration, as text.
        bed: A server to use; one of its own when None.
    """
    if bed is None:
        with Testbed(kind) as own, transform_task(kind, config, bed=own) as task:
            yield task
        return
    yield TransformTask(bed, connector_pb.Target(connector=kind.name, config=config))


@contextmanager
def converter_task(
    kind: type[Converter[Any]],
    config: Mapping[str, str],
    *,
    dataset: str = "test",
    key: bool = False,
) -> Iterator[ConverterTask]:
    """Run a converter.

    Args:
        kind: The converter.
        config: Its configuration, as text.
        dataset: Topic of its messages.
        key: Whether it converts keys.
    """
    target = connector_pb.Target(connector=kind.name, config=config)
    order = pb.ConvertOpen(dataset=dataset, key=key)
    with Testbed(kind) as bed:
        yield ConverterTask(bed, target, order)


def _schema(schema: pa.Schema) -> pb.TransformRequest:
    return pb.TransformRequest(
        schema=record_pb.Schema(schema_id=1, arrow_schema=_frames.encode_schema(schema))
    )


def _batch(rows: pa.RecordBatch, schema_id: int = 1) -> record_pb.Batch:
    return record_pb.Batch(
        seq=1,
        schema_id=schema_id,
        rows=rows.num_rows,
        encoding=record_pb.ENCODING_ARROW_IPC,
        data=bytes(_frames.encode_rows(rows)),
    )


def _result(outs: Sequence[pb.TransformOut], schema: pa.Schema) -> Result:
    data = b"".join(out.batch.data for out in outs)
    rows = _frames.decode_rows(data, schema) if data else _empty(schema)
    if not outs or outs[-1].more:
        raise ConnectorError("wire.out.incomplete", "the last frame of an answer did not come")
    last = outs[-1]
    failed = {failure.row: failure.reason.code for failure in last.failed}
    return Result(rows, tuple(last.input_rows), tuple(last.filtered), failed)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
