"""A task of a sink, from the side of host and executors: its Write stream and its Put calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.record.v1 import record_pb2
from penstock_kit.conformance.calls import TIMEOUT_S, RefusedError, Stream, open_stream
from penstock_kit.conformance.process import Plugin
from penstock_kit.conformance.results import RuleBrokenError, present, require
from penstock_kit.conformance.rows import Row, encode_rows
from penstock_kit.conformance.sandbox import Sandbox
from penstock_kit.conformance.source_task import MAX_MESSAGE_BYTES
from penstock_values.memory_files import MemoryFile

_REFUSAL_TIMEOUT_S: Final = 1.0
"""Time in which a sink refuses a put before its first row."""
_REPEATED_TIMEOUT_S: Final = 1.0
"""Time for a kind of frame that this process has not sent in time before: else each case that needs
it would wait for the whole timeout."""
_MESSAGE_OVERHEAD_BYTES: Final = 16 << 10
"""Part of a message that is not rows."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a task is opened."""

    task_id: str = "task-0"
    epoch: int = 1
    mode: int = plugin_pb.COMMIT_MODE_UNSPECIFIED
    last_prepared: pb.PreparedTxn | None = None
    recover: bool = False


@dataclass(frozen=True, slots=True)
class PutOptions:
    """Options of a put: transaction, slot and attempt, and how the rows are cut."""

    txn_id: int
    slot: int = 0
    attempt: int = 0
    epoch: int | None = None
    schema_id: int = 1
    first_seq: int = 1
    chunk_bytes: int = 0
    in_memory_files: bool = False
    unknown: bytes = b""


class SinkTask:
    """A Write stream, and the puts of its task. Create it by `open_sink`."""

    def __init__(
        self,
        plugin: Plugin,
        options: WriteOptions,
        frames: Stream[pb.WriteRequest, pb.WriteResponse],
    ) -> None:
        self.options = options
        self.opened = pb.WriteOpened()
        self._plugin = plugin
        self._frames = frames
        self._memory_files: list[MemoryFile] = []

    async def send(self, **frame: Any) -> None:
        """Send a frame, for instance `send(commit=WriteCommit(txn_id=1))`."""
        await self._frames.send(pb.WriteRequest(**frame))

    async def send_raw(self, data: bytes) -> None:
        """Send a frame that this version does not know."""
        await self._frames.send(pb.WriteRequest.FromString(data))

    async def until(self, kind: str, seconds: float = 0.0) -> pb.WriteResponse:
        """Return the next frame of a kind; heartbeats and the like may come before it.

        Raises:
            RuleBrokenError: the stream ended, or none came in time.
        """
        seconds = seconds or TIMEOUT_S
        unanswered = self._plugin.unanswered
        if kind in unanswered:
            seconds = min(seconds, _REPEATED_TIMEOUT_S)
        try:
            async with asyncio.timeout(seconds):  # of the whole wait: heartbeats may come for ever
                while (frame := await self._frames.receive(seconds)) is not None:
                    if frame.WhichOneof("kind") == kind:
                        return frame
        except TimeoutError:
            if kind not in unanswered and seconds >= TIMEOUT_S:
                unanswered[kind] = seconds
            waited = unanswered.get(kind, seconds)
            raise RuleBrokenError(f"no {kind} frame came within {waited:g} s") from None
        raise RuleBrokenError(f"the stream ended before a {kind} frame")

    async def wait_for_end(self, seconds: float) -> bool:
        """Wait for the end of the stream; return whether it came."""
        try:
            while await self._frames.receive(seconds) is not None:
                pass
        except TimeoutError:
            return False
        return True

    async def send_schema(
        self, schema: pa.Schema, dataset: str, keys: Sequence[str], schema_id: int = 1
    ) -> pb.SchemaApplied:
        """Send the schema of rows; return the answer."""
        message = record_pb2.Schema(
            schema_id=schema_id,
            dataset=dataset,
            arrow_schema=bytes(schema.serialize()),
            key_columns=keys,
        )
        await self.send(schema=message)
        return (await self.until("schema_applied")).schema_applied

    async def put(
        self, batches: Sequence[Sequence[Row]], schema: pa.Schema, options: PutOptions
    ) -> list[pb.BatchResult]:
        """Put batches into a slot, as an executor does; return the results, one for each batch.

        Raises:
            RefusedError: the sink refused the put.
        """
        try:
            return await self._put(batches, schema, options, 0.0)
        except RefusedError as error:
            if not error.lost_status:
                raise
        # The sink ended the stream during a write: give it time to do so before the next one.
        return await self._put(batches, schema, options, _REFUSAL_TIMEOUT_S)

    async def _put(
        self,
        batches: Sequence[Sequence[Row]],
        schema: pa.Schema,
        options: PutOptions,
        timeout_s: float,
    ) -> list[pb.BatchResult]:
        epoch = self.options.epoch if options.epoch is None else options.epoch
        header = pb.PutOpen(
            task_id=self.options.task_id,
            epoch=epoch,
            txn_id=options.txn_id,
            slot=options.slot,
            attempt=options.attempt,
        )
        results: list[pb.BatchResult] = []
        async with open_stream(self._plugin.sinks.Put, self._plugin.metadata) as frames:
            await frames.send(pb.PutRequest(open=header))
            if timeout_s:
                with suppress(TimeoutError):
                    await frames.receive(timeout_s)
            if options.unknown:
                await frames.send(pb.PutRequest.FromString(options.unknown))
            for seq, rows in enumerate(batches, start=options.first_seq):
                for batch in self._chunks(rows, schema, options, seq):
                    await frames.send(pb.PutRequest(batch=batch))
            await frames.done_writing()
            while (answer := await _next_result(frames)) is not None:
                results.append(answer.batch_result)
                if self._memory_files:  # from now on the sink has the rows itself
                    self._memory_files.pop(0).close()
        return results

    async def prepare(
        self, txn_id: int, slots: Sequence[tuple[int, int, int]], token: bytes = b""
    ) -> pb.Prepared:
        """End the rows of a transaction; `slots` are (slot, attempt, rows) of those that count."""
        put_slots = [pb.PutSlot(slot=s, attempt=a, rows=r) for s, a, r in slots]
        options = pb.WritePrepare(
            txn_id=txn_id,
            token=token or token_for(txn_id),
            slots=put_slots,
        )
        await self.send(prepare=options)
        return (await self.until("prepared")).prepared

    async def commit(self, txn_id: int) -> pb.TxnCommitted:
        """Make a prepared transaction visible."""
        await self.send(commit=pb.WriteCommit(txn_id=txn_id))
        return (await self.until("txn_committed")).txn_committed

    async def close(self, grace: float) -> None:
        """Ask for the end, and wait for it."""
        await self.send(close=pb.WriteClose())
        await self.until("closed", grace + 1)

    def _chunks(
        self, rows: Sequence[Row], schema: pa.Schema, options: PutOptions, seq: int
    ) -> list[record_pb2.Batch]:
        data = encode_rows(rows, schema, record_pb2.ENCODING_ARROW_IPC)
        if options.in_memory_files:
            file = present(MemoryFile.create(data), "this machine has no memory files")
            self._memory_files.append(file)
            return [
                record_pb2.Batch(
                    seq=seq,
                    schema_id=options.schema_id,
                    rows=len(rows),
                    encoding=record_pb2.ENCODING_ARROW_IPC,
                    memory_file=file.message,
                )
            ]
        limit = (
            min(self.opened.limits.max_message_bytes or MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES)
            - _MESSAGE_OVERHEAD_BYTES
        )
        size = options.chunk_bytes or max(limit, 1)
        parts = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
        return [
            record_pb2.Batch(
                seq=seq,
                schema_id=options.schema_id,
                rows=len(rows),
                encoding=record_pb2.ENCODING_ARROW_IPC,
                data=part,
                chunk=number,
                more_chunks=number + 1 < len(parts),
            )
            for number, part in enumerate(parts)
        ]


