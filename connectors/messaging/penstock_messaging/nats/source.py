"""Messages of a JetStream stream as rows. They are acknowledged when their rows are committed."""

from __future__ import annotations

import hashlib
import itertools
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from penstock_connector import (
    ApplyAction,
    BadRow,
    Batch,
    ConfigError,
    ConnectorError,
    Partition,
    RawRow,
    RetriableError,
    Source,
    key,
)
from penstock_connector.connection import CONNECT_WITHIN_S, Retry
from penstock_connector.instants import to_milliseconds
from penstock_connector.messages import HEADERS_TYPE, MESSAGE_SCHEMA, MessageDecoder
from penstock_connector.raw_message_reader import read_given_once
from penstock_connector.raw_messages import raw_message
from penstock_messaging.nats.config import NatsConfig, conflict, invalid
from penstock_messaging.nats.connection import Connection
from penstock_messaging.nats.consumer import ALL_SUBJECTS, PULL_S, Begin, Consumer
from penstock_messaging.nats.jetstream import JetStream, require_stream
from penstock_messaging.nats.protocol import (
    Frame,
    Place,
    decode_headers,
    overlap,
    place_of,
    problem_of_subject,
    status_of,
)

_log = logging.getLogger(__name__)

STREAM: Final = "nats.stream"
SEQUENCE: Final = "nats.sequence"
"""Headers of rows that say where their message is."""

_OPERATION: Final = "KV-Operation"
_REMOVALS: Final = frozenset({b"DEL", b"PURGE"})
"""What the header of a key-value bucket's message says where it removes its key."""

_MAX_FILTERS: Final = 200
_PULL_BYTES: Final = 32 << 20
"""Bytes that all consumers of a task ask for at once, unless one message may have more."""

_MAX_PENDING: Final = 1_000_000
_WAIT_S: Final = 0.1
_ADVANCE_S: Final = 60.0
"""Seconds between offsets of a partition without messages. Shorter: more requests of idle tasks;
longer: a stream that drops old messages may overtake an offset, which then looks like a loss."""

_BACKOFF: Final = Retry(attempts=1_000_000, backoff_s=0.05, max_backoff_s=5.0, jitter=True)


