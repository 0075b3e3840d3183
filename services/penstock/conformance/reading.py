"""A source seen from the host: its control stream, its rows, and what it said and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.record.v1 import record_pb2
from penstock.conformance.calls import DEADLINE, Stream, call, collect, stream
from penstock.conformance.process import Plugin
from penstock.conformance.rows import Row, decode
from penstock.conformance.verdict import RuleBrokenError, require
from penstock.conformance.world import World

Offsets = Mapping[str, record_pb2.Offset]

ENCODINGS: Final = (record_pb2.ENCODING_ARROW_IPC, record_pb2.ENCODING_JSON_LINES)
CREDIT: Final = 64 << 20
MESSAGE: Final = 4 << 20
GRACE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """How a task is opened, where it is not as usual."""

    task_id: str = "task-0"
    epoch: int = 1
    offsets: Offsets = field(default_factory=dict)
    credit: int = CREDIT
    patience: float = DEADLINE
    max_message_bytes: int = MESSAGE
    max_batch_rows: int = 131_072
    target_batch_bytes: int = MESSAGE
    override: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Taken:
    """A row, and where it came from."""

    partition: str
    dataset: str
    row: Row


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint: the offsets of all partitions so far, and how many rows stand before it."""

    id: int
    offsets: Offsets
    rows: int


@dataclass(slots=True)
class Trace:
    """What a task said, in its order."""

    frames: list[pb.ReadResponse] = field(default_factory=list)
    rows: list[Taken] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    largest_frame: int = 0
    chunks: int = 0
    drained: bool = False

    def kinds(self) -> list[str]:
        """Return the kind of every frame, without progress."""
        kinds = [str(frame.WhichOneof("kind")) for frame in self.frames]
        return [kind for kind in kinds if kind != "progress"]

    def of_kind(self, kind: str) -> list[Any]:
        """Return the frames of a kind."""
        return [getattr(f, kind) for f in self.frames if f.WhichOneof("kind") == kind]


