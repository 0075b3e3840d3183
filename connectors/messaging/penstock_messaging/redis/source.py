"""Entries of streams as rows, by places that the host keeps."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock_connector import (
    Batch,
    CompatibilityKey,
    ConfigError,
    OffsetLostError,
    Partition,
    Source,
    key,
)
from penstock_connector.instants import TIMESTAMP, to_milliseconds
from penstock_messaging.redis.config import RedisConfig, invalid
from penstock_messaging.redis.entries import ColumnDecoder, Entry, EntryDecoder, told_entries
from penstock_messaging.redis.server import Redis
from penstock_messaging.redis.streams import (
    FIRST,
    STARTS,
    Place,
    Stream,
    find_loss,
    id_before,
    is_start,
    next_place,
    parse_id,
    start_place,
)

_log = logging.getLogger(__name__)

_STREAM: Final = "${stream}"
_WAIT_S: Final = 0.2
_MOST_STREAMS: Final = 10_000
"""Streams that a pattern may mean: each has an offset of its own."""

_FIRST_COUNT: Final = 100
"""Entries that are asked for first: nobody knows how large they are."""

_ANSWER_BYTES: Final = 8 << 20
"""Bytes of an answer, about."""

_START: Final = "start"
"""In an offset that a person set: what is gone before it was not lost."""

_GROUPS: Final = ("redis.stream.consumer.group", "redis.stream.consumer.name")


@dataclass(frozen=True)
class RedisSourceConfig(RedisConfig):
    """Which streams, and from where."""

    redis_stream_name: tuple[str, ...] = key(
        (),
        doc="Streams, separated by commas. One that is not there is waited for.",
        group="Reading",
        importance="high",
    )
    redis_stream_pattern: str = key(
        "",
        doc="Pattern of streams instead, as SCAN has it: `orders:*`. Those that come later are "
        "found within 10 s.",
        group="Reading",
    )
    redis_stream_offset: str = key(
        "earliest",
        doc="Where a stream begins that was never read: `earliest`; `latest`; behind the entry of "
        "an id, `1526919030474-55`; at the first entry of the last hour, `by_duration:PT1H`, or of "
        "a time, `timestamp:2026-01-31T12:00:00Z`.",
        group="Reading",
    )
    redis_stream_lost: str = key(
        "fail",
        doc="What to do when entries were trimmed before they were read, or the stream is another "
        "one: `fail`, or `continue` with the oldest entry that is there.",
        choices=("fail", "continue"),
        group="Reading",
    )
    redis_id_column: str = key(
        "",
        doc="Column for the ids of entries, with `redis.entry=message` a header; empty: none.",
        group="Reading",
    )
    topic: str = key(
        _STREAM,
        doc="Dataset of the rows; `${stream}` stands for the name of their stream.",
        group="Reading",
    )
    batch_rows: int = key(5_000, doc="Most entries of a batch.", group="Reading")

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of the Kafka connector of Redis."""
        if name in _GROUPS:
            return CompatibilityKey(why="the host keeps the places: no group is needed")
        if name == "redis.stream.block":
            return CompatibilityKey(why="a task is woken by the next entry")
        if name == "redis.stream.delivery":
            fix = "Remove the key: each entry is read once for each row that is stored."
            why = "an entry is read until its row is stored, and then no more"
            return CompatibilityKey(why=why, fix=fix, refused=value == "at-most-once")
        return super().compatibility_key(name, value)

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if bool(self.redis_stream_name) == bool(self.redis_stream_pattern):
            raise ConfigError(
                "config.conflict" if self.redis_stream_name else "config.missing",
                "`redis.stream.name` or `redis.stream.pattern` must be set, and not both",
                fix="Set `redis.stream.name` to names, or `redis.stream.pattern` to a pattern.",
                config_path="redis.stream.name",
            )
        if not is_start(self.redis_stream_offset):
            raise invalid(
                "redis.stream.offset",
                f"it is {self.redis_stream_offset[:100]!r}",
                f"Write one like {', '.join(STARTS)}.",
            )
        if not self.topic:
            raise invalid("topic", "it is empty", "Name a dataset, or remove the key.")
        if self.redis_id_column.startswith("__"):
            why = "columns that begin with `__` have a meaning of their own"
            raise invalid("redis.id.column", why, "Name another column.")
        if self.batch_rows < 1:
            raise invalid("batch.rows", "it is out of range", "Use a number above 0.")

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = dict(super().unused_keys())
        if self.redis_entry == "columns":
            why = "fields are columns; `redis.entry=message` uses converters"
            found |= dict.fromkeys(self.named_converters(), why)
        return found

    def dataset(self, stream: str) -> str:
        """Return the dataset of a stream."""
        return self.topic.replace(_STREAM, stream)