@dataclass(frozen=True)
class NatsSourceConfig(NatsConfig):
    """Which messages, and from where on."""

    nats_filter_subjects: tuple[str, ...] = key(
        (),
        doc="Filters of subjects, separated by commas: `*` is any token, `>` all that follow. Each "
        "is a partition with a consumer of its own, and they must not overlap. Empty: all "
        "messages, in one partition.",
        group="Reading",
    )
    nats_consumer: str = key(
        "",
        doc="Name of the durable consumer; with filters, each adds a hash of itself. Empty: "
        "`penstock-` and a hash of the stream and the dataset. Two connectors must not have the "
        "same.",
        group="Reading",
    )
    nats_deliver_policy: str = key(
        "all",
        doc="Where reading begins without an offset: `all`, `new` messages, the `last` one, "
        "`by_start_sequence` or `by_start_time`.",
        choices=("all", "new", "last", "by_start_sequence", "by_start_time"),
        group="Reading",
    )
    nats_start_sequence: int = key(
        0, doc="Number of the first message, for `by_start_sequence`.", group="Reading"
    )
    nats_start_time: str = key(
        "",
        doc="Time of the first message, for `by_start_time`: `2026-01-31T12:00:00Z`.",
        group="Reading",
    )
    nats_messages_lost: str = key(
        "fail",
        doc="What to do when messages behind the offset were removed before they were read: "
        "`fail`, or `continue` with those that are there.",
        choices=("fail", "continue"),
        group="Reading",
    )
    nats_max_ack_pending: int = key(
        50_000,
        doc="Most messages of a partition that are read and not committed yet.",
        group="Reading",
    )
    dataset: str = key(
        "", doc="Dataset of the rows. Empty: the name of the stream.", group="Reading"
    )
    batch_rows: int = key(5_000, doc="Most messages of a batch.", group="Reading")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        self._check_filters()
        name = self.nats_consumer
        if name and (set(" .*>/\\") & set(name) or not name.isprintable()):
            why = f"{name[:200]!r} has dots, spaces, wildcards or slashes"
            raise invalid("nats.consumer", why, "Use letters, digits, `-` and `_`.")
        for path, value, most in (
            ("nats.max.ack.pending", self.nats_max_ack_pending, _MAX_PENDING),
            ("batch.rows", self.batch_rows, _MAX_PENDING),
        ):
            if not 1 <= value <= most:
                raise invalid(path, "it is out of range", f"Use a number from 1 to {most}.")
        self._check_begin()

    def _check_filters(self) -> None:
        filters = self.filters
        for one in filters:
            if problem := problem_of_subject(one, is_filter=True):
                why = f"{one[:200]!r} is not a filter of subjects: {problem}"
                raise invalid("nats.filter.subjects", why, "Write filters as `orders.*.new`.")
        if len(filters) > _MAX_FILTERS:
            why = f"it has more than {_MAX_FILTERS} filters"
            raise invalid("nats.filter.subjects", why, "Use wildcards.")
        for one, other in itertools.combinations(filters, 2):
            if overlap(one, other):
                why = f"{one[:200]!r} and {other[:200]!r} overlap: rows would come twice"
                raise invalid("nats.filter.subjects", why, "Remove one of the two.")

    def _check_begin(self) -> None:
        policy = self.nats_deliver_policy
        for path, is_set, wanted in (
            ("nats.start.sequence", bool(self.nats_start_sequence), "by_start_sequence"),
            ("nats.start.time", bool(self.nats_start_time), "by_start_time"),
        ):
            if is_set and policy != wanted:
                raise conflict(
                    path,
                    f"`{path}` has no effect with `nats.deliver.policy={policy}`",
                    f"Set `nats.deliver.policy={wanted}`, or remove `{path}`.",
                )
            if policy == wanted and not is_set:
                message = f"`nats.deliver.policy={policy}` needs `{path}`"
                raise conflict(path, message, f"Set `{path}`.")
        if self.nats_start_sequence < 0:
            raise invalid("nats.start.sequence", "it is below 0", "Use a number above 0.")
        if self.nats_start_time:
            self._start_time()

    def _start_time(self) -> str:
        try:
            milliseconds = to_milliseconds(self.nats_start_time)
        except ConfigError as error:
            raise invalid("nats.start.time", error.message, error.fix) from None
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters, each once; all messages without one."""
        return tuple(dict.fromkeys(self.nats_filter_subjects)) or (ALL_SUBJECTS,)

    @property
    def rows_dataset(self) -> str:
        """The dataset of the rows."""
        return self.dataset or self.nats_stream

    def consumer_name(self, subject: str) -> str:
        """Return the name of the consumer of a filter."""
        name = self.nats_consumer
        if not name:
            name = f"penstock-{_hash(repr((self.nats_stream, self.rows_dataset)))}"
        return name if subject == ALL_SUBJECTS else f"{name}-{_hash(subject)}"

    def begin(self) -> Begin:
        """Return what consumers are created with."""
        policy: dict[str, Any] = {"deliver_policy": self.nats_deliver_policy}
        if self.nats_start_sequence:
            policy["opt_start_seq"] = self.nats_start_sequence
        if self.nats_start_time:
            policy["opt_start_time"] = self._start_time()
        return Begin(policy, self.nats_max_ack_pending, self.nats_messages_lost == "continue")

    def partition(self, subject: str) -> Partition:
        """Return the partition of a filter."""
        found = {"stream": self.nats_stream, "subject": subject}
        return Partition(found, datasets=(self.rows_dataset,))


class NatsSource(Source[NatsSourceConfig]):
    """Messages of a JetStream stream as rows.

    Offsets are the numbers of messages in the stream: after a crash, reading goes on behind the
    last committed one. A durable pull consumer shows the server what is read; it is told when rows
    are committed, and not before.
    """

    name = "nats-source"
    needs_commit = True

    @classmethod
    def check(cls, config: NatsSourceConfig) -> None:
        """Connect, and look for the stream."""
        require_stream(config)

    @classmethod
    def plan(
        cls, config: NatsSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the filters: the order of messages is kept in each."""
        return [config.partition(one) for one in config.filters]

    @classmethod
    def alter_offsets(
        cls, config: NatsSourceConfig, partitions: Sequence[Partition], *, dry_run: bool
    ) -> Sequence[Partition]:
        """Refuse offsets that are no numbers of messages."""
        ids = {config.partition(one).id for one in config.filters}
        for one in partitions:
            if one.id not in ids and one.offset is not None:
                raise ConfigError(
                    "config.invalid_value",
                    f"{one.id[:500]} is not a partition of this connector",
                    fix=f"Use one of its {len(ids)}: {min(ids)}.",
                )
            number = (one.offset or {"sequence": 0}).get("sequence")
            is_known = set(one.offset or ()) <= {"sequence", "created"}
            if type(number) is not int or number < 0 or not is_known:
                raise ConfigError(
                    "config.invalid_value",
                    f"{str(one.offset)[:200]} is not an offset of a stream",
                    fix='Write the number of the last message that is read: {"sequence": 41}.',
                )
        return partitions

    @classmethod
    def apply_action(
        cls, config: NatsSourceConfig, action: ApplyAction, *, last: NatsSourceConfig | None = None
    ) -> Sequence[str]:
        """Delete the consumers of a connector that is deleted, or does not use them any more."""
        if action == ApplyAction.DELETE:
            return _delete_consumers(config, _consumer_names(config))
        if action == ApplyAction.UPDATE and last is not None:
            kept = _consumer_names(config) if last.nats_stream == config.nats_stream else set()
            return _delete_consumers(last, _consumer_names(last) - kept)
        return ()

    @classmethod
    def parse_rows(
        cls, config: NatsSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read messages again that could not be read."""
        return read_given_once("nats", config.open_converters, rows)

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Create the consumers where the offsets are."""
        config = self.config
        self._ready: deque[Batch] = deque()
        self._connection: Connection | None = None
        self._consumers: dict[str, Consumer] = {}
        self._turns: deque[tuple[Partition, Consumer]] = deque()
        self._down_since: float | None = None
        self._next_try, self._tries = 0.0, 0
        self._looked_at = time.monotonic()
        self._decoder = MessageDecoder("nats", config.rows_dataset, config.open_converters())
        for number, partition in enumerate(partitions):
            subject = str(partition.key["subject"])
            name, inbox = config.consumer_name(subject), f"c{number}"
            consumer = Consumer(name, config.nats_stream, subject, config.begin(), inbox)
            if (offset := partition.offset) is not None:
                consumer.committed = int(offset["sequence"])
                consumer.created = str(offset.get("created", ""))
            self._consumers[name] = consumer
            self._turns.append((partition, consumer))
        within = min(CONNECT_WITHIN_S, config.nats_retry_timeout)
        retry = Retry(_BACKOFF.attempts, _BACKOFF.backoff_s, _BACKOFF.max_backoff_s, within)
        retry.call(self._open, self.stopping.wait, self._drop)
        for partition, consumer in self._turns:  # where it begins is durable before the first row
            offset = consumer.offset(consumer.committed or 0)
            if partition.offset != offset:
                self._ready.append(Batch(partition=partition, offset=offset))

    def _open(self) -> None:
        """Connect, and create the consumers."""
        self._connection = Connection.open(self.config.dialing())
        self._jetstream = JetStream(self.config, self._connection)
        stream = self._jetstream.stream()
        for consumer in self._consumers.values():
            consumer.create(self._jetstream, stream)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.drop()
            self._connection = None

    def read_batch(self) -> Batch | None:
        """Return messages of one partition; partitions take turns."""
        if not self._ready and self._consumers:
            self._move(0)
            self._decode()
        return self._ready.popleft() if self._ready else None

    def wait(self, timeout: float) -> None:
        """Block until there are messages."""
        if self._connection is None or not self._consumers:
            self.stopping.wait(min(timeout, _WAIT_S))
        elif not any(one.arrived for one in self._consumers.values()):
            self._move(min(timeout, _WAIT_S))

    def _move(self, timeout: float) -> None:
        """Take what comes within some seconds. A connection that breaks is opened again."""
        try:
            if self._connection is None:
                if time.monotonic() < self._next_try:
                    return
                self._open()
            self._receive(timeout)
        except RetriableError as error:
            self._break(error)

    def _receive(self, timeout: float) -> None:
        connection = self._connection
        assert connection is not None  # noqa: S101 - `_move` opened it
        rows, size = self.config.batch_rows, _PULL_BYTES // len(self._consumers)
        for consumer in self._consumers.values():
            consumer.pull(self._jetstream, connection, rows, size)
        frames = connection.receive(timeout)
        for frame in frames:
            self._dispatch(frame, connection.inbox)
        if frames:
            self._down_since = None
            self._tries = 0
        else:
            connection.require_life(PULL_S + self.config.nats_request_timeout)

    def _dispatch(self, frame: Frame, inbox: str) -> None:
        """Give a frame to its consumer: messages have the subject that they were published to."""
        if (place := place_of(frame.reply)) is not None:
            if (found := self._consumers.get(place.consumer)) is not None:
                found.take(place, frame)
            return
        request = frame.subject.removeprefix(f"{inbox}.")
        for consumer in self._consumers.values():
            if request.startswith(f"{consumer.inbox}."):
                consumer.end_pull(self._jetstream, request, *status_of(frame.headers))

    def _break(self, error: RetriableError) -> None:
        """Leave a connection that broke; raise the error when that lasts."""
        self._drop()
        now = time.monotonic()
        self._down_since = now if self._down_since is None else self._down_since
        is_late = now - self._down_since > self.config.nats_retry_timeout
        if error.code == "nats.consumer_deleted" or is_late:
            raise error
        self._tries += 1
        self._next_try = now + _BACKOFF.pause_s(self._tries)
        _log.warning("[%s] %s; it is connected again", error.code, error.message)

    def _decode(self) -> None:
        for _ in range(len(self._turns)):
            partition, consumer = self._turns[0]
            self._turns.rotate(-1)
            if found := consumer.take_new(self.config.batch_rows):
                self._ready.extend(self._batches(partition, consumer, found))
                return
            self._acknowledge(consumer)  # what came again and is committed
        now = time.monotonic()
        if self._connection is not None and now - self._looked_at > _ADVANCE_S:
            self._looked_at = now
            self._advance()

    def _advance(self) -> None:
        """Give offsets of partitions whose messages ended while those of other subjects came."""
        try:
            for partition, consumer in self._turns:
                is_filter = consumer.subject != ALL_SUBJECTS
                if is_filter and consumer.is_idle:
                    number = consumer.advance(self._jetstream)
                    if number is not None:
                        batch = Batch(partition=partition, offset=consumer.offset(number))
                        self._ready.append(batch)
        except RetriableError as error:
            self._break(error)

    def _batches(
        self, partition: Partition, consumer: Consumer, found: Sequence[tuple[Place, Frame]]
    ) -> list[Batch]:
        headers = [decode_headers(frame.headers) for _, frame in found]
        values = [
            None if _is_removal(told) else frame.payload
            for told, (_, frame) in zip(headers, found, strict=True)
        ]
        stream = self.config.nats_stream.encode()
        for told, (place, _) in zip(headers, found, strict=True):
            told += [(STREAM, stream), (SEQUENCE, b"%d" % place.sequence)]
        messages = pa.RecordBatch.from_arrays(
            [
                pa.array([frame.subject.encode() for _, frame in found], pa.binary()),
                pa.array(values, pa.binary()),
                pa.array([place.time_ns // 1_000_000 for place, _ in found], pa.int64()),
                pa.array(headers, HEADERS_TYPE),
            ],
            schema=MESSAGE_SCHEMA,
        )
        decoded, refused = self._decoder.decode(messages)
        dataset = self.config.rows_dataset
        batches = [
            Batch(one.rows, partition, dataset=dataset, key_columns=one.key_columns)
            for one in decoded
        ] or [Batch(partition=partition, dataset=dataset)]
        batches[-1].bad_rows = [
            BadRow(
                raw_message(messages, one.index).to_bytes(),
                one.error,
                consumer.offset(found[one.index][0].sequence),
            )
            for one in refused
        ]
        batches[-1].offset = consumer.offset(consumer.read)
        return batches

    def caught_up(self) -> bool:
        """Return whether all was given that was there when the task connected."""
        return not self._ready and all(
            one.is_caught_up and not one.arrived for one in self._consumers.values()
        )

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Acknowledge the messages whose rows are durable."""
        for partition, consumer in self._turns:
            if (offset := offsets.get(partition.id)) is not None:
                self._acknowledge(consumer, int(offset["sequence"]))

    def _acknowledge(self, consumer: Consumer, number: int | None = None) -> None:
        if self._connection is None:
            consumer.committed = max(consumer.committed or 0, number or 0)
            return
        try:
            consumer.acknowledge(self._connection, number)
        except RetriableError as error:
            self._break(error)

    def close(self) -> None:
        """Leave the server; the consumers stay."""
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()
        if (decoder := getattr(self, "_decoder", None)) is not None:
            decoder.close()


def _is_removal(headers: Iterable[tuple[str, bytes]]) -> bool:
    """Return whether a message removes a key of a key-value bucket."""
    return any(name == _OPERATION and value in _REMOVALS for name, value in headers)


def _consumer_names(config: NatsSourceConfig) -> set[str]:
    return {config.consumer_name(one) for one in config.filters}


def _delete_consumers(config: NatsSourceConfig, names: Iterable[str]) -> list[str]:
    """Delete consumers; return what was done."""
    connection = Connection.open(config.dialing())
    try:
        jetstream = JetStream(config, connection)
        deleted = [one for one in sorted(names) if jetstream.delete_consumer(one)]
    except ConfigError as error:
        if error.code != "nats.no_stream":
            raise
        return []  # its consumers went with it
    finally:
        connection.close()
    return [f"deleted the consumer {one}" for one in deleted]


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
