"""What the tests of topics share: a producer and a consumer as the worker drives them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from penstock.model.connector import CommitMode, Partition
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    PreparedTxn,
    PutSlot,
    ReadEvent,
    SchemaVersion,
    StreamSchema,
)
from penstock.model.topic import NewTopic
from penstock.topic.embedded.delta_log import version_name
from penstock.topic.embedded.table_state import TopicState
from penstock.topic.embedded.topic_reader import TopicReader
from penstock.topic.embedded.topic_table import TopicTable
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files.file_reader import read_files
from penstock.topic_files.file_writer import write_files
from penstock.topic_files.folder import Folder
from penstock.topic_files.local_folder import LocalFolder

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
LIMIT = 120.0


def rows(first: int, count: int) -> pa.RecordBatch:
    ids = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {"id": list(ids), "name": [f"n{i}" for i in ids]}, schema=SCHEMA
    )


def run(coroutine: Any) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(LIMIT):
            return await coroutine

    return asyncio.run(limited())


class Producer:
    """A task that appends to one topic."""

    def __init__(
        self,
        topics: EmbeddedTopics,
        topic: str = "t",
        task: str = "g-0",
        partitions: int = 1,
        **more: Any,
    ) -> None:
        self.stream = topics.writer(task, lambda _: NewTopic(partitions), **more)
        self.topic = topic

    async def open(self, epoch: int = 1, last: PreparedTxn | None = None) -> "Producer":
        await self.stream.open(epoch, CommitMode.UNSPECIFIED, last, last is not None)
        await self.schema(SCHEMA)
        return self

    async def schema(
        self, schema: pa.Schema, id_: int = 1, keys: tuple[str, ...] = ("id",)
    ) -> None:
        await self.stream.apply_schema(StreamSchema(id_, self.topic, schema, keys))

    async def prepare(self, txn: int, *slots: pa.RecordBatch, schema_id: int = 1) -> PreparedTxn:
        puts = []
        for slot, batch in enumerate(slots):
            detail = write_files([batch], self.stream.ticket(txn, slot, schema_id), attempt=txn)
            puts.append(PutSlot(slot, txn, batch.num_rows, detail))
        return await self.stream.prepare(txn, puts, b"{}")

    async def append(self, txn: int, *slots: pa.RecordBatch, schema_id: int = 1) -> None:
        await self.prepare(txn, *slots, schema_id=schema_id)
        await self.stream.commit(txn)


class Consumer:
    """A task that reads partitions of topics; keeps the rows, the events and the offsets."""

    def __init__(self, topics: EmbeddedTopics, *partitions: Partition, **how: Any) -> None:
        self.stream: TopicReader = topics.reader(
            partitions or [place()], how.get("reset", "earliest"), how.get("credit", 64 << 20)
        )
        self.rows: list[dict[str, Any]] = []
        self.events: list[ReadEvent] = []
        self.offsets: dict[str, int] = {}
        self._schema_id = 0

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows]

    async def until(self, enough: Callable[["Consumer"], bool]) -> "Consumer":
        """Read and release until there is enough, at a checkpoint."""
        await self.stream.open()
        try:
            async for event in self.stream:
                self.events.append(event)
                if isinstance(event, SchemaVersion):
                    self._schema_id = event.schema.schema_id
                if isinstance(event, BatchReady):
                    self._fetch(event)
                if isinstance(event, Checkpoint):
                    self.offsets |= {id_: o["offset"] for id_, o in event.offsets.items()}
                    await self.stream.release(event.last_seq)
                if not isinstance(event, BatchReady) and enough(self):
                    break
        finally:
            await self.stream.close()
        return self

    def _fetch(self, event: BatchReady) -> None:
        ticket = self.stream.ticket([event.seq], event.schema_id)
        got = [row for batch in read_files(ticket) for row in batch.to_pylist()]
        assert len(got) == event.rows
        self.rows += got

    def all(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def place(partition: int = 0, offset: int | None = None, topic: str = "t") -> Partition:
    key = {"topic": topic, "partition": partition}
    return Partition(key, None if offset is None else {"offset": offset})


class Listening:
    """Collects what a reader announces, and releases nothing."""

    def __init__(self, stream: TopicReader) -> None:
        self.stream = stream
        self.batches: list[BatchReady] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.stream.open()
        self._task = asyncio.ensure_future(self._collect())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.stream.close()

    async def _collect(self) -> None:
        async for event in self.stream:
            if isinstance(event, BatchReady):
                self.batches.append(event)
            self._changed.set()

    async def at_rest(self, count: int) -> list[BatchReady]:
        """Return the batches once there are `count`, and no more came for a while."""
        while len(self.batches) < count:
            await self._changed.wait()
            self._changed.clear()
        await asyncio.sleep(0.05)
        return self.batches


async def consume(
    topics: EmbeddedTopics,
    count: int,
    offset: int | None = None,
    partition: int = 0,
    **how: Any,
) -> Consumer:
    """Read `count` rows of a partition of topic `t`."""
    consumer = Consumer(topics, place(partition, offset), **how)
    return await consumer.until(lambda c: len(c.rows) >= count)


def table_at(folder: Path | Folder, topic: str = "t") -> TopicTable:
    """Return the table of a topic, which need not exist."""
    topics = LocalFolder(folder) if isinstance(folder, Path) else folder
    return TopicTable(topic, topics.subfolder(topic))


def version_path(folder: Path, version: int, topic: str = "t") -> Path:
    """Return the file of a version of a topic."""
    return folder / topic / "_delta_log" / version_name(version)


def table_of(folder: Path | Folder, topic: str = "t") -> TopicTable:
    """Return the table of a topic as another process sees it."""
    table = table_at(folder, topic)
    table.refresh()
    return table


def state_of(folder: Path | Folder, topic: str = "t") -> TopicState:
    return table_of(folder, topic).inspect(lambda state: state)
