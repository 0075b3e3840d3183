"""SinkService: Write is the control stream of a task, Put takes rows from executors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final

import grpc
import grpc.aio

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2 as types_pb
from penstock_connector import _frames
from penstock_connector._calls import fail
from penstock_connector._committer import Committer
from penstock_connector._connector import Connector
from penstock_connector._connectors import Connectors, configure, modes_of
from penstock_connector._errors import (
    ConnectorError,
    FencedError,
    RetriableError,
    as_connector_error,
)
from penstock_connector._fencing import Owners
from penstock_connector._simple import SimpleSink
from penstock_connector._sink import Sink, TransactionalSink
from penstock_connector._staging import Stage
from penstock_connector._values import CommitMode, PreparedTxn, prepared_to_proto

SERVICE: Final = "penstock.api.connector.v1.SinkService"

_OPEN_WITHIN: Final = 30.0
"""Seconds for the first frame. Only stops a caller that opens a stream and says nothing."""

_HAND_OVER_WITHIN: Final = 30.0
"""Seconds that an older stream of a task has to end its running commit. Longer delays a move;
shorter could let two epochs write at once."""

_log = logging.getLogger(__name__)


class Writing:
    """Serves the sinks of a plugin."""

    def __init__(self, connectors: Connectors) -> None:
        self._connectors = connectors
        self._tasks: Owners[Committer] = Owners()
        self._puts = ThreadPoolExecutor(
            min(32, 4 * (os.cpu_count() or 1) + 4), thread_name_prefix="put"
        )

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a server needs to serve this."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Write": grpc.stream_stream_rpc_method_handler(
                    self.write, pb.WriteRequest.FromString, pb.WriteResponse.SerializeToString
                ),
                "Put": grpc.stream_stream_rpc_method_handler(
                    self.put, pb.PutRequest.FromString, pb.PutResponse.SerializeToString
                ),
            },
        )

    async def drain(self, grace: float) -> None:
        """End every task once its running call is done, and wait for that within the grace."""
        tasks = self._tasks.all()
        for task in tasks:
            task.fail(RetriableError("plugin.ending", "the plugin process is ending"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await asyncio.gather(*(task.ended.wait() for task in tasks))

    # ── Put ──────────────────────────────────────────────────────────────────────────────────────

    async def put(self, _: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Stage the rows of one attempt at a slot."""
        try:
            request = await _read(context, pb.PutRequest)
            if request is None or not request.HasField("open"):
                raise ConnectorError("put.not_opened", "the first frame of a Put must be open")
            ticket = request.open
            task = self._tasks.find(ticket.task_id, ticket.epoch)
            stage = await task.begin_put(ticket.txn_id, ticket.slot, ticket.attempt)
            try:
                await _put_all(task, stage, context)
            finally:
                stage.ended.set()
        except Exception as error:  # noqa: BLE001 - whatever it is, the host is told
            await fail(context, as_connector_error(error, "put"))

    # ── Write ────────────────────────────────────────────────────────────────────────────────────

    async def write(self, _: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Run a task from Open to the end of the stream."""
        try:
            task, opened = await self._open(context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the host is told
            await fail(context, as_connector_error(error, "open"))
        failure: ConnectorError | None = None
        try:
            await context.write(pb.WriteResponse(opened=opened))
            await _until_stopped(task, context)
        except ConnectorError as error:
            failure = error
            task.fail(error)  # a put that is under way gets this error, not that of a closed task
        finally:
            failure = task.error or failure
            await asyncio.shield(self._end(task))
        if failure is not None:
            await fail(context, failure)

    async def _open(
        self, context: grpc.aio.ServicerContext[Any, Any]
    ) -> tuple[Committer, pb.WriteOpened]:
        order = await _first(context)
        kind: type[Connector[Any]] = self._connectors.find(
            order.target.connector, (Sink, TransactionalSink)
        )
        config = configure(kind, order.target, order.task.config)
        await self._end_older(order.task.task_id, order.epoch)
        sink = _transactional(kind)
        task = Committer(
            sink, self._puts, name=kind.__name__, task_id=order.task.task_id, epoch=order.epoch
        )
        self._tasks.start(task.task_id, task)
        try:
            committed = await task.open(config, order)
        except BaseException:
            await asyncio.shield(self._end(task))
            raise
        # a sink may settle on its wish when it has seen its configuration
        every = max(getattr(sink, "commit_every", 0.0), getattr(kind, "commit_every", 0.0))
        opened = _opened(_mode(kind, order.commit_mode), committed, every)
        opened.describes_datasets = _reports_columns(kind) and sink.reports_columns
        opened.reports_failed_rows = sink.reports_failed_rows
        return task, opened

    async def _end_older(self, task_id: str, epoch: int) -> None:
        older = self._tasks.admit(task_id, epoch)
        if older is None:
            return
        older.fail(
            FencedError("task.taken_over", f"task {task_id!r} was opened again, epoch {epoch}")
        )
        try:
            async with asyncio.timeout(_HAND_OVER_WITHIN):
                await older.ended.wait()
        except TimeoutError:
            _log.warning("the older stream of task %s did not end in time", task_id)
            self._tasks.end(task_id, older)

    async def _end(self, task: Committer) -> None:
        try:
            await task.close()
        except ConnectorError as error:
            _log.warning("closing task %s: %s", task.task_id, error)
        self._tasks.end(task.task_id, task)


def _transactional(kind: type[Connector[Any]]) -> TransactionalSink[Any]:
    made = kind()
    if isinstance(made, Sink):
        return SimpleSink(made)
    assert isinstance(made, TransactionalSink)  # noqa: S101 - find() gave one of the two
    return made


def _reports_columns(kind: type[Connector[Any]]) -> bool:
    """Return whether a sink has `columns` of its own."""
    own = getattr(kind, "columns", None)
    return own not in {Sink.columns, TransactionalSink.columns}


def _mode(kind: type[Connector[Any]], wanted: int) -> CommitMode:
    """Return the mode in force. A weaker one than wanted is told, never hidden: the host fails the
    task then (rule R13).
    """
    modes = modes_of(kind)
    return next((mode for mode in modes if mode == wanted), modes[0])


def _opened(mode: CommitMode, committed: PreparedTxn | None, every: float) -> pb.WriteOpened:
    opened = pb.WriteOpened(
        commit_mode=int(mode),  # type: ignore[arg-type] # enums share numbers
        limits=types_pb.Limits(max_message_bytes=_frames.MESSAGE_MOST),
    )
    if committed is not None:
        opened.committed.CopyFrom(prepared_to_proto(committed))
    if every:
        opened.commit_every.FromTimedelta(timedelta(seconds=every))
    return opened


async def _read(context: grpc.aio.ServicerContext[Any, Any], kind: type[Any]) -> Any:
    request = await context.read()
    return request if isinstance(request, kind) else None


async def _first(context: grpc.aio.ServicerContext[Any, Any]) -> pb.WriteOpen:
    request = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_OPEN_WITHIN):
            request = await _read(context, pb.WriteRequest)
    if request is None or not request.HasField("open"):
        raise ConnectorError("write.not_opened", "the first frame of a Write stream must be open")
    order: pb.WriteOpen = request.open
    return order


async def _put_all(
    task: Committer, stage: Stage, context: grpc.aio.ServicerContext[Any, Any]
) -> None:
    chunks = _frames.Chunks()
    while (request := await _read(context, pb.PutRequest)) is not None:
        if request.WhichOneof("kind") != "batch":
            continue  # rule R16: frames with no known kind are ignored
        data = chunks.add(request.batch)
        if data is not None:
            result = await task.put(stage, request.batch, data)
            await context.write(pb.PutResponse(batch_result=result))
    await task.end_put(stage)


async def _until_stopped(task: Committer, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    """Obey the host until it closes, hangs up, or a newer owner comes."""
    orders = asyncio.create_task(_obey(task, context))
    stopped = asyncio.create_task(task.stopped.wait())
    try:
        await asyncio.wait({orders, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if orders.done():
            orders.result()
    finally:
        orders.cancel()
        stopped.cancel()


async def _obey(task: Committer, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    while (request := await _read(context, pb.WriteRequest)) is not None:
        try:
            answer = await _answer(task, request)
        except ConnectorError:
            raise
        except Exception as error:
            raise as_connector_error(error, "write") from error
        if answer is not None:
            await context.write(answer)
            if answer.HasField("closed"):
                return
            if answer.HasField("txn_committed") and (metrics := task.metrics.now()):
                progress = types_pb.Progress(lag_records=-1, lag_bytes=-1, metrics=metrics)
                await context.write(pb.WriteResponse(progress=progress))


async def _answer(task: Committer, request: pb.WriteRequest) -> pb.WriteResponse | None:
    match request.WhichOneof("kind"):
        case "schema":
            return pb.WriteResponse(schema_applied=await task.apply_schema(request.schema))
        case "describe":
            return pb.WriteResponse(described=await task.describe(request.describe))
        case "prepare":
            return pb.WriteResponse(prepared=await task.prepare(request.prepare))
        case "commit":
            return pb.WriteResponse(txn_committed=await task.commit(request.commit.txn_id))
        case "close":
            await task.close()
            return pb.WriteResponse(closed=pb.WriteClosed())
    return None  # rule R16: frames with no known kind are ignored
