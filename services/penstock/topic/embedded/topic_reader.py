"""The control side of a source of topics: follows its partitions and announces batches of their
rows. Executors read the files.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from penstock.model.connector import Partition
from penstock.model.errors import (
    ConfigError,
    Diagnostic,
    ErrorClass,
    OffsetLostError,
    RetriableError,
    Severity,
)
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    Progress,
    ReadEvent,
    SchemaVersion,
    SourceWarning,
    StreamSchema,
    TopicPosition,
)
from penstock.topic.embedded.row_ranges import (
    MAX_BATCH_FILES,
    BatchRange,
    FileRange,
    locate_rows,
    next_batch,
)
from penstock.topic.embedded.table_state import TopicFile
from penstock.topic.embedded.topic_table import PartitionView, TopicTable, TopicThreads, TopicView
from penstock.topic.embedded.wakeups import Wakeups
from penstock.topic_files.file_reader import with_position_columns
from penstock_values.start_times import EXAMPLES, is_start_time, start_time_ms

MAX_VIEW_FILES: Final = 4 * MAX_BATCH_FILES
"""Files of a partition that one view of the topic has."""

MAX_PENDING_FILES: Final = 2048
"""Files of all announced batches. Their names must fit into one ticket, about 200 bytes for
each."""

Beginning: TypeAlias = Literal["earliest", "latest", "fail", "time"]


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where to start without an offset, or with one whose row no longer exists. `at_ms`: the time
    of `time`, in milliseconds since 1970.
    """

    beginning: Beginning
    at_ms: int | None = None


BEGINNINGS: Final = ("earliest", "latest", "fail")

_UNKNOWN: Final = -1


def parse_offset_reset(text: str) -> OffsetReset:
    """Return the value of `auto.offset.reset`.

    Raises:
        ConfigError: `topic.bad_reset`.
    """
    if text in BEGINNINGS:
        return OffsetReset(cast("Beginning", text))
    if not is_start_time(text):
        raise ConfigError(
            "topic.bad_reset",
            f"`auto.offset.reset` is `{text}`, which is not a position to start at",
            fix=f"Use one of {', '.join(BEGINNINGS)}, or a time: {' or '.join(EXAMPLES)}.",
            config_path="auto.offset.reset",
        )
    return OffsetReset("time", start_time_ms(text, time.time()))


@dataclass(slots=True, eq=False)
class PartitionPosition:
    """Where a reader is in a partition. `next`: offset of the next row to announce. `end`: offset
    of the next row to be written, as last seen.
    """

    id: str
    topic: str
    number: int
    reset: OffsetReset
    next: int = _UNKNOWN
    end: int = 0

    @staticmethod
    def from_partition(partition: Partition, reset: OffsetReset) -> PartitionPosition:
        """Return the position of a partition's offset."""
        key, offset = partition.key, partition.offset
        start = int(offset["offset"]) if offset else _UNKNOWN
        topic, number = str(key["topic"]), int(key["partition"])
        return PartitionPosition(partition.id, topic, number, reset, start)

    @property
    def behind(self) -> int:
        """Number of rows that wait to be announced, as last seen."""
        return 0 if self.next == _UNKNOWN else max(0, self.end - self.next)

    def decide_before_topic(self) -> bool:
        """Decide where to start while the topic does not exist: all its rows will be new. True when
        the decision must be stored.
        """
        beginning = self.reset.beginning
        if self.next != _UNKNOWN or beginning == "fail":
            return False
        self.next = 0
        return beginning != "earliest"

    def move_into(self, view: PartitionView) -> int | None:
        """Move to a readable offset. Returns the number of skipped rows; None when nothing had to
        be decided.

        Raises:
            OffsetLostError: `topic.offset_lost` (rule R14).
        """
        self.end = view.next_offset
        first = view.files[0].base if view.files else self.end
        if self.next == _UNKNOWN:
            if self.reset.beginning == "fail":
                raise self._offset_lost("has no offset")
            self.next = self._beginning(view, view.first_offset)
            return 0 if self.next else None
        if self.next > self.end:
            # the policy is for removed rows; this is another topic, or an older copy of it
            raise self._offset_lost(f"ends at {self.end}, {self.next} was requested")
        if self.next >= first:
            return None
        if self.reset.beginning == "fail":
            raise self._offset_lost(f"has no row {self.next}; its first row is {first}")
        wanted, self.next = self.next, self._beginning(view, first)
        return self.next - wanted

    def _beginning(self, view: PartitionView, first: int) -> int:
        if self.reset.beginning == "time":
            return view.offset_at
        return first if self.reset.beginning == "earliest" else self.end

    def _offset_lost(self, what: str) -> OffsetLostError:
        return OffsetLostError(
            "topic.offset_lost",
            f"partition {self.number} of topic {self.topic} {what}",
            fix="Reset the offset, or set `auto.offset.reset` to earliest or latest.",
            config_path="auto.offset.reset",
            dataset=self.topic,
        )


