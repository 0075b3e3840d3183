"""A task of a source, from the host's side: its Read stream, with a trace of frames and rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.record.v1 import record_pb2
from penstock_kit.conformance.calls import TIMEOUT_S, Stream, call, collect, open_stream
from penstock_kit.conformance.process import Plugin
from penstock_kit.conformance.results import RuleBrokenError, present, require
from penstock_kit.conformance.rows import Row, decode_rows
from penstock_kit.conformance.sandbox import Sandbox
from penstock_values.memory_files import (
    BrokenMemoryFileError,
    MemoryFileGoneError,
    has_memory_file,
    read_memory_file,
)

Offsets = Mapping[str, record_pb2.Offset]

ENCODINGS: Final = (record_pb2.ENCODING_ARROW_IPC, record_pb2.ENCODING_JSON_LINES)
CREDIT_BYTES: Final = 64 << 20
MAX_MESSAGE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a task is opened."""

    task_id: str = "task-0"
    epoch: int = 1
    offsets: Offsets = field(default_factory=dict)
    credit: int = CREDIT_BYTES
    timeout_s: float = TIMEOUT_S
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_batch_rows: int = 131_072
    target_batch_bytes: int = MAX_MESSAGE_BYTES
    memory_files: bool = False
    until_caught_up: bool = False
    override: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row with its partition and dataset."""

    partition: str
    dataset: str
    row: Row


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint: the offsets of all partitions so far, and the number of rows before it."""

    id: int
    offsets: Offsets
    rows: int


@dataclass(slots=True)
class Trace:
    """The frames and rows of a task, in order."""

    frames: list[pb.ReadResponse] = field(default_factory=list)
    rows: list[SourceRow] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    largest_frame: int = 0
    chunks: int = 0
    memory_files: list[record_pb2.MemoryFile] = field(default_factory=list)
    drained: bool = False

    def kinds(self) -> list[str]:
        """Return the kind of every frame, without progress."""
        kinds = [str(frame.WhichOneof("kind")) for frame in self.frames]
        return [kind for kind in kinds if kind != "progress"]

    def of_kind(self, kind: str) -> list[Any]:
        """Return the frames of a kind."""
        return [getattr(f, kind) for f in self.frames if f.WhichOneof("kind") == kind]


