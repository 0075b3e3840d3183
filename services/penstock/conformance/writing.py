"""A sink seen from the host and its executors: the control stream of a task, and puts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.record.v1 import record_pb2
from penstock.conformance.calls import DEADLINE, RefusedError, Stream, stream
from penstock.conformance.process import Plugin
from penstock.conformance.reading import ENCODINGS, MESSAGE
from penstock.conformance.rows import Row, encode
from penstock.conformance.verdict import RuleBrokenError, require
from penstock.conformance.world import World

_ENDS_WITHIN: Final = 1.0
"""Seconds for a put to be refused before its first row."""
_AGAIN_WITHIN: Final = 1.0
"""Seconds for an answer of a kind that a process once did not give in its time: else each case that
needs it would wait for all of it."""
_HEADROOM: Final = 16 << 10
"""Bytes of a message kept free for what is not rows."""


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """How a task is opened, where it is not as usual."""

    task_id: str = "task-0"
    epoch: int = 1
    mode: int = plugin_pb.COMMIT_MODE_UNSPECIFIED
    last_prepared: pb.PreparedTxn | None = None
    recover: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """A ticket: which attempt at which slot of which transaction, and how its rows are cut."""

    txn_id: int
    slot: int = 0
    attempt: int = 0
    epoch: int | None = None
    schema_id: int = 1
    first_seq: int = 1
    chunk_bytes: int = 0
    unknown: bytes = b""


class Writing:
    """One Write stream. Made by `writing`."""

    def __init__(
        self, plugin: Plugin, order: WriteOrder, frames: Stream[pb.WriteRequest, pb.WriteResponse]
    ) -> None:
        self.order = order
        self.opened = pb.WriteOpened()
        self._plugin = plugin
        self._frames = frames

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
        seconds = seconds or DEADLINE
        unanswered = self._plugin.unanswered
        if kind in unanswered:
            seconds = min(seconds, _AGAIN_WITHIN)
        try:
            async with asyncio.timeout(seconds):  # all of it: heartbeats may come for ever
                while (frame := await self._frames.receive(seconds)) is not None:
                    if frame.WhichOneof("kind") == kind:
                        return frame
        except TimeoutError:
            if kind not in unanswered and seconds >= DEADLINE:
                unanswered[kind] = seconds
            waited = unanswered.get(kind, seconds)
            raise RuleBrokenError(f"no {kind} frame came within {waited:g} s") from None
        raise RuleBrokenError(f"the stream ended before a {kind} frame")

    async def ended(self, seconds: float) -> bool:
        """Wait for the end of the stream; tell whether it came."""
        try:
            while await self._frames.receive(seconds) is not None:
                pass
        except TimeoutError:
            return False
        return True

    async def schema(
        self, schema: pa.Schema, dataset: str, keys: Sequence[str], schema_id: int = 1
    ) -> pb.SchemaApplied:
        """Say of which schema rows are; return the answer."""
        message = record_pb2.Schema(
            schema_id=schema_id,
            dataset=dataset,
            arrow_schema=bytes(schema.serialize()),
            key_columns=keys,
        )
        await self.send(schema=message)
        return (await self.until("schema_applied")).schema_applied

    async def put(
        self, batches: Sequence[Sequence[Row]], schema: pa.Schema, ticket: Put
    ) -> list[pb.BatchResult]:
        """Put batches into a slot, as an executor does; return the answers, which are one a batch.

        Raises:
            RefusedError: the sink refused the put.
        """
        try:
            return await self._put(batches, schema, ticket, 0.0)
        except RefusedError as error:
            if not error.unknown:
                raise
        # The sink ended the stream while it was written to: let it, before anything is written.
        return await self._put(batches, schema, ticket, _ENDS_WITHIN)

    async def _put(
        self, batches: Sequence[Sequence[Row]], schema: pa.Schema, ticket: Put, patience: float
    ) -> list[pb.BatchResult]:
        epoch = self.order.epoch if ticket.epoch is None else ticket.epoch
        opening = pb.PutOpen(
            task_id=self.order.task_id,
            epoch=epoch,
            txn_id=ticket.txn_id,
            slot=ticket.slot,
            attempt=ticket.attempt,
        )
        results: list[pb.BatchResult] = []
        async with stream(self._plugin.sinks.Put, self._plugin.metadata) as frames:
            await frames.send(pb.PutRequest(open=opening))
            if patience:
                with suppress(TimeoutError):
                    await frames.receive(patience)
            if ticket.unknown:
                await frames.send(pb.PutRequest.FromString(ticket.unknown))
            for seq, rows in enumerate(batches, start=ticket.first_seq):
                for batch in self._chunks(rows, schema, ticket, seq):
                    await frames.send(pb.PutRequest(batch=batch))
            await frames.done()
            while (answer := await _next(frames)) is not None:
                results.append(answer.batch_result)
        return results

    async def prepare(
        self, txn_id: int, slots: Sequence[tuple[int, int, int]], token: bytes = b""
    ) -> pb.Prepared:
        """End the rows of a transaction; `slots` are (slot, attempt, rows) of what counts."""
        named = [pb.PutSlot(slot=s, attempt=a, rows=r) for s, a, r in slots]
        order = pb.WritePrepare(
            txn_id=txn_id,
            token=token or token_of(txn_id),
            slots=named,
            rows=sum(one.rows for one in named),
        )
        await self.send(prepare=order)
        return (await self.until("prepared")).prepared

    async def commit(self, txn_id: int) -> pb.TxnCommitted:
        """Make a prepared transaction visible."""
        await self.send(commit=pb.WriteCommit(txn_id=txn_id))
        return (await self.until("txn_committed")).txn_committed

    async def close(self, grace: float) -> None:
        """Ask for the end, and wait for it."""
        wanted = Duration()
        wanted.FromMilliseconds(int(grace * 1000))
        await self.send(close=pb.WriteClose(grace=wanted))
        await self.until("closed", grace + 1)

    def _chunks(
        self, rows: Sequence[Row], schema: pa.Schema, ticket: Put, seq: int
    ) -> list[record_pb2.Batch]:
        encoding = self.opened.encoding or record_pb2.ENCODING_ARROW_IPC
        data = encode(rows, schema, encoding)
        most = min(self.opened.limits.max_message_bytes or MESSAGE, MESSAGE) - _HEADROOM
        size = ticket.chunk_bytes or max(most, 1)
        parts = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
        return [
            record_pb2.Batch(
                seq=seq,
                schema_id=ticket.schema_id,
                rows=len(rows),
                encoding=encoding,
                data=part,
                chunk=number,
                more_chunks=number + 1 < len(parts),
                txn_id=ticket.txn_id,
            )
            for number, part in enumerate(parts)
        ]


def token_of(txn_id: int) -> bytes:
    """Return the token of a transaction: what a host wants back."""
    return f"token {txn_id}".encode()


@asynccontextmanager
async def writing(
    plugin: Plugin, world: World, order: WriteOrder | None = None, **other: str
) -> AsyncIterator[Writing]:
    """Open a task; the host is lost at the end. `other`: keys with other values."""
    order = order or WriteOrder()
    async with stream(plugin.sinks.Write, plugin.metadata) as frames:
        made = Writing(plugin, order, frames)
        await made.send(
            open=pb.WriteOpen(
                target=world.target(**other),
                task=connector_pb.TaskPlan(task_id=order.task_id),
                epoch=order.epoch,
                commit_mode=plugin_pb.CommitMode.Name(order.mode),
                encodings=ENCODINGS,
                limits=types_pb2.Limits(max_message_bytes=MESSAGE),
                last_prepared=order.last_prepared,
                recover=order.recover,
            )
        )
        try:
            first = await frames.receive()
        except TimeoutError:
            raise RuleBrokenError(f"no WriteOpened came within {DEADLINE:g} s") from None
        require(first is not None, "the stream ended at once")
        assert first is not None  # noqa: S101 - as required
        require(first.HasField("opened"), f"the first frame is {first.WhichOneof('kind')}")
        made.opened = first.opened
        yield made


async def _next(frames: Stream[pb.PutRequest, pb.PutResponse]) -> pb.PutResponse | None:
    try:
        return await frames.receive()
    except TimeoutError:
        raise RuleBrokenError(f"a put was not answered within {DEADLINE:g} s") from None
