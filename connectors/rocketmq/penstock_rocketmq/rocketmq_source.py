"""Messages of topics as rows. The host keeps the offsets: no consumer group has any part in it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_connector import (
    BadRow,
    Batch,
    ConfigError,
    ConnectorError,
    DataError,
    OffsetLostError,
    Partition,
    Pattern,
    RawRow,
    Source,
    key,
)
from penstock_connector.instants import TIMESTAMP, to_milliseconds
from penstock_connector.messages import MESSAGE_SCHEMA, POSITION_SCHEMA, MessageDecoder
from penstock_connector.raw_message_reader import RawMessageReader
from penstock_connector.raw_messages import RawMessage, raw_message
from penstock_rocketmq.cluster import Cluster, Queue, Route
from penstock_rocketmq.config import CONSUMER_GROUP, MessageConfig
from penstock_rocketmq.fetcher import Fetcher
from penstock_rocketmq.frames import ProtocolError
from penstock_rocketmq.originals import Originals
from penstock_rocketmq.properties import decode_properties
from penstock_rocketmq.queue_reader import Piece, QueueReader
from penstock_rocketmq.remoting import not_rocketmq
from penstock_rocketmq.storage import StoredMessages, decode_messages
from penstock_values.start_times import is_start_time, start_time_ms

_ALL_TAGS: Final = "*"
_COMPACT_TIME: Final = "%Y%m%d%H%M%S"
_GATHER_ROWS, _GATHER_S = 5_000, 0.02


@dataclass(frozen=True)
class RocketmqSourceConfig(MessageConfig):
    """Which topics, and from where."""

    topics: tuple[str, ...] = key((), doc="Topics, separated by commas.", group="Reading")
    topics_regex: str = key(
        "",
        doc="Regular expression for the whole name of a topic, instead of `topics`. Topics of "
        "RocketMQ's own are left out.",
        group="Reading",
    )
    tags: str = key(
        _ALL_TAGS,
        doc="Tags of the messages that are read, as `paid || refunded`; `*` for all messages.",
        group="Reading",
    )
    consume_from_where: str = key(
        "first",
        doc="Where a queue begins that was never read: at its first message, behind its last one, "
        "or at `consume.timestamp`.",
        choices=("first", "last", "timestamp"),
        group="Reading",
    )
    consume_timestamp: str = key(
        "",
        doc="Time of `consume.from.where=timestamp`: `2026-11-26T08:00:00Z`, or `20261126080000` "
        "in the time zone of the process, as in RocketMQ; `by_duration:PT1H`: an hour ago.",
        group="Reading",
    )
    consume_offset_lost: str = key(
        "fail",
        doc="What to do when messages that were to be read are gone: `fail`, or go on at the "
        "`first` one that is there, or behind the `last` one.",
        choices=("fail", "first", "last"),
        group="Reading",
    )
    consumer_group: str = key(
        CONSUMER_GROUP,
        doc="Group in whose name brokers are called. Nothing is stored for it; the default one "
        "exists everywhere.",
        group="Reading",
    )
    positions: bool = key(
        False,
        doc="Whether rows have `__partition` and `__offset`: queue and offset of their messages. "
        "Transforms see them, sinks do not. In a topic of another system, rows keep that number.",
        group="Reading",
    )
    batch_rows: int = key(50_000, doc="Most messages of a batch.", group="Reading")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if bool(self.topics) == bool(self.topics_regex):
            raise ConfigError(
                "config.missing" if not self.topics else "config.conflict",
                "`topics` or `topics.regex` must be set, and not both",
                fix="Set `topics` to names, or `topics.regex` to a regular expression.",
                config_path="topics",
            )
        if self.topics_regex:
            Pattern.compile(self.topics_regex, "topics.regex")
        if not all(self.tag_names):
            raise _invalid("tags", self.tags, "Write tags as `paid || refunded`, or `*`.")
        if self.batch_rows < 1:
            raise _invalid("batch.rows", self.batch_rows, "Use a number above 0.")
        if not self.consumer_group:
            raise _invalid("consumer.group", "", "Name a group, or remove the key.")
        if bool(self.consume_timestamp) != (self.consume_from_where == "timestamp"):
            raise ConfigError(
                "config.conflict" if self.consume_timestamp else "config.missing",
                "`consume.timestamp` and `consume.from.where=timestamp` belong together",
                fix="Set both, or remove `consume.timestamp`.",
                config_path="consume.timestamp",
            )
        if self.consume_timestamp:
            self.timestamp_ms()

    @property
    def tag_names(self) -> tuple[bytes, ...]:
        """The tags that are read; none for all messages."""
        if self.tags.strip() == _ALL_TAGS:
            return ()
        return tuple(one.strip().encode() for one in self.tags.split("||"))

    def timestamp_ms(self) -> int:
        """Return `consume.timestamp` in milliseconds since 1970."""
        text = self.consume_timestamp
        if is_start_time(text):
            return start_time_ms(text, time.time()) or 0
        try:
            if text.isdigit():
                moment = datetime.strptime(text, _COMPACT_TIME).astimezone()
            else:
                moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise _invalid(
                "consume.timestamp", text, "Write for example 2026-11-26T08:00:00Z, with its zone."
            )
        return int(moment.timestamp() * 1000)


class RocketmqSource(Source[RocketmqSourceConfig]):
    """Messages of RocketMQ's topics.

    A queue of a topic is a partition here; its offset is that of the next message.
    """

    name = "rocketmq-source"
    monitor_every = 10.0

    @classmethod
    def check(cls, config: RocketmqSourceConfig) -> None:
        """Ask the name servers for the topics, and connect to the brokers."""
        cluster = Cluster(config)
        try:
            for route in _routes(config, cluster).values():
                for address in route.masters.values():
                    cluster.remoting.channel(address)
        finally:
            cluster.close()

    @classmethod
    def plan(
        cls, config: RocketmqSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the queues of the topics; a topic that does not exist has none yet. Queues of a
        broker that is away stay: name servers forget it, and it comes back.
        """
        cluster = Cluster(config)
        try:
            routes = _routes(config, cluster)
            found = [(topic, queue) for topic, route in routes.items() for queue in route.readable]
            found += _queues_away(config, cluster, known, found)
            return [
                Partition(_key(topic, queue), datasets=(topic,)) for topic, queue in sorted(found)
            ]
        finally:
            cluster.close()

    @classmethod
    def alter_offsets(
        cls, config: RocketmqSourceConfig, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Refuse offsets that queues do not have; times become offsets."""
        cluster = Cluster(config)
        try:
            return [_resolve(cluster, one) for one in partitions]
        finally:
            cluster.close()

    @classmethod
    def parse_rows(
        cls, config: RocketmqSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read messages again that could not be read."""
        originals = Originals(Cluster(config), config.consumer_group)

        def read_neighbours(key: Mapping[str, Any]) -> Sequence[RawMessage]:
            if not _names_queue(key):
                return ()
            found = originals.read_newest(*_place(Partition(key)))
            wanted = config.tag_names
            tags = [dict(one.headers).get("TAGS") or b"" for one in found]
            return [
                one for one, tag in zip(found, tags, strict=True) if not wanted or tag in wanted
            ]

        reader = RawMessageReader(
            "rocketmq",
            config.open_converters,
            read_neighbours,
            number="queue",
            positions=config.positions,
        )
        try:
            yield from reader.read(rows)
        finally:
            reader.close()
            originals.close()

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Read from the offsets of the partitions."""
        self._pending: deque[Batch] = deque()
        self._decoders: dict[str, MessageDecoder] = {}
        self._wanted = frozenset(self.config.tag_names)
        self._cluster = Cluster(self.config)
        self._masters: dict[str, str] = {}
        self._unread: set[QueueReader] = set()
        self._ends: dict[QueueReader, int] | None = None
        self._readers = deque(self._reader(one) for one in partitions)
        self._fetcher = Fetcher(
            self._cluster, self.config.consumer_group, self.config.tags, tuple(self._readers)
        )

    def _reader(self, partition: Partition) -> QueueReader:
        topic, queue = _place(partition)
        offset = self._beginning(topic, queue, partition)
        reader = QueueReader(topic, queue, offset, is_filtered=bool(self._wanted))
        if partition.offset is None:
            self._unread.add(reader)
        return reader

    def _beginning(self, topic: str, queue: Queue, partition: Partition) -> int:
        """Return where to read on. Most offsets need no broker: one that is away does not keep the
        task from reading the others. An offset that is gone shows at the first pull.
        """
        config = self.config
        if partition.offset is not None:
            return int(partition.offset["offset"])
        if config.consume_from_where == "first":
            return 0
        address = self._master(topic, queue)
        low, high = self._cluster.bounds(address, topic, queue.number)
        if config.consume_from_where == "last":
            return self._decide(high, topic, queue)
        found = self._cluster.offset_at(address, topic, queue.number, config.timestamp_ms())
        return self._decide(min(max(found, low), high), topic, queue)

    def _master(self, topic: str, queue: Queue) -> str:
        if queue.broker not in self._masters:
            self._masters[queue.broker] = self._cluster.find_master(topic, queue.broker)
        return self._masters[queue.broker]

    def _after_loss(self, topic: str, queue: Queue, begin: int, end: int, high: int) -> int:
        """Return where reading goes on after messages from `begin` up to `end` that are gone."""
        match self.config.consume_offset_lost:
            case "first":
                return end
            case "last":
                return high
        raise OffsetLostError(
            "rocketmq.offset_lost",
            f"{_where(topic, queue)}: messages from offset {begin} up to {end} are gone",
            fix="Keep messages longer (`fileReservedTime` of the brokers); set "
            "`consume.offset.lost=first` to go on with what is there.",
        )

    def _decide(self, offset: int, topic: str, queue: Queue) -> int:
        """Make a decided beginning durable before any row: a restart must not decide again."""
        self._pending.append(_mark(topic, queue, offset))
        return offset

    def read_batch(self) -> Batch | None:
        """Return the rows of one queue and schema."""
        if not self._pending:
            self._fetcher.gather(min(_GATHER_ROWS, self.config.batch_rows), _GATHER_S)
            self._decode_next()
        return self._pending.popleft() if self._pending else None

    def wait(self, timeout: float) -> None:
        """Block until there are messages."""
        if not self._pending:
            self._fetcher.poll(min(timeout, 0.1))

    def caught_up(self) -> bool:
        """Return whether every queue was read as far as it went at the first question."""
        if self._ends is None:
            self._ends = {reader: self._end(reader) for reader in self._readers}
        return not self._pending and all(one.has_given(end) for one, end in self._ends.items())

    def _end(self, reader: QueueReader) -> int:
        address = self._master(reader.topic, reader.queue)
        return self._cluster.bounds(address, reader.topic, reader.queue.number)[1]

    def _decode_next(self) -> None:
        """Decode the messages of the next queue that has some; the queues take turns."""
        for _ in range(len(self._readers)):
            reader = self._readers[0]
            self._readers.rotate(-1)
            if reader.pieces:
                self._decode(reader, reader.take(self.config.batch_rows))
                return

    def _decode(self, reader: QueueReader, pieces: Sequence[Piece]) -> None:
        begin, end = pieces[0].begin, pieces[-1].end
        is_unread = reader in self._unread
        self._unread.discard(reader)
        if pieces[0].is_lost and is_unread:  # it begins at the first message that is there
            self._pending.append(_mark(reader.topic, reader.queue, end))
            return
        if pieces[0].is_lost:
            self._skip(reader, begin, end)
            return
        data = b"".join(piece.data for piece in pieces)
        if not data:  # no message has one of the tags
            self._pending.append(_mark(reader.topic, reader.queue, end))
            return
        try:
            stored = decode_messages(data)
        except ProtocolError as error:
            raise not_rocketmq(_where(reader.topic, reader.queue), error) from error
        if stored.rest:
            following = int(stored.offsets[-1]) + 1
            reader.put_back(Piece(following, end, stored.rest))
            end = following
        good = (stored.offsets >= begin) & (stored.offsets < end)
        if not self._wanted and np.count_nonzero(good) != end - begin:
            if self._skip(reader, begin, end) != end:
                return
            self._pending.pop()
        self._pending.extend(self._batches(reader, stored, good, end))

    def _skip(self, reader: QueueReader, begin: int, end: int) -> int:
        """Return where reading goes on after messages that are gone, and make it durable."""
        offset = self._after_loss(reader.topic, reader.queue, begin, end, max(reader.end, end))
        if offset != end:
            reader.move(offset)
        return self._decide(offset, reader.topic, reader.queue)

    def _batches(
        self, reader: QueueReader, stored: StoredMessages, good: npt.NDArray[np.bool_], end: int
    ) -> list[Batch]:
        topic, queue = reader.topic, reader.queue
        found = decode_properties(stored.properties)
        if self._wanted:  # brokers compare hashes of tags
            good = good & np.fromiter((tag in self._wanted for tag in found.tags), bool, len(good))
        pairs = zip(found.born_ms, stored.born_ms.tolist(), strict=True)
        born = [given if given is not None else ms for given, ms in pairs]
        columns = [
            pa.array(found.keys, pa.binary()),
            pa.array([body or None for body in stored.bodies], pa.binary()),
            pa.array(born, pa.int64()),
            found.headers,
        ]
        if self.config.positions:
            numbers = np.full(len(stored.offsets), queue.number, np.int32)
            columns += [pa.array(numbers), pa.array(stored.offsets)]
        schema = POSITION_SCHEMA if self.config.positions else MESSAGE_SCHEMA
        messages = pa.RecordBatch.from_arrays(columns, schema=schema)
        damaged = np.zeros(len(good), bool)
        damaged[list(stored.raw)] = True
        offsets = stored.offsets.tolist()
        bad = [
            _bad_row(
                replace(raw_message(messages, at, offsets[at]), value=stored.raw[at], damaged=True),
                _damaged(topic, offsets[at]),
            )
            for at in sorted(stored.raw)
            if good[at]
        ]
        kept = np.nonzero(good & ~damaged)[0]
        decoder = self._decoders.get(topic)
        if decoder is None:
            decoder = MessageDecoder("rocketmq", topic, self.config.open_converters())
            self._decoders[topic] = decoder
        decoded, refused = decoder.decode(messages.take(pa.array(kept)))
        for one in refused:
            at = int(kept[one.index])
            bad.append(_bad_row(raw_message(messages, at, offsets[at]), one.error))
        partition = _key(topic, queue)
        batches = [
            Batch(one.rows, partition, dataset=topic, key_columns=one.key_columns)
            for one in decoded
        ] or [Batch(partition=partition, dataset=topic)]
        batches[-1].bad_rows = bad
        batches[-1].offset = {"offset": end}
        return batches

    def close(self) -> None:
        """Leave the brokers."""
        for decoder in getattr(self, "_decoders", {}).values():
            decoder.close()
        if (cluster := getattr(self, "_cluster", None)) is not None:
            cluster.close()


def _routes(config: RocketmqSourceConfig, cluster: Cluster) -> dict[str, Route]:
    """Return the routes of the topics that exist, by name."""
    names: Sequence[str] = config.topics
    if config.topics_regex:
        names = Pattern.compile(config.topics_regex, "topics.regex").filter(cluster.list_topics())
    routes = ((name, cluster.route(name)) for name in sorted(set(names)))
    return {name: route for name, route in routes if route is not None}


def _queues_away(
    config: RocketmqSourceConfig,
    cluster: Cluster,
    known: Sequence[Partition],
    found: Sequence[tuple[str, Queue]],
) -> list[tuple[str, Queue]]:
    """Return the known queues that were not found because their broker has no master now."""
    missing = {_place(one) for one in known} - set(found)
    if config.topics_regex:
        names = {topic for topic, _ in missing}
        names = set(Pattern.compile(config.topics_regex, "topics.regex").filter(names))
    else:
        names = set(config.topics)
    missing = {(topic, queue) for topic, queue in missing if topic in names}
    masters = cluster.list_masters() if missing else {}
    return [(topic, queue) for topic, queue in missing if queue.broker not in masters]


def _resolve(cluster: Cluster, partition: Partition) -> Partition:
    """Return a partition with the offset that somebody wants: a time becomes an offset."""
    key, offset = partition.key, partition.offset
    if offset is None:
        return partition
    if not _names_queue(key):
        raise _refused(f"{dict(key)!r} is no queue", "Write topic, broker and queue.")
    topic, queue = _place(partition)
    address = cluster.find_master(topic, queue.broker)
    low, high = cluster.bounds(address, topic, queue.number)
    if set(offset) == {TIMESTAMP}:
        at_ms = to_milliseconds(offset[TIMESTAMP])
        found = cluster.offset_at(address, topic, queue.number, at_ms)
        return Partition(key, {"offset": min(max(found, low), high)})
    wanted = offset.get("offset")
    if set(offset) != {"offset"} or type(wanted) is not int or not 0 <= wanted <= high:
        raise _refused(
            f"{dict(offset)!r} is no offset of {_where(topic, queue)}, which ends at {high}",
            f'Write {{"offset": {high}}} for its end.',
        )
    return partition


def _refused(message: str, fix: str) -> ConfigError:
    return ConfigError("rocketmq.offset", message, fix=fix)


def _place(partition: Partition) -> tuple[str, Queue]:
    key = partition.key
    return str(key["topic"]), Queue(str(key["broker"]), int(key["queue"]))


def _names_queue(key: Mapping[str, Any]) -> bool:
    return set(key) == {"topic", "broker", "queue"} and type(key["queue"]) is int


def _key(topic: str, queue: Queue) -> dict[str, str | int]:
    return {"topic": topic, "broker": queue.broker, "queue": queue.number}


def _where(topic: str, queue: Queue) -> str:
    return f"queue {queue.number} of {topic} at {queue.broker}"


def _mark(topic: str, queue: Queue, offset: int) -> Batch:
    return Batch(partition=_key(topic, queue), offset={"offset": offset}, dataset=topic)


def _bad_row(message: RawMessage, error: ConnectorError) -> BadRow:
    return BadRow(message.to_bytes(), error, {"offset": message.offset})


def _damaged(topic: str, offset: int) -> DataError:
    return DataError(
        "rocketmq.damaged",
        f"the body at offset {offset} does not have its checksum, or cannot be decompressed",
        fix="Check the disk of the broker.",
        dataset=topic,
    )


def _invalid(path: str, value: object, fix: str) -> ConfigError:
    return ConfigError("config.invalid_value", f"`{path}` is {value!r}", fix=fix, config_path=path)
