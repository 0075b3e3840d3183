"""The read end of a task that reads topics: tails its partitions, and says where rows are;
executors open the files.
"""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.model.connector import Partition
from penstock.model.errors import Diagnostic, ErrorClass, RetriableError, Severity
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    Drained,
    Progress,
    ReadEvent,
    SchemaSeen,
    StreamSchema,
    TopicPlace,
    Warned,
)
from penstock.topic.embedded.position import Position, Reset
from penstock.topic.embedded.row_slices import SLICE_FILES, Slice, next_slice, places_of
from penstock.topic.embedded.table import TopicTable, View, Window
from penstock.topic.embedded.table_state import TopicFile
from penstock.topic.embedded.threads import Threads
from penstock.topic.embedded.wakeups import Wakeups
from penstock.topic_files import placed_schema

LOOK_FILES: Final = 4 * SLICE_FILES
"""Most files of a partition that are looked at together."""

HELD_FILES: Final = 2048
"""Most files that announced batches may have: their names must fit into one ticket, which is about
200 bytes for each."""


class EmbeddedReadStream:
    """Reads partitions of topics from where their offsets say. Owned by one run of a task."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        reset: Reset,
        credit_bytes: int,
        tables: Mapping[str, TopicTable],
        wakeups: Wakeups,
        threads: Threads,
        *,
        places: bool = False,
    ) -> None:
        """`tables` has the table of every topic that a partition names; with `places`, rows have
        the columns `__partition` and `__offset`.
        """
        self._positions = [Position.of(partition, reset) for partition in partitions]
        self._tables, self._wakeups, self._threads = tables, wakeups, threads
        self._credit = credit_bytes
        self._with_places = places
        self._event = asyncio.Event()
        self._schemas: dict[str, StreamSchema] = {}
        self._by_id: dict[int, StreamSchema] = {}
        self._held: OrderedDict[int, tuple[Position, Slice]] = OrderedDict()
        self._held_bytes = self._held_files = 0
        self._seq = self._checkpoint = 0
        self._paused = self._draining = False

    async def open(self) -> None:
        """Begin to watch the topics."""
        for table in self._tables.values():
            self._wakeups.add(table, self._event)

    async def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Yield what is there, then what comes; ends after a drain.

        Raises:
            OffsetLostError: `topic.offset_lost` (rule R14).
        """
        while True:
            self._event.clear()
            if self._draining:
                yield Drained(self._checkpoint)
                return
            if self._may_announce():
                for event in self._news(await self._threads.run(self._look)):
                    yield event
                yield Progress(rows_left=sum(p.behind for p in self._positions))
                if self._may_announce() and any(p.behind for p in self._positions):
                    continue
            await self._event.wait()

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Name the files that these batches are in now, and the rows of each."""
        schema = self._by_id[schema_id]
        table = self._tables[schema.dataset]
        files, places = list[list[Any]](), list[list[int]]()
        for seq in seqs:
            position, held = self._held[seq]
            offset = held.first
            for file in self._places(table, seq):
                files.append(file)
                places.append([position.number, offset])
                offset += file[2]
        return {
            "kind": "embedded",
            **table.folder.place(),
            "files": files,
            **({"places": places} if self._with_places else {}),
            "schema": base64.b64encode(schema.arrow.serialize().to_pybytes()).decode(),
        }

    confirms = False
    """Nobody waits for a commit of a topic."""

    async def committed(self, checkpoint_id: int) -> None:
        """Nothing to tell anyone: a topic keeps its rows until their retention ends."""

    async def release(self, seq: int) -> None:
        """Give the credit of batches back. Cumulative."""
        while self._held and next(iter(self._held)) <= seq:
            _, (_, gone) = self._held.popitem(last=False)
            self._held_bytes -= gone.bytes
            self._held_files -= gone.files
        if any(position.behind for position in self._positions):
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
            self._wakeups.remove(table, self._event)

    def _may_announce(self) -> bool:
        # one batch may overdraw the credit, so that a large one cannot block (rule R9)
        room = self._held_bytes < self._credit and self._held_files < HELD_FILES
        return room and not self._paused and not self._draining

    def _look(self) -> dict[str, View | None]:
        views = {}
        for topic, table in self._tables.items():
            table.refresh()
            wanted = {p.number: p.next for p in self._positions if p.topic == topic}
            views[topic] = table.view(wanted, LOOK_FILES)
        return views

    def _news(self, views: Mapping[str, View | None]) -> Iterator[ReadEvent]:
        files: dict[Position, Sequence[TopicFile]] = {}
        for topic, view in views.items():
            if view is not None:
                yield from self._schema(topic, view)
        for position in self._positions:
            view = views[position.topic]
            if view is not None:
                yield from self._placed(position, view.windows[position.number])
                files[position] = view.windows[position.number].files
            elif position.missing():
                yield self._checkpoint_at(position, 0)
        yield from self._announced(files)

    def _schema(self, topic: str, view: View) -> Iterator[ReadEvent]:
        known = self._schemas.get(topic)
        columns = placed_schema(view.columns) if self._with_places else view.columns
        same = known is not None and known.arrow.equals(columns)
        if known is None or not same or known.key_columns != view.key_columns:
            id_ = len(self._by_id) + 1
            schema = StreamSchema(id_, topic, columns, view.key_columns)
            self._schemas[topic] = self._by_id[id_] = schema
            yield SchemaSeen(schema)

    def _placed(self, position: Position, window: Window) -> Iterator[ReadEvent]:
        skipped = position.place(window)
        if skipped is None:
            return
        if skipped:
            yield Warned(_reset(position, skipped))
        # where to start was decided here: durable before the first row, or it is decided again
        yield self._checkpoint_at(position, 0)

    def _announced(self, files: Mapping[Position, Sequence[TopicFile]]) -> Iterator[ReadEvent]:
        """Announce slices, the partitions in turn, so that none waits for another to be read up.

        Whose turn it is outlasts the credit: the positions are kept in that order.
        """
        waiting = deque(position for position in self._positions if position in files)
        while waiting and self._may_announce():
            position = waiting.popleft()
            found = next_slice(files[position], position.next)
            if found is not None:
                yield self._batch(position, found)
                yield self._checkpoint_at(position, found.rows)
                waiting.append(position)
                self._positions.remove(position)
                self._positions.append(position)

    def _batch(self, position: Position, found: Slice) -> BatchReady:
        schema_id = self._schemas[position.topic].schema_id
        self._seq += 1
        self._held[self._seq] = (position, found)
        self._held_bytes += found.bytes
        self._held_files += found.files
        position.next = found.end
        place = TopicPlace(position.number, found.first)
        return BatchReady(self._seq, schema_id, position.id, found.rows, found.bytes, place)

    def _checkpoint_at(self, position: Position, rows: int) -> Checkpoint:
        self._checkpoint += 1
        offsets = {position.id: {"offset": position.next}}
        return Checkpoint(self._checkpoint, offsets, rows, self._seq)

    def _places(self, table: TopicTable, seq: int) -> list[list[Any]]:
        position, held = self._held[seq]
        places = table.inspect(
            lambda state: places_of(
                state.from_offset(position.number, held.first, SLICE_FILES), held.first, held.rows
            )
        )
        if places is None:
            raise RetriableError(
                "topic.rows_gone",
                f"rows {held.first} to {held.end} of partition {position.number} of topic "
                f"{position.topic} went past their retention while they waited",
                fix="The task looks again; raise the retention, or speed the reader up.",
                dataset=position.topic,
            )
        return [[place.path, place.first, place.rows, place.bytes] for place in places]


def _reset(position: Position, skipped: int) -> Diagnostic:
    return Diagnostic(
        "topic.offset_reset",
        f"partition {position.number} of topic {position.topic} goes on at offset "
        f"{position.next}, {skipped} rows on: retention removed some before they were read",
        ErrorClass.OFFSET_LOST,
        Severity.WARNING,
        fix="Raise the retention, or set `auto.offset.reset=fail` to stop instead.",
        dataset=position.topic,
    )
