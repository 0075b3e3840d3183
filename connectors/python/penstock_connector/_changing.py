"""TransformService and ConverterService: rows in, rows out, a batch at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
import pyarrow as pa

from penstock.api.connector.v1 import transform_service_pb2 as pb
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock_connector import _frames
from penstock_connector._calls import fail
from penstock_connector._connectors import Connectors, configure
from penstock_connector._errors import ConnectorError, as_connector_error
from penstock_connector._outcome import Outcome, outcome_of
from penstock_connector._rows import Schemas, plain_schema
from penstock_connector._seats import Seats, drop
from penstock_connector._transform import Converter, Transform

TRANSFORM: Final = "penstock.api.connector.v1.TransformService"
CONVERTER: Final = "penstock.api.connector.v1.ConverterService"

RAW: Final = pa.schema([("__raw_value", pa.binary())])
"""How bytes that a converter reads or makes ride in a batch."""

T = TypeVar("T")


class Changing:
    """Serves the transforms and converters of a plugin."""

    def __init__(self, connectors: Connectors) -> None:
        self._connectors = connectors
        self._seats = Seats()
        self._threads = ThreadPoolExecutor(
            min(32, 4 * (os.cpu_count() or 1)), thread_name_prefix="change"
        )

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Return what a server needs to serve this."""
        transform = grpc.stream_stream_rpc_method_handler(
            self.transform,
            pb.TransformRequest.FromString,
            pb.TransformResponse.SerializeToString,
        )
        convert = grpc.stream_stream_rpc_method_handler(
            self.convert, pb.ConvertRequest.FromString, pb.ConvertResponse.SerializeToString
        )
        return (
            grpc.method_handlers_generic_handler(TRANSFORM, {"Transform": transform}),
            grpc.method_handlers_generic_handler(CONVERTER, {"Convert": convert}),
        )

    async def drain(self) -> None:
        """Let the free objects go. A call that runs is the server's to end."""
        await asyncio.to_thread(self._seats.close)

    async def transform(self, _: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Change the batches of one stream, in order."""
        requests = _requests(context)
        await self._serve(context, self._transforming(requests))

    async def convert(self, _: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Convert the batches of one stream, in order."""
        requests = _requests(context)
        await self._serve(context, self._converting(requests))

    async def _serve(
        self, context: grpc.aio.ServicerContext[Any, Any], answers: AsyncIterator[Any]
    ) -> None:
        try:
            async for answer in answers:
                await context.write(answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, the host is told
            await fail(context, as_connector_error(error, "apply"))

    async def _transforming(
        self, requests: AsyncIterator[pb.TransformRequest]
    ) -> AsyncIterator[pb.TransformResponse]:
        order = await _first(requests)
        kind = self._connectors.find(order.target.connector, Transform)
        key = order.target.SerializeToString(deterministic=True)

        def make() -> Transform[Any]:
            made = kind()
            made.init(configure(kind, order.target))
            made.connect()
            return made

        transform = await self._run(self._seats.take, key, make)
        try:
            async for answer in self._changed(transform, requests):
                yield answer
        except BaseException:
            await asyncio.shield(self._run(drop, transform))  # it may be half through a batch
            raise
        await self._run(self._seats.give, key, transform)

    async def _changed(
        self, transform: Transform[Any], requests: AsyncIterator[pb.TransformRequest]
    ) -> AsyncIterator[pb.TransformResponse]:
        inputs: dict[int, tuple[pa.Schema, pa.Schema, int]] = {}
        chunks, schemas = _frames.Chunks(), Schemas()
        async for request in requests:
            match request.WhichOneof("kind"):
                case "schema":
                    given = _frames.decode_schema(request.schema.arrow_schema)
                    made = plain_schema(await self._run(transform.schema, given))
                    schema_id, new = schemas.id_of(request.schema.dataset, made, ())
                    inputs[request.schema.schema_id] = given, made, schema_id
                    if new is not None:
                        yield pb.TransformResponse(schema=new)
                case "batch":
                    data = chunks.add(request.batch)
                    if data is None:
                        continue
                    given, made, schema_id = _known(inputs, request.batch.schema_id)
                    rows = _frames.decode_rows(data, given)
                    outcome = outcome_of(await self._run(transform.apply, rows), rows, made)
                    for out in _outs(outcome, request.batch.seq, schema_id):
                        yield pb.TransformResponse(out=out)

    async def _converting(
        self, requests: AsyncIterator[pb.ConvertRequest]
    ) -> AsyncIterator[pb.ConvertResponse]:
        order = await _first(requests)
        kind = self._connectors.find(order.target.connector, Converter)

        def make() -> Converter[Any]:
            made = kind()
            made.dataset, made.key = order.dataset, order.key
            made.init(configure(kind, order.target))
            made.connect()
            return made

        key = order.SerializeToString(deterministic=True)
        converter = await self._run(self._seats.take, key, make)
        try:
            async for answer in self._converted(converter, order, requests):
                yield answer
        except BaseException:
            await asyncio.shield(self._run(drop, converter))
            raise
        await self._run(self._seats.give, key, converter)

    async def _converted(
        self,
        converter: Converter[Any],
        order: pb.ConvertOpen,
        requests: AsyncIterator[pb.ConvertRequest],
    ) -> AsyncIterator[pb.ConvertResponse]:
        inputs = {0: RAW}
        chunks, schemas = _frames.Chunks(), Schemas()
        change = _encoding(converter) if order.serialize else _decoding(converter)
        async for request in requests:
            if request.HasField("schema"):
                schema = _frames.decode_schema(request.schema.arrow_schema)
                inputs[request.schema.schema_id] = schema
                continue
            data = chunks.add(request.batch)
            if data is None:
                continue
            rows = _frames.decode_rows(data, _known(inputs, request.batch.schema_id))
            outcome = await self._run(change, rows)
            schema_id, new = schemas.id_of(order.dataset, outcome.rows.schema, ())
            if new is not None:
                yield pb.ConvertResponse(schema=new)
            for out in _outs(outcome, request.batch.seq, schema_id):
                yield pb.ConvertResponse(out=out)

    async def _run(self, method: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, method, *arguments)


def _decoding(converter: Converter[Any]) -> Callable[[pa.RecordBatch], Outcome]:
    return lambda rows: outcome_of(converter.decode(rows.column(0)), rows, None)


def _encoding(converter: Converter[Any]) -> Callable[[pa.RecordBatch], Outcome]:
    def encode(rows: pa.RecordBatch) -> Outcome:
        made = converter.encode(rows)
        if isinstance(made, pa.Array):
            made = pa.RecordBatch.from_arrays([made.cast(pa.binary())], schema=RAW)
        return outcome_of(made, rows, RAW)

    return encode


async def _requests(context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
    while (request := await context.read()) is not grpc.aio.EOF:
        yield request


async def _first(requests: AsyncIterator[Any]) -> Any:
    async for request in requests:
        if request.HasField("open"):
            return request.open
        break
    raise ConnectorError("stream.not_opened", "the first frame of a stream must be open")


def _known(schemas: dict[int, T], schema_id: int) -> T:
    if schema_id not in schemas:
        raise ConnectorError("wire.schema.unknown", f"schema {schema_id} was never sent")
    return schemas[schema_id]


def _outs(outcome: Outcome, seq: int, schema_id: int) -> Iterator[pb.TransformOut]:
    """Yield the frames of an outcome: its rows in chunks, and with the last what became of them."""
    rows = outcome.rows
    pieces = _frames.chunk_rows(memoryview(_frames.encode_rows(rows)), _frames.MESSAGE_MOST)
    for chunk, piece in enumerate(pieces if rows.num_rows else ()):
        last = chunk + 1 == len(pieces)
        yield pb.TransformOut(
            input_seq=seq,
            batch=record_pb.Batch(
                seq=seq,
                schema_id=schema_id,
                rows=rows.num_rows,
                encoding=record_pb.ENCODING_ARROW_IPC,
                data=bytes(piece),
                chunk=chunk,
                more_chunks=not last,
            ),
            more=True,
        )
    yield pb.TransformOut(
        input_seq=seq,
        input_rows=outcome.input_rows,
        filtered=outcome.filtered,
        failed=[pb.RowFailure(row=row, reason=error.diagnostic()) for row, error in outcome.failed],
    )