@dataclass(slots=True)
class _Reader:
    """One stream, how far it is read, and how many entries are asked for at once."""

    name: str
    key: Mapping[str, Any]
    place: Place
    decoder: ColumnDecoder | EntryDecoder
    count: int
    end: Place | None = field(default=None)


class RedisSource(Source[RedisSourceConfig]):
    """Entries of Redis's streams as rows.

    A stream is a partition; its offset is the id of the last entry whose row is stored. Entries
    that were trimmed before they were read are noticed.
    """

    name = "redis-source"
    aliases = (
        "RedisStreamSourceConnector",
        "com.redis.kafka.connect.RedisStreamSourceConnector",
    )
    monitor_every = 10.0

    @classmethod
    def check(cls, config: RedisSourceConfig) -> None:
        """Log in, and look at the streams."""
        redis = Redis(config)
        try:
            redis.connect()
            for name in _names(config, redis):
                _look(redis, name)
        finally:
            redis.close()

    @classmethod
    def plan(
        cls, config: RedisSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the streams."""
        if config.redis_stream_name:
            names = sorted(set(config.redis_stream_name))
        else:
            redis = Redis(config)
            try:
                redis.connect()
                names = _names(config, redis)
            finally:
                redis.close()
        return [Partition({"stream": name}, datasets=(config.dataset(name),)) for name in names]

    @classmethod
    def monitored(cls, config: RedisSourceConfig, max_tasks: int) -> bool:
        """Return whether streams may be found later."""
        return bool(config.redis_stream_pattern)

    @classmethod
    def alter_offsets(
        cls, config: RedisSourceConfig, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Refuse offsets that are no ids; times become ids."""
        return [_altered(partition) for partition in partitions]

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Read on from the places of the streams."""
        config = self.config
        self._pending: deque[Batch] = deque()
        self._readers: dict[bytes, _Reader] = {}
        self._redis = Redis(config, self.stopping.wait)
        self._redis.connect()
        for partition in partitions:
            name = str(partition.key["stream"])
            if partition.offset is None or partition.offset.get(_START):
                start = str((partition.offset or {}).get("id", config.redis_stream_offset))
                place = start_place(start, _look(self._redis, name), time.time())
                # durable before any row: a restart must not decide again
                offset = place.offset()
                self._pending.append(
                    Batch(partition=partition.key, offset=offset, dataset=config.dataset(name))
                )
            else:
                place = Place.of(partition.offset)
            count = min(_FIRST_COUNT, config.batch_rows)
            reader = _Reader(name, partition.key, place, self._decoder(name), count)
            self._readers[name.encode()] = reader
        self._ready = deque(self._readers.values())

    def _decoder(self, stream: str) -> ColumnDecoder | EntryDecoder:
        config = self.config
        dataset = config.dataset(stream)
        if config.redis_entry == "columns":
            return ColumnDecoder(dataset, config.redis_id_column)
        return EntryDecoder(dataset, config.redis_id_column, config.open_converters())

    def read_batch(self) -> Batch | None:
        """Return entries of one stream; those that have some take turns."""
        while not self._pending and self._ready:
            reader = self._ready.popleft()
            if self._read(reader):
                self._ready.append(reader)
        return self._pending.popleft() if self._pending else None

    def wait(self, timeout: float) -> None:
        """Block until a stream has entries."""
        if self._ready or not self._readers:
            self.stopping.wait(min(timeout, _WAIT_S))
            return
        seconds = min(timeout, _WAIT_S, self.config.redis_timeout / 2)
        block_ms = max(1, int(seconds * 1000))
        places = [str(reader.place.after) for reader in self._readers.values()]
        command = ("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *self._readers, *places)
        for name, _ in self._redis.ask(*command) or ():
            self._ready.append(self._readers[name])

    def _read(self, reader: _Reader) -> bool:
        """Read what comes next; returns whether there may be more. What the server tells of the
        stream is of the same moment as the entries.
        """
        count = reader.count
        told, answer = self._redis.ask_all(
            [
                ("XINFO", "STREAM", reader.name),
                ("XREAD", "COUNT", count, "STREAMS", reader.name, str(reader.place.after)),
            ],
            atomic=True,
        )
        stream = Stream.told(told)
        if loss := find_loss(reader.place, stream):
            self._pass_over(reader, stream or Stream(), loss)
            return True
        if stream is None or not answer:
            return False
        raw = answer[0][1]
        entries = told_entries(raw)
        last = parse_id(raw[-1][0].decode()) or FIRST
        is_end = len(raw) < count
        reader.count = next_count(count, entries, self.config.batch_rows)
        reader.place = next_place(reader.place, stream, last, len(raw), is_end=is_end)
        decoded = reader.decoder.decode(entries)
        batches = decoded.batches or [Batch(dataset=self.config.dataset(reader.name))]
        for batch in batches:
            batch.partition = reader.key
        batches[-1].bad_rows = decoded.bad
        batches[-1].offset = reader.place.offset()
        self._pending.extend(batches)
        return not is_end

    def _pass_over(self, reader: _Reader, stream: Stream, loss: str) -> None:
        """Go on behind what is lost, where that is wanted.

        Raises:
            OffsetLostError: `redis.offset_lost`.
        """
        message = f"the stream {reader.name!r} was read up to {reader.place.after}: {loss}"
        if self.config.redis_stream_lost == "fail":
            raise OffsetLostError(
                "redis.offset_lost",
                message,
                fix="Set `redis.stream.lost=continue` to go on with what is there, or keep more "
                "entries (MAXLEN).",
                config_path="redis.stream.lost",
                dataset=self.config.dataset(reader.name),
            )
        _log.warning("[redis.offset_lost] %s", message)
        self.metrics.add("streams_lost_total", 1)
        reader.place = Place(FIRST, stream.gone)
        self._pending.append(
            Batch(
                partition=reader.key,
                offset=reader.place.offset(),
                dataset=self.config.dataset(reader.name),
            )
        )

    def caught_up(self) -> bool:
        """Return whether each stream was read as far as it went at the first question."""
        for reader in self._readers.values():
            if reader.end is None:
                answer = self._redis.ask("XREVRANGE", reader.name, "+", "-", "COUNT", 1)
                found = told_entries(answer)
                reader.end = Place(found[0].id if found else FIRST)
        return not self._pending and all(
            reader.end is not None and reader.place.after >= reader.end.after
            for reader in self._readers.values()
        )

    def close(self) -> None:
        """Leave the server."""
        if (redis := getattr(self, "_redis", None)) is not None:
            redis.close()
        for reader in getattr(self, "_readers", {}).values():
            reader.decoder.close()


def next_count(asked: int, entries: Sequence[Entry], most: int) -> int:
    """Return how many entries are asked for next, by the bytes of those that came."""
    size = sum(len(part) for entry in entries for part in entry.parts)
    fitting = max(1, len(entries)) * _ANSWER_BYTES // max(1, size)
    return max(1, min(2 * asked, fitting, most))


def _look(redis: Redis, name: str) -> Stream | None:
    (told,) = redis.ask_all([("XINFO", "STREAM", name)])
    return Stream.told(told)


def _names(config: RedisSourceConfig, redis: Redis) -> list[str]:
    """Return the names of the streams."""
    if config.redis_stream_name:
        return sorted(set(config.redis_stream_name))
    found: set[bytes] = set()
    cursor: bytes | None = b"0"
    while cursor is not None:
        pattern = config.redis_stream_pattern
        following, keys = redis.ask(
            "SCAN", cursor, "MATCH", pattern, "COUNT", 1000, "TYPE", "stream"
        )
        found.update(keys)
        cursor = following if following != b"0" else None
        if len(found) > _MOST_STREAMS:
            raise ConfigError(
                "redis.too_many_streams",
                f"`redis.stream.pattern` means more than {_MOST_STREAMS} streams",
                fix="Write a narrower pattern, and make a connector for each.",
                config_path="redis.stream.pattern",
            )
    names = []
    for raw in found:
        try:
            names.append(raw.decode())
        except UnicodeDecodeError:
            _log.warning("[redis.not_text] the stream %r is left out: its name is no text", raw)
    return sorted(names)


def _altered(partition: Partition) -> Partition:
    offset = partition.offset
    if offset is None:
        return partition
    if TIMESTAMP in offset:
        before = id_before(to_milliseconds(offset[TIMESTAMP]))
        return replace(partition, offset={"id": str(before), _START: True})
    if parse_id(str(offset.get("id", ""))) is None or offset.keys() - {"id", "count", _START}:
        raise ConfigError(
            "config.invalid_value",
            f"{str(dict(offset))[:200]} is no place in a stream",
            fix='Write {"id": "1526919030474-55"}, or {"timestamp": "2026-01-31T12:00:00Z"}.',
        )
    # the count is the server's, and that of another place would mean a loss
    return replace(partition, offset={"id": str(offset["id"]), _START: True})