class TopicReader:
    """Reads partitions of topics from their offsets on. Owned by one run of a task."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        reset: OffsetReset,
        credit_bytes: int,
        tables: Mapping[str, TopicTable],
        wakeups: Wakeups,
        threads: TopicThreads,
        *,
        with_positions: bool = False,
    ) -> None:
        """`tables` has the table of every topic of the partitions. With `with_positions`, rows have
        the columns `__partition` and `__offset`.
        """
        self._positions = [PartitionPosition.from_partition(one, reset) for one in partitions]
        self._at_ms = reset.at_ms
        self._tables, self._wakeups, self._threads = tables, wakeups, threads
        self._credit_bytes = credit_bytes
        self._with_positions = with_positions
        self._event = asyncio.Event()
        self._schemas: dict[str, StreamSchema] = {}
        self._schemas_by_id: dict[int, StreamSchema] = {}
        self._announced: OrderedDict[int, tuple[PartitionPosition, BatchRange]] = OrderedDict()
        self._announced_bytes = self._announced_files = 0
        self._seq = self._checkpoint = 0

    async def open(self) -> None:
        """Begin to watch the topics."""
        for table in self._tables.values():
            self._wakeups.add(table, self._event)

    async def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Yield events of the rows that exist, then of new ones; never ends.

        Raises:
            OffsetLostError: `topic.offset_lost` (rule R14).
        """
        while True:
            self._event.clear()
            if self._may_announce():
                for event in self._events(await self._threads.run(self._read_views)):
                    yield event
                yield Progress(rows_left=sum(p.behind for p in self._positions))
                if self._may_announce() and any(p.behind for p in self._positions):
                    continue
            await self._event.wait()

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Return the ticket to read these batches from the files that they are in now."""
        schema = self._schemas_by_id[schema_id]
        table = self._tables[schema.dataset]
        files, positions = list[list[Any]](), list[list[int]]()
        for seq in seqs:
            position, batch = self._announced[seq]
            offset = batch.first
            for part in self._locate(table, seq):
                files.append(part.to_ticket())
                positions.append([position.number, offset])
                offset += part.rows
        return {
            "kind": "embedded",
            **table.folder.to_ticket(),
            "files": files,
            **({"positions": positions} if self._with_positions else {}),
            "schema": base64.b64encode(schema.arrow.serialize().to_pybytes()).decode(),
        }

    confirms = False
    """A topic has no acknowledgements to confirm."""

    async def committed(self, checkpoint_id: int) -> None:
        """Do nothing: a topic keeps its rows until their retention ends."""

    async def release(self, seq: int) -> None:
        """Return the credit of batches. Cumulative."""
        while self._announced and next(iter(self._announced)) <= seq:
            _, (_, batch) = self._announced.popitem(last=False)
            self._announced_bytes -= batch.bytes
            self._announced_files -= batch.files
        if any(position.behind for position in self._positions):
            self._event.set()

    async def close(self) -> None:
        """Stop watching. Idempotent."""
        for table in self._tables.values():
            self._wakeups.remove(table, self._event)

    def _may_announce(self) -> bool:
        # one batch may exceed the credit, so that a large one cannot block (rule R9)
        has_credit = self._announced_bytes < self._credit_bytes
        return has_credit and self._announced_files < MAX_PENDING_FILES

    def _read_views(self) -> dict[str, TopicView | None]:
        views = {}
        for topic, table in self._tables.items():
            table.refresh()
            offsets = {p.number: p.next for p in self._positions if p.topic == topic}
            views[topic] = table.view(offsets, MAX_VIEW_FILES, self._at_ms)
        return views

    def _events(self, views: Mapping[str, TopicView | None]) -> Iterator[ReadEvent]:
        files: dict[PartitionPosition, Sequence[TopicFile]] = {}
        for topic, view in views.items():
            if view is not None:
                yield from self._schema_events(topic, view)
        for position in self._positions:
            view = views[position.topic]
            if view is not None:
                yield from self._start_events(position, view.partitions[position.number])
                files[position] = view.partitions[position.number].files
            elif position.decide_before_topic():
                yield self._checkpoint_at(position, 0)
        yield from self._batch_events(files)

    def _schema_events(self, topic: str, view: TopicView) -> Iterator[ReadEvent]:
        known = self._schemas.get(topic)
        columns = with_position_columns(view.columns) if self._with_positions else view.columns
        is_same = known is not None and known.arrow.equals(columns)
        if known is None or not is_same or known.key_columns != view.key_columns:
            id_ = len(self._schemas_by_id) + 1
            schema = StreamSchema(id_, topic, columns, view.key_columns)
            self._schemas[topic] = self._schemas_by_id[id_] = schema
            yield SchemaVersion(schema)

    def _start_events(
        self, position: PartitionPosition, view: PartitionView
    ) -> Iterator[ReadEvent]:
        skipped = position.move_into(view)
        if skipped is None:
            return
        if skipped:
            yield SourceWarning(_offset_reset(position, skipped))
        # the start was decided here: stored before the first row, or it would be decided again
        yield self._checkpoint_at(position, 0)

    def _batch_events(
        self, files: Mapping[PartitionPosition, Sequence[TopicFile]]
    ) -> Iterator[ReadEvent]:
        """Announce batches of the partitions in turn, so that none waits until another is read.

        The turn continues when the credit returns: the positions are kept in that order.
        """
        waiting = deque(position for position in self._positions if position in files)
        while waiting and self._may_announce():
            position = waiting.popleft()
            batch = next_batch(files[position], position.next)
            if batch is not None:
                yield self._announce(position, batch)
                yield self._checkpoint_at(position, batch.rows)
                waiting.append(position)
                self._positions.remove(position)
                self._positions.append(position)

    def _announce(self, position: PartitionPosition, batch: BatchRange) -> BatchReady:
        schema_id = self._schemas[position.topic].schema_id
        self._seq += 1
        self._announced[self._seq] = (position, batch)
        self._announced_bytes += batch.bytes
        self._announced_files += batch.files
        position.next = batch.end
        start = TopicPosition(position.number, batch.first)
        return BatchReady(self._seq, schema_id, position.id, batch.rows, batch.bytes, start)

    def _checkpoint_at(self, position: PartitionPosition, rows: int) -> Checkpoint:
        self._checkpoint += 1
        offsets = {position.id: {"offset": position.next}}
        return Checkpoint(self._checkpoint, offsets, rows, self._seq)

    def _locate(self, table: TopicTable, seq: int) -> list[FileRange]:
        position, batch = self._announced[seq]
        ranges = table.inspect(
            lambda state: locate_rows(
                state.files_from(position.number, batch.first, MAX_BATCH_FILES),
                batch.first,
                batch.rows,
            )
        )
        if ranges is None:
            raise RetriableError(
                "topic.rows_gone",
                f"rows {batch.first} to {batch.end} of partition {position.number} of topic "
                f"{position.topic} were removed by retention before they were read",
                fix="The task reads the topic again; raise the retention, or make the reader "
                "faster.",
                dataset=position.topic,
            )
        return ranges


def _offset_reset(position: PartitionPosition, skipped: int) -> Diagnostic:
    return Diagnostic(
        "topic.offset_reset",
        f"partition {position.number} of topic {position.topic} continues at offset "
        f"{position.next} and skips {skipped} rows: retention removed some before they were read",
        ErrorClass.OFFSET_LOST,
        Severity.WARNING,
        fix="Raise the retention, or set `auto.offset.reset=fail` to stop instead.",
        dataset=position.topic,
    )
