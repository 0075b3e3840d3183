"""SourceService: Read is the control stream of a task, Fetch gives its rows to whoever may have
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import grpc.aio

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock_connector._calls import fail, refuse_unimplemented
from penstock_connector._connectors import Connectors, configure
from penstock_connector._encoder import HEARTBEAT, Encoder
from penstock_connector._errors import ConnectorError, FencedError, as_connector_error
from penstock_connector._fencing import Owners
from penstock_connector._outbox import Outbox
from penstock_connector._parsing import parse_rows
from penstock_connector._pump import Pump
from penstock_connector._source import Source
from penstock_connector._values import partition_from_proto

SERVICE: Final = "penstock.api.connector.v1.SourceService"

_OPEN_WITHIN: Final = 30.0
"""Seconds for the first frame. Only stops a caller that opens a stream and says nothing."""

_HAND_OVER_WITHIN: Final = 10.0
"""Seconds that an older stream of a task has to let go of its source. Longer delays a move;
shorter lets two objects of one task hold the same file or slot."""

_log = logging.getLogger(__name__)


class Reading:
    """Serves the sources of a plugin."""

    def __init__(self, connectors: Connectors) -> None:
        self._connectors = connectors
        self._tasks: Owners[Pump] = Owners()
        self._forgetting: set[asyncio.Task[None]] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a server needs to serve this. Fetch passes ready-made bytes."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Read": grpc.stream_stream_rpc_method_handler(
                    self.read, pb.ReadRequest.FromString, pb.ReadResponse.SerializeToString
                ),
                "Fetch": grpc.unary_stream_rpc_method_handler(
                    self.fetch, pb.FetchRequest.FromString, None
                ),
                "ParseRows": grpc.unary_unary_rpc_method_handler(
                    self.parse_rows,
                    pb.ParseRowsRequest.FromString,
                    pb.ParseRowsResponse.SerializeToString,
                ),
            },
        )

    async def drain(self, grace: float) -> None:
        """Drain every task, and wait until they are closed or the grace is over."""
        pumps = self._tasks.all()
        for pump in pumps:
            pump.drain(grace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await asyncio.gather(*(pump.ended.wait() for pump in pumps))
        for pump in pumps:
            pump.stop()

    async def fetch(
        self, request: pb.FetchRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[bytes]:
        """Stream announced batches; the same ones again and again until they are released."""
        try:
            pump = self._tasks.find(request.task_id, request.epoch)
            for seq in request.seqs or range(request.from_seq, request.to_seq + 1):
                for frame in pump.frames(seq, memory_files=request.memory_files):
                    yield frame
        except ConnectorError as error:
            await fail(context, error)

    async def parse_rows(
        self, request: pb.ParseRowsRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.ParseRowsResponse:
        """Read single rows again from their bytes."""
        try:
            kind = self._connectors.find(request.target.connector, Source)
            parsed = (
                await asyncio.to_thread(parse_rows, kind, request) if kind.parses_rows() else None
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the host is told
            await fail(context, as_connector_error(error, "parse_rows"))
        if parsed is None:
            await refuse_unimplemented(context, f"{kind.name} cannot read single rows again")
        return parsed

    async def read(self, _: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Run a task from Open to the end of the stream."""
        outbox: Outbox[pb.ReadResponse] = Outbox(asyncio.get_running_loop())
        try:
            pump = await self._open(context, outbox)
        except Exception as error:  # noqa: BLE001 - whatever it is, the host is told
            await fail(context, as_connector_error(error, "open"))
        orders = asyncio.create_task(_obey(pump, context))
        try:
            await _write(pump, outbox, context)
        finally:
            orders.cancel()
            pump.stop()
        if isinstance(outbox.error, ConnectorError):
            await fail(context, outbox.error)

    async def _open(
        self, context: grpc.aio.ServicerContext[Any, Any], outbox: Outbox[pb.ReadResponse]
    ) -> Pump:
        order = await _first(context)
        kind = self._connectors.find(order.target.connector, Source)
        task_id, epoch = order.task.task_id, order.epoch
        await self._end_older(task_id, epoch)
        config = configure(kind, order.target, order.task.config)
        partitions = [partition_from_proto(p) for p in order.task.partitions]
        pump = Pump(
            kind(),
            Encoder(partitions, order.limits, memory_files=order.memory_files),
            outbox,
            task_id=task_id,
            epoch=epoch,
            until_caught_up=order.until_caught_up,
        )
        self._tasks.start(task_id, pump)
        pump.grant(order.credit)
        pump.start(config, partitions)
        forget = asyncio.create_task(self._forget(pump))
        self._forgetting.add(forget)
        forget.add_done_callback(self._forgetting.discard)
        return pump

    async def _end_older(self, task_id: str, epoch: int) -> None:
        """Rule R18: a newer Open ends the older stream, and comes after its end."""
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

    async def _forget(self, pump: Pump) -> None:
        await pump.ended.wait()
        self._tasks.end(pump.task_id, pump)


async def _first(context: grpc.aio.ServicerContext[Any, Any]) -> pb.ReadOpen:
    try:
        async with asyncio.timeout(_OPEN_WITHIN):
            request = await context.read()
    except TimeoutError:
        request = None
    if not isinstance(request, pb.ReadRequest) or not request.HasField("open"):
        raise ConnectorError("read.not_opened", "the first frame of a Read stream must be open")
    return request.open


async def _obey(pump: Pump, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    """Hand the host's frames to the pump. The host hanging up ends the task."""
    try:
        while isinstance(request := await context.read(), pb.ReadRequest):
            _apply(pump, request)
    except Exception as error:  # noqa: BLE001 - a broken order must not leave a deaf task behind
        pump.fail(as_connector_error(error, "read"))
        return
    pump.stop()


def _apply(pump: Pump, request: pb.ReadRequest) -> None:
    match request.WhichOneof("kind"):
        case "release":
            pump.release(request.release.seq)
        case "committed":
            pump.committed(request.committed.checkpoint_id)
        case _:
            return  # rule R16: frames with no known kind are ignored


async def _write(
    pump: Pump, outbox: Outbox[pb.ReadResponse], context: grpc.aio.ServicerContext[Any, Any]
) -> None:
    """Write what the pump says; beside it a heartbeat, unless the source hangs (rule R19)."""
    beat = HEARTBEAT / 2  # rule R19: twice as often as promised; a host misses two promises
    due = time.monotonic() + beat
    drained = False  # nothing follows it, not even a heartbeat
    while True:
        try:
            async with asyncio.timeout(None if drained else max(due - time.monotonic(), 0)):
                frames = await outbox.get()
        except TimeoutError:
            due = time.monotonic() + beat
            if not pump.hangs(beat):
                await context.write(pb.ReadResponse(progress=pump.report()))
            continue
        if frames is None:
            return
        for frame in frames:
            await context.write(frame)
            drained = drained or frame.HasField("drained")