class SourceTask:
    """A Read stream with its `trace`. Create it by `open_source`."""

    def __init__(
        self, plugin: Plugin, options: ReadOptions, frames: Stream[pb.ReadRequest, pb.ReadResponse]
    ) -> None:
        self.trace = Trace()
        self.options = options
        self.opened = pb.ReadOpened()
        self._plugin = plugin
        self._frames = frames
        self._schemas: dict[int, record_pb2.Schema] = {}
        self._offsets: dict[str, record_pb2.Offset] = dict(options.offsets)

    async def send(self, **frame: Any) -> None:
        """Send a frame, for instance `send(release=ReadRelease(seq=1))`."""
        await self._frames.send(pb.ReadRequest(**frame))

    async def send_raw(self, data: bytes) -> None:
        """Send a frame that this version does not know."""
        await self._frames.send(pb.ReadRequest.FromString(data))

    async def next(self, seconds: float = TIMEOUT_S) -> pb.ReadResponse | None:
        """Return the next frame; None at the end.

        Raises:
            TimeoutError: none came in time.
        """
        frame = await self._frames.receive(seconds)
        if frame is not None:
            self.trace.frames.append(frame)
            self._record(frame)
        return frame

    async def until(self, kind: str, seconds: float = TIMEOUT_S) -> pb.ReadResponse:
        """Return the next frame of a kind. A checkpoint with `await_commit` and no row before it is
        committed: the source sends no rows until then.

        Raises:
            RuleBrokenError: the stream ended, or none came in time.
        """
        try:
            async with asyncio.timeout(seconds):
                while (frame := await self.next(seconds)) is not None:
                    if frame.WhichOneof("kind") == kind:
                        return frame
                    if frame.checkpoint.await_commit and not self._announced_rows():
                        await self.commit(frame.checkpoint.checkpoint_id)
        except TimeoutError:
            raise RuleBrokenError(f"no {kind} frame came within {seconds:g} s") from None
        raise RuleBrokenError(f"the stream ended before a {kind} frame")

    async def collect_ready(self, seconds: float) -> list[pb.BatchReady]:
        """Return the batches that are announced within some seconds."""
        batches = []
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        while (left := deadline - clock()) > 0:
            try:
                frame = await self.next(left)
            except TimeoutError:
                break
            if frame is None:
                break
            if frame.HasField("ready"):
                batches.append(frame.ready)
        return batches

    async def fetch(self, seq: int, *, epoch: int | None = None) -> list[record_pb2.Batch]:
        """Return the chunks of a batch, as an executor fetches them."""
        request = pb.FetchRequest(
            task_id=self.options.task_id,
            epoch=self.options.epoch if epoch is None else epoch,
            from_seq=seq,
            to_seq=seq,
            memory_files=self.options.memory_files,
        )
        answers = await collect(self._plugin.sources.Fetch, request, self._plugin.metadata)
        sizes = [answer.ByteSize() for answer in answers]
        self.trace.largest_frame = max(self.trace.largest_frame, *sizes, 0)
        self.trace.chunks = max(self.trace.chunks, len(answers))
        return [answer.batch for answer in answers]

    async def fetch_rows(self, ready: pb.BatchReady) -> list[SourceRow]:
        """Fetch a batch, and add its rows to the trace."""
        chunks = await self.fetch(ready.seq)
        require(chunks, f"Fetch of batch {ready.seq} has no answer")
        require(
            [chunk.chunk for chunk in chunks] == list(range(len(chunks)))
            and [chunk.more_chunks for chunk in chunks] == [True] * (len(chunks) - 1) + [False],
            f"the chunks of batch {ready.seq} are not 0, 1, 2 …, or the last is not marked",
        )
        schema = present(
            self._schemas.get(ready.schema_id),
            f"batch {ready.seq} has schema {ready.schema_id}, which was not sent",
        )
        data = b"".join(chunk.data for chunk in chunks)
        if chunks[0].HasField("memory_file"):
            data = self._read_memory_file(ready, chunks[0])
        rows = decode_rows(data, schema.arrow_schema, chunks[0].encoding or self.opened.encoding)
        require(
            len(rows) == ready.rows,
            f"batch {ready.seq} was announced with {ready.rows} rows and has {len(rows)}",
        )
        new = [SourceRow(ready.partition_id, schema.dataset, row) for row in rows]
        self.trace.rows += new
        return new

    def _read_memory_file(self, ready: pb.BatchReady, batch: record_pb2.Batch) -> bytes:
        require(self.options.memory_files, "a batch came in a memory file, which was not offered")
        require(
            batch.memory_file.bytes <= ready.bytes,
            f"batch {ready.seq} was announced with {ready.bytes} bytes and has "
            f"{batch.memory_file.bytes} in its memory file",
        )
        self.trace.memory_files.append(batch.memory_file)
        try:
            in_file = has_memory_file(batch)
            return read_memory_file(batch.memory_file).to_pybytes() if in_file else b""
        except (BrokenMemoryFileError, MemoryFileGoneError) as error:
            raise RuleBrokenError(f"the memory file of batch {ready.seq}: {error}") from None

    async def release(self, seq: int) -> None:
        """Release all batches up to one."""
        await self.send(release=pb.ReadRelease(seq=seq))

    async def commit(self, checkpoint_id: int) -> None:
        """Confirm that everything up to a checkpoint is durable."""
        await self.send(committed=pb.ReadCommitted(checkpoint_id=checkpoint_id))

    async def read(self, rows: int, seconds: float = 0.0) -> Trace:
        """Fetch rows until there are so many with a checkpoint after them, or up to Drained. A
        checkpoint with `await_commit` is committed.

        Raises:
            RuleBrokenError: nothing new came for `seconds`, or for the timeout of the options.
        """
        timeout_s = seconds or self.options.timeout_s
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        while not self._has_rows(rows):
            try:
                frame = await self.next(max(0.01, deadline - clock()))
            except TimeoutError:
                found = len(self.trace.rows)
                raise RuleBrokenError(f"{found} rows came, then none for {timeout_s:g} s") from None
            if frame is None:
                return self.trace
            if frame.HasField("ready"):
                await self.fetch_rows(frame.ready)
                await self.release(frame.ready.seq)
            elif frame.HasField("checkpoint") and frame.checkpoint.await_commit:
                await self.commit(frame.checkpoint.checkpoint_id)
            if not frame.HasField("progress"):
                deadline = clock() + timeout_s
        return self.trace

    def _has_rows(self, rows: int) -> bool:
        if self.trace.drained:
            return True
        before_checkpoint = self.trace.checkpoints[-1].rows if self.trace.checkpoints else 0
        return before_checkpoint >= rows

    def _record(self, frame: pb.ReadResponse) -> None:
        match frame.WhichOneof("kind"):
            case "schema":
                self._schemas[frame.schema.schema_id] = frame.schema
            case "checkpoint":
                self._offsets |= dict(frame.checkpoint.offsets)
                checkpoint = Checkpoint(
                    frame.checkpoint.checkpoint_id, dict(self._offsets), self._announced_rows()
                )
                self.trace.checkpoints.append(checkpoint)
            case "drained":
                self.trace.drained = True

    def _announced_rows(self) -> int:
        return sum(ready.rows for ready in self.trace.of_kind("ready"))


