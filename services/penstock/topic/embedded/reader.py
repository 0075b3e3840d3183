"""The read end of a task that reads topics: tails its partitions, and says where rows are;
executors open the files.
"""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.connector import Partition
from penstock.model.errors import OffsetLostError
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    Drained,
    Progress,
    ReadEvent,
    SchemaSeen,
    StreamSchema,
)
from penstock.topic.embedded.log import TopicFile
from penstock.topic.embedded.table import TopicTable, row_schema
from penstock.topic.embedded.wakeups import Wakeups

SLICE_ROWS: Final = 131_072
"""Most rows announced as one batch. Fewer spread better over slots, more cost fewer messages."""


@dataclass(slots=True)
class _Partition:
    """A partition that is read, and the offset of the next row to announce (-1: not known yet)."""

    id: str
    topic: str
    number: int
    next: int


@dataclass(frozen=True, slots=True)
class _Slice:
    """Rows of one file that were announced as a batch."""

    path: str
    first: int
    rows: int
    size: int


class EmbeddedReadStream:
    """Reads partitions of topics from where their offsets say. Owned by one run of a task."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        offset_reset: str,
        credit_bytes: int,
        table_of: Callable[[str], TopicTable],
        wakeups: Wakeups,
    ) -> None:
        self._reset, self._credit = offset_reset, credit_bytes
        self._wakeups = wakeups
        self._partitions = [
            _Partition(
                p.id,
                str(p.key["topic"]),
                int(p.key["partition"]),
                int(p.offset["offset"]) if p.offset else -1,
            )
            for p in partitions
        ]
        # a table of its own: writers of this process use theirs under other locks
        self._tables = {p.topic: table_of(p.topic) for p in self._partitions}
        self._event = asyncio.Event()
        self._schemas: dict[str, StreamSchema] = {}
        self._by_id: dict[int, StreamSchema] = {}
        self._held: OrderedDict[int, _Slice] = OrderedDict()
        self._held_bytes = 0
        self._seq = 0
        self._checkpoint = 0
        self._paused = False
        self._draining = False

    async def open(self) -> None:
        """Begin to watch the topics."""
        for table in self._tables.values():
            self._wakeups.add(table.root, self._event)

    async def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Yield what is there, then what comes; ends after a drain."""
        while True:
            self._event.clear()
            if not self._draining and not self._paused:
                await asyncio.to_thread(self._refresh)
                for event in self._news():
                    yield event
            if self._draining:
                yield Drained(self._checkpoint)
                return
            await self._event.wait()

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Name the slices of files that these batches are."""
        schema = self._by_id[schema_id].arrow.serialize().to_pybytes()
        slices = [self._held[seq] for seq in seqs]
        return {
            "kind": "embedded",
            "files": [[s.path, s.first, s.rows] for s in slices],
            "schema": base64.b64encode(schema).decode(),
        }

    async def committed(self, checkpoint_id: int) -> None:
        """Nothing to tell anyone: a topic keeps its rows until their retention ends."""

    async def release(self, seq: int) -> None:
        """Give the credit of batches back."""
        while self._held and next(iter(self._held)) <= seq:
            _, gone = self._held.popitem(last=False)
            self._held_bytes -= gone.size
        self._event.set()

    async def pause(self, paused: bool) -> None:
        """Stop or start announcing."""
        self._paused = paused
        self._event.set()

    async def drain(self, grace: float) -> None:
        """End after what was announced."""
        del grace
        self._draining = True
        self._event.set()

    async def close(self) -> None:
        """Stop watching. Idempotent."""
        for table in self._tables.values():
            self._wakeups.remove(table.root, self._event)

    def _refresh(self) -> None:
        for table in self._tables.values():
            if table.exists():
                table.log.refresh()

    def _news(self) -> Iterator[ReadEvent]:
        for partition in self._partitions:
            table = self._tables[partition.topic]
            if table.log.version < 0:
                continue
            yield from self._schema(table)
            self._position(partition, table)
            for file in table.log.of_partition(partition.number, partition.next):
                if self._held_bytes >= self._credit:  # one batch may overdraw (rule R9)
                    return
                yield from self._announce(partition, table, file)
        yield Progress(rows_left=self._rows_left())

    def _schema(self, table: TopicTable) -> Iterator[ReadEvent]:
        arrow = row_schema(table.log)
        known = self._schemas.get(table.topic)
        if known is None or not known.arrow.equals(arrow):
            schema = StreamSchema(len(self._by_id) + 1, table.topic, arrow)
            self._schemas[table.topic] = self._by_id[schema.schema_id] = schema
            yield SchemaSeen(schema)

    def _position(self, partition: _Partition, table: TopicTable) -> None:
        low = table.log.low_offset(partition.number)
        end = table.log.next_offset(partition.number)
        if partition.next < 0:
            if self._reset == "fail":
                raise self._lost(partition, "has no offset")
            partition.next = low if self._reset == "earliest" else end
        if low <= partition.next <= end:
            return
        if self._reset == "fail" or partition.next > end:
            raise self._lost(partition, f"has rows {low} to {end}, {partition.next} was asked for")
        partition.next = low if self._reset == "earliest" else end

    def _lost(self, partition: _Partition, what: str) -> OffsetLostError:
        return OffsetLostError(
            "topic.offset_lost",
            f"partition {partition.number} of topic {partition.topic} {what}",
            fix="Reset the offset, or set `auto.offset.reset` to earliest or latest.",
            dataset=partition.topic,
        )

    def _announce(
        self, partition: _Partition, table: TopicTable, file: TopicFile
    ) -> Iterator[ReadEvent]:
        while partition.next < file.end and self._held_bytes < self._credit:
            first = partition.next - file.base
            rows = min(SLICE_ROWS, file.rows - first)
            size = max(1, file.bytes * rows // max(file.rows, 1))
            self._seq += 1
            self._held[self._seq] = _Slice(str(table.root / file.path), first, rows, size)
            self._held_bytes += size
            partition.next += rows
            schema_id = self._schemas[table.topic].schema_id
            yield BatchReady(self._seq, schema_id, partition.id, rows, size)
            self._checkpoint += 1
            offsets = {partition.id: {"offset": partition.next}}
            yield Checkpoint(self._checkpoint, offsets, rows, self._seq)

    def _rows_left(self) -> int:
        return sum(
            max(0, self._tables[p.topic].log.next_offset(p.number) - p.next)
            for p in self._partitions
            if p.next >= 0
        )