def token_for(txn_id: int) -> bytes:
    """Return the token of a transaction, which a sink gives back."""
    return f"token {txn_id}".encode()


@asynccontextmanager
async def open_sink(
    plugin: Plugin, sandbox: Sandbox, options: WriteOptions | None = None, **other: str
) -> AsyncIterator[SinkTask]:
    """Open a task. At the end the stream is cancelled, as by a lost host. `other` are keys with
    other values than the declared ones.
    """
    options = options or WriteOptions()
    async with open_stream(plugin.sinks.Write, plugin.metadata) as frames:
        sink = SinkTask(plugin, options, frames)
        await sink.send(
            open=pb.WriteOpen(
                target=sandbox.target(**other),
                task=connector_pb.TaskPlan(task_id=options.task_id),
                epoch=options.epoch,
                commit_mode=plugin_pb.CommitMode.Name(options.mode),
                last_prepared=options.last_prepared,
                recover=options.recover,
            )
        )
        try:
            first = present(await frames.receive(), "the stream ended before its first frame")
        except TimeoutError:
            raise RuleBrokenError(f"no WriteOpened came within {TIMEOUT_S:g} s") from None
        require(
            first.HasField("opened"),
            f"the first frame is not WriteOpened but {first.WhichOneof('kind')}",
        )
        sink.opened = first.opened
        yield sink


async def _next_result(frames: Stream[pb.PutRequest, pb.PutResponse]) -> pb.PutResponse | None:
    try:
        return await frames.receive()
    except TimeoutError:
        raise RuleBrokenError(f"a put was not answered within {TIMEOUT_S:g} s") from None
