"""Reads the messages of a task's partitions as batches of rows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from penstock_connector import BadRow, Batch, ConnectorError, Partition
from penstock_connector.messages import BadMessage, Converters, MessageDecoder
from penstock_connector.raw_messages import raw_message
from penstock_kafka.broker import NO_GROUP, OFFSET_LOST, Broker, to_connector_error
from penstock_kafka.group_mirror import GroupMirror
from penstock_kafka.messages import messages_of
from penstock_kafka.time_offsets import bounds, offset_at
from penstock_values.start_times import start_time_ms

_QUEUE_KIB: Final = 65_536
"""Messages that are fetched ahead, for all partitions of a task together."""

_QUEUED: Final = 1_000_000
"""Messages that are fetched ahead of a partition; `_QUEUE_KIB` bounds them first."""

_QUEUE_BACKOFF_MS: Final = 5
"""Time until a partition is fetched again whose queue was full. The client's default of a second is
longer than its queue lasts.
"""

_FETCH_BYTES: Final = 8 << 20
"""Bytes of one answer for a partition. Kafka's default of 1 MiB asks eight times as often."""


_CONFIRM_S: Final = 30.0
"""Time for rows to become durable that came before an error. With less, a slow sink would never get
them; with more, the error is reported late.
"""


def _key(topic: str, number: int) -> dict[str, Any]:
    return {"topic": topic, "partition": number}


def _offset(following: int) -> dict[str, Any]:
    return {"offset": following}


def _following(offset: Mapping[str, Any]) -> int:
    return int(offset["offset"])


def _same(name: str) -> str:
    return name