async def plan_task(
    plugin: Plugin, sandbox: Sandbox, options: ReadOptions
) -> connector_pb.TaskPlan:
    """Return the plan of one task, with the offsets of its partitions."""
    known = [
        record_pb2.Partition(partition_id=id_, offset=offset)
        for id_, offset in options.offsets.items()
    ]
    request = connector_pb.PlanRequest(
        target=sandbox.target(**options.override), max_tasks=1, known_partitions=known
    )
    planned = await call(plugin.connectors.Plan, request, plugin.metadata)
    task = connector_pb.TaskPlan(task_id=options.task_id)
    if planned.tasks:
        task.MergeFrom(planned.tasks[0])
        task.task_id = options.task_id
    else:
        task.partitions.extend(planned.partitions)
    for partition in task.partitions:
        if partition.partition_id in options.offsets:
            partition.offset.CopyFrom(options.offsets[partition.partition_id])
    if any(partition.finds_others or partition.HasField("range") for partition in task.partitions):
        ids = {partition.partition_id for partition in task.partitions}
        task.partitions.extend(one for one in known if one.partition_id not in ids)
    return task


@asynccontextmanager
async def open_source(
    plugin: Plugin, sandbox: Sandbox, options: ReadOptions | None = None
) -> AsyncIterator[SourceTask]:
    """Open a task with all planned partitions. At the end the stream is cancelled, as by a lost
    host.
    """
    options = options or ReadOptions()
    task = await plan_task(plugin, sandbox, options)
    async with open_stream(plugin.sources.Read, plugin.metadata) as frames:
        source = SourceTask(plugin, options, frames)
        limits = types_pb2.Limits(
            max_message_bytes=options.max_message_bytes,
            target_batch_bytes=options.target_batch_bytes,
            max_batch_rows=options.max_batch_rows,
        )
        await source.send(
            open=pb.ReadOpen(
                target=sandbox.target(**options.override),
                task=task,
                epoch=options.epoch,
                encodings=ENCODINGS,
                limits=limits,
                credit=types_pb2.Credit(bytes=options.credit, batches=65_536),
                memory_files=options.memory_files,
                until_caught_up=options.until_caught_up,
            )
        )
        try:
            first = present(await source.next(), "the stream ended before its first frame")
        except TimeoutError:
            raise RuleBrokenError(f"no ReadOpened came within {TIMEOUT_S:g} s") from None
        require(
            first.HasField("opened"),
            f"the first frame is not ReadOpened but {first.WhichOneof('kind')}",
        )
        source.opened = first.opened
        yield source