class Reading:
    """One Read stream. Made by `reading`; whatever it takes is in its `trace`."""

    def __init__(
        self, plugin: Plugin, order: Order, frames: Stream[pb.ReadRequest, pb.ReadResponse]
    ) -> None:
        self.trace = Trace()
        self.order = order
        self.opened = pb.ReadOpened()
        self.partitions: list[str] = []
        self._plugin = plugin
        self._frames = frames
        self._schemas: dict[int, record_pb2.Schema] = {}
        self._offsets: dict[str, record_pb2.Offset] = dict(order.offsets)

    async def send(self, **frame: Any) -> None:
        """Send a frame, for instance `send(release=ReadRelease(seq=1))`."""
        await self._frames.send(pb.ReadRequest(**frame))

    async def send_raw(self, data: bytes) -> None:
        """Send a frame that this version does not know."""
        await self._frames.send(pb.ReadRequest.FromString(data))

    async def next(self, seconds: float = DEADLINE) -> pb.ReadResponse | None:
        """Return the next frame, None at the end; TimeoutError when none comes."""
        frame = await self._frames.receive(seconds)
        if frame is not None:
            self.trace.frames.append(frame)
            self._note(frame)
        return frame

    async def until(self, kind: str, seconds: float = DEADLINE) -> pb.ReadResponse:
        """Return the next frame of a kind. A checkpoint that the source waits for is committed
        where no row stands before it: it gives none until then.

        Raises:
            RuleBrokenError: the stream ended, or none came in time.
        """
        try:
            async with asyncio.timeout(seconds):
                while (frame := await self.next(seconds)) is not None:
                    if frame.WhichOneof("kind") == kind:
                        return frame
                    if frame.checkpoint.await_commit and not self._announced():
                        await self.commit(frame.checkpoint.checkpoint_id)
        except TimeoutError:
            raise RuleBrokenError(f"no {kind} frame came within {seconds:g} s") from None
        raise RuleBrokenError(f"the stream ended before a {kind} frame")

    async def quiet(self, seconds: float) -> list[pb.BatchReady]:
        """Return the batches that are announced within a time."""
        found = []
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while (left := until - clock()) > 0:
            try:
                frame = await self.next(left)
            except TimeoutError:
                break
            if frame is None:
                break
            if frame.HasField("ready"):
                found.append(frame.ready)
        return found

    async def fetch(self, seq: int, *, epoch: int | None = None) -> list[record_pb2.Batch]:
        """Return the chunks of a batch, as an executor fetches them."""
        request = pb.FetchRequest(
            task_id=self.order.task_id,
            epoch=self.order.epoch if epoch is None else epoch,
            from_seq=seq,
            to_seq=seq,
        )
        answers = await collect(self._plugin.sources.Fetch, request, self._plugin.metadata)
        sizes = [answer.ByteSize() for answer in answers]
        self.trace.largest_frame = max(self.trace.largest_frame, *sizes, 0)
        self.trace.chunks = max(self.trace.chunks, len(answers))
        return [answer.batch for answer in answers]

    async def take(self, ready: pb.BatchReady) -> list[Taken]:
        """Fetch a batch and keep its rows."""
        chunks = await self.fetch(ready.seq)
        require(chunks, f"Fetch of batch {ready.seq} answered nothing")
        require(
            [chunk.chunk for chunk in chunks] == list(range(len(chunks)))
            and [chunk.more_chunks for chunk in chunks] == [True] * (len(chunks) - 1) + [False],
            f"the chunks of batch {ready.seq} are not 0, 1, 2 …, or the last is not marked",
        )
        schema = self._schemas.get(ready.schema_id)
        require(schema is not None, f"batch {ready.seq} has schema {ready.schema_id}, not sent")
        assert schema is not None  # noqa: S101 - as required
        data = b"".join(chunk.data for chunk in chunks)
        rows = decode(data, schema.arrow_schema, chunks[0].encoding or self.opened.encoding)
        require(
            len(rows) == ready.rows,
            f"batch {ready.seq} was announced with {ready.rows} rows and has {len(rows)}",
        )
        taken = [Taken(ready.partition_id, schema.dataset, row) for row in rows]
        self.trace.rows += taken
        return taken

    async def release(self, seq: int) -> None:
        """Let go of all batches up to one."""
        await self.send(release=pb.ReadRelease(seq=seq))

    async def commit(self, checkpoint_id: int) -> None:
        """Say that everything up to a checkpoint is durable."""
        await self.send(committed=pb.ReadCommitted(checkpoint_id=checkpoint_id))

    async def drain(self, grace: float = GRACE) -> None:
        """Ask for the end, and take all that comes before it."""
        wanted = Duration()
        wanted.FromMilliseconds(int(grace * 1000))
        await self.send(drain=pb.ReadDrain(grace=wanted))
        await self.finish(grace + 2)

    async def finish(self, seconds: float = DEADLINE) -> None:
        """Take everything up to Drained."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while not self.trace.drained:
            try:
                frame = await self.next(max(0.01, until - clock()))
            except TimeoutError:
                raise RuleBrokenError(f"no Drained frame came within {seconds:g} s") from None
            require(frame is not None, "the stream ended without a Drained frame")
            assert frame is not None  # noqa: S101 - as required
            if frame.HasField("ready"):
                await self.take(frame.ready)

    async def read(self, rows: int, seconds: float = 0.0) -> Trace:
        """Take rows until there are so many and a checkpoint stands behind them, or all of a
        source that ends. A checkpoint that the source waits for is committed.

        Raises:
            RuleBrokenError: it told nothing new for the run's patience, or for `seconds`.
        """
        patience = seconds or self.order.patience
        clock = asyncio.get_running_loop().time
        until = clock() + patience
        while not self._enough(rows):
            try:
                frame = await self.next(max(0.01, until - clock()))
            except TimeoutError:
                found = len(self.trace.rows)
                raise RuleBrokenError(f"{found} rows came, then none for {patience:g} s") from None
            if frame is None:
                return self.trace
            if frame.HasField("ready"):
                await self.take(frame.ready)
                await self.release(frame.ready.seq)
            elif frame.HasField("checkpoint") and frame.checkpoint.await_commit:
                await self.commit(frame.checkpoint.checkpoint_id)
            if not frame.HasField("progress"):
                until = clock() + patience
        return self.trace

    def _enough(self, rows: int) -> bool:
        if self.trace.drained:
            return True
        covered = self.trace.places[-1].rows if self.trace.places else 0
        return covered >= rows

    def _note(self, frame: pb.ReadResponse) -> None:
        match frame.WhichOneof("kind"):
            case "schema":
                self._schemas[frame.schema.schema_id] = frame.schema
            case "checkpoint":
                self._offsets |= dict(frame.checkpoint.offsets)
                place = Place(
                    frame.checkpoint.checkpoint_id, dict(self._offsets), self._announced()
                )
                self.trace.places.append(place)
            case "drained":
                self.trace.drained = True

    def _announced(self) -> int:
        return sum(ready.rows for ready in self.trace.of_kind("ready"))


async def plan(plugin: Plugin, world: World, order: Order) -> connector_pb.TaskPlan:
    """Ask for the plan of one task, and give its partitions their offsets."""
    known = [
        record_pb2.Partition(partition_id=id_, offset=offset)
        for id_, offset in order.offsets.items()
    ]
    request = connector_pb.PlanRequest(
        target=world.target(**order.override), max_tasks=1, known_partitions=known
    )
    planned = await call(plugin.connectors.Plan, request, plugin.metadata)
    task = connector_pb.TaskPlan(task_id=order.task_id)
    if planned.tasks:
        task.MergeFrom(planned.tasks[0])
        task.task_id = order.task_id
    else:
        task.partitions.extend(planned.partitions)
    for partition in task.partitions:
        if partition.partition_id in order.offsets:
            partition.offset.CopyFrom(order.offsets[partition.partition_id])
    if any(partition.finds_others for partition in task.partitions):
        ids = {partition.partition_id for partition in task.partitions}
        task.partitions.extend(one for one in known if one.partition_id not in ids)
    return task


@asynccontextmanager
async def reading(
    plugin: Plugin, world: World, order: Order | None = None
) -> AsyncIterator[Reading]:
    """Open a task with all partitions that the source plans; the host is lost at the end."""
    order = order or Order()
    task = await plan(plugin, world, order)
    async with stream(plugin.sources.Read, plugin.metadata) as frames:
        made = Reading(plugin, order, frames)
        made.partitions = [partition.partition_id for partition in task.partitions]
        limits = types_pb2.Limits(
            max_message_bytes=order.max_message_bytes,
            target_batch_bytes=order.target_batch_bytes,
            max_batch_rows=order.max_batch_rows,
        )
        await made.send(
            open=pb.ReadOpen(
                target=world.target(**order.override),
                task=task,
                epoch=order.epoch,
                encodings=ENCODINGS,
                limits=limits,
                credit=types_pb2.Credit(bytes=order.credit, batches=65_536),
            )
        )
        try:
            first = await made.next()
        except TimeoutError:
            raise RuleBrokenError(f"no ReadOpened came within {DEADLINE:g} s") from None
        require(first is not None, "the stream ended at once")
        assert first is not None  # noqa: S101 - as required
        require(first.HasField("opened"), f"the first frame is {first.WhichOneof('kind')}")
        made.opened = first.opened
        yield made