def _unchanged(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


@dataclass(frozen=True, slots=True)
class Naming:
    """How a source writes what it reads.

    Attributes:
        key: Returns the key of a partition, which has `topic` and `partition`.
        offset: Returns the offset behind which the next message is read, given that one's.
        following: Returns the offset of the next message, the other way round.
        dataset: Returns the dataset of a topic's rows.
        rows: Changes rows.
    """

    key: Callable[[str, int], dict[str, Any]] = _key
    offset: Callable[[int], dict[str, Any]] = _offset
    following: Callable[[Mapping[str, Any]], int] = _following
    dataset: Callable[[str], str] = _same
    rows: Callable[[pa.RecordBatch], pa.RecordBatch] = _unchanged


AS_KAFKA: Final = Naming()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader does.

    Attributes:
        broker: Where it reads.
        open_converters: Returns new converters, for one topic.
        reset: Where a partition begins that was never read: earliest, latest, none, or a duration.
        batch_rows: Most messages of a batch.
        positions: Whether rows say where their messages are.
        group: Consumer group to which offsets of durable rows are committed; empty: none.
        tells_end: Whether it can say that the partitions were read to their ends.
    """

    broker: Broker
    open_converters: Callable[[], Converters]
    reset: str
    batch_rows: int
    positions: bool = False
    group: str = ""
    tells_end: bool = False


class TopicReader:
    """The partitions of a task. Messages of aborted transactions are never read."""

    def __init__(
        self, reading: Reading, partitions: Sequence[Partition], naming: Naming = AS_KAFKA
    ) -> None:
        """Read from the offsets of the partitions.

        Raises:
            OffsetLostError: `kafka.offset_lost`.
        """
        self._reading, self._naming, self._broker = reading, naming, reading.broker
        self._pending: deque[Batch] = deque()
        self._failure: ConnectorError | None = None
        self._fail_by = 0.0
        self._unconfirmed: dict[str, int] = {}
        self._at_end: set[tuple[str, int]] = set()
        self._ends: dict[tuple[str, int], int] | None = None
        self._decoders: dict[str, MessageDecoder] = {}
        self._group = GroupMirror(reading.group, partitions)
        settings = self._broker.settings(
            group_id=self._group.name or "penstock",  # required, also where nothing is committed
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            isolation_level="read_committed",
            auto_offset_reset="error",
            check_crcs=True,  # as Kafka's clients in Java; that of C believes what it gets
            queued_max_messages_kbytes=_QUEUE_KIB,
            queued_min_messages=_QUEUED,
            fetch_queue_backoff_ms=_QUEUE_BACKOFF_MS,
            fetch_message_max_bytes=_FETCH_BYTES,
            enable_partition_eof=reading.tells_end,
        )
        settings["on_commit"] = self._group.note
        self._consumer = self._broker.open(Consumer, settings)
        try:
            with self._broker.errors("offsets"):
                places = [self._beginning(one) for one in partitions]
                self._consumer.assign(places)
        except BaseException:
            self._consumer.close()
            raise
        keys = [(one.topic, one.partition) for one in places]
        self._partitions = dict(zip(keys, partitions, strict=True))
        self._next = {key: one.offset for key, one in zip(keys, places, strict=True)}

    def _beginning(self, partition: Partition) -> TopicPartition:
        topic, number = str(partition.key["topic"]), int(partition.key["partition"])
        if partition.offset is not None:
            place = TopicPartition(topic, number, self._naming.following(partition.offset))
            return self._within(place, partition)
        if self._reading.reset in {"earliest", "none"}:
            return TopicPartition(topic, number, OFFSET_BEGINNING)
        return self._at_reset(topic, number, partition)

    def _within(self, place: TopicPartition, partition: Partition) -> TopicPartition:
        """Return a place that the partition has."""
        low, high = bounds(self._broker, self._consumer, place.topic, place.partition)
        if low <= place.offset <= high:
            return place
        if self._reading.reset == "none" or place.offset > high:
            raise to_connector_error(
                KafkaError(
                    KafkaError.OFFSET_OUT_OF_RANGE,
                    f"{place.topic}-{place.partition} has the offsets {low} to {high}, and "
                    f"{place.offset} is the next one to be read",
                ),
                "offsets",
            )
        if self._reading.reset != "earliest":
            return self._at_reset(place.topic, place.partition, partition)
        self._decide(low, partition)
        return TopicPartition(place.topic, place.partition, low)

    def _at_reset(self, topic: str, number: int, partition: Partition) -> TopicPartition:
        """Return the end of a partition, or the place of the time that the reset means."""
        at_ms = start_time_ms(self._reading.reset, time.time())
        if at_ms is None:
            _, offset = bounds(self._broker, self._consumer, topic, number)
        else:
            offset = offset_at(self._broker, self._consumer, topic, number, at_ms)
        self._decide(offset, partition)
        return TopicPartition(topic, number, offset)

    def _decide(self, offset: int, partition: Partition) -> None:
        """Make a decided beginning durable before any row: a restart must not decide again."""
        dataset = self._naming.dataset(str(partition.key["topic"]))
        offsets = self._naming.offset(offset)
        self._pending.append(Batch(partition=partition, offset=offsets, dataset=dataset))

    def read_batch(self) -> Batch | None:
        """Return the rows of one partition and schema."""
        if not self._pending:
            self._poll(0.0)
        return self._pending.popleft() if self._pending else None

    def wait(self, timeout: float) -> None:
        """Block until there are messages."""
        self._group.commit(self._consumer)
        self._poll(min(timeout, 0.1))

    def caught_up(self) -> bool:
        """Return whether every partition was read as far as it went at the first question, or to an
        end: behind the last message there may be marks of transactions, which are no messages.
        """
        if self._ends is None:
            self._ends = {
                key: bounds(self._broker, self._consumer, *key)[1] for key in self._partitions
            }
        return not self._pending and all(
            key in self._at_end or self._next[key] >= end for key, end in self._ends.items()
        )

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Commit to the consumer group how far all rows are durable."""
        for id_, offset in offsets.items():
            if self._unconfirmed.get(id_, -1) <= self._naming.following(offset):
                self._unconfirmed.pop(id_, None)
        self._group.add(offsets)
        self._group.commit(self._consumer)

    def _poll(self, timeout: float) -> None:
        if self._pending:
            return
        if self._failure is not None:
            self._fail(self._failure, timeout)
            return
        with self._broker.errors("consume"):
            found = self._consumer.consume(1, timeout=timeout) if timeout else []
            found += self._consumer.consume(self._reading.batch_rows - len(found), timeout=0)
        if [one for one in found if one.error() is not None]:
            found = self._before_failure(found)
        for (topic, number), messages in self._by_partition(found).items():
            self._pending.extend(self._batches(topic, number, messages))
            following = messages[-1].offset() + 1
            self._next[topic, number] = following
            self._unconfirmed[self._partitions[topic, number].id] = following

    def _before_failure(self, polled: Sequence[Any]) -> list[Any]:
        """Return the messages before an error that ends the task. It is raised once they are rows:
        a user who lets the task continue behind it would lose them otherwise.
        """
        good: list[Any] = []
        for one in polled:
            try:
                if not self._handle_error(one):
                    good.append(one)
            except ConnectorError as error:
                self._failure, self._fail_by = error, time.monotonic() + _CONFIRM_S
                break
        return good

    def _fail(self, failure: ConnectorError, timeout: float) -> None:
        """Raise an error, once the rows before it are durable."""
        if not self._unconfirmed or time.monotonic() > self._fail_by:
            raise failure
        time.sleep(timeout)

    def _handle_error(self, message: Any) -> bool:
        """Return whether what was polled is an error, which is handled."""
        error, place = message.error(), (message.topic(), message.partition())
        if error is None:
            return False
        if error.code() == NO_GROUP:
            self._group.note(error, ())
            return True
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name
            self._at_end.add(place)
            return True
        if error.code() not in OFFSET_LOST or place not in self._partitions:
            raise to_connector_error(
                error, f"consume {place[0]}-{place[1]}" if place[0] else "consume"
            )
        self._go_on(*place)
        return True

    def _by_partition(self, messages: Sequence[Any]) -> Mapping[tuple[str, int], Sequence[Any]]:
        if not messages:
            return {}
        if len(self._partitions) == 1:
            return dict.fromkeys(self._partitions, messages)
        found: dict[tuple[str, int], list[Any]] = {}
        for one in messages:
            found.setdefault((one.topic(), one.partition()), []).append(one)
        return found

    def _go_on(self, topic: str, number: int) -> None:
        """Go on where `auto.offset.reset` says: retention was faster than this task.

        Raises:
            OffsetLostError: as at the beginning of a run.
        """
        lost = TopicPartition(topic, number, max(self._next[topic, number], 0))
        with self._broker.errors("offsets"):
            place = self._within(lost, self._partitions[topic, number])
            self._consumer.incremental_unassign([lost])
            self._consumer.incremental_assign([place])

    def _batches(self, topic: str, number: int, messages: Sequence[Any]) -> list[Batch]:
        decoder = self._decoders.get(topic)
        if decoder is None:
            decoder = MessageDecoder("kafka", topic, self._reading.open_converters())
            self._decoders[topic] = decoder
        positions = self._reading.positions
        columns = messages_of(messages, positions=positions)
        decoded, bad = decoder.decode(columns)
        partition, dataset = self._naming.key(topic, number), self._naming.dataset(topic)
        batches = [
            Batch(
                self._naming.rows(one.rows), partition, dataset=dataset, key_columns=one.key_columns
            )
            for one in decoded
        ] or [Batch(partition=partition, dataset=dataset)]
        batches[-1].bad_rows = [_bad_row(columns, one, messages[one.index].offset()) for one in bad]
        batches[-1].offset = self._naming.offset(messages[-1].offset() + 1)
        return batches

    def close(self) -> None:
        """Leave the brokers."""
        self._group.commit(self._consumer, at_end=True)
        self._consumer.close()
        for decoder in self._decoders.values():
            decoder.close()


def _bad_row(messages: pa.RecordBatch, bad: BadMessage, offset: int) -> BadRow:
    raw = raw_message(messages, bad.index, offset).to_bytes()
    return BadRow(raw, bad.error, {"offset": offset})
