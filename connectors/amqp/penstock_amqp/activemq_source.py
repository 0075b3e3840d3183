"""Messages of a queue or topic as rows. They are acknowledged when their rows are committed."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock_amqp.config import MessageConfig, invalid
from penstock_amqp.connection import Connection, Dialing
from penstock_amqp.frames import Frame, encode_frame
from penstock_amqp.headers import (
    DELETE,
    KEY,
    OP,
    destination_of,
    message_headers,
    message_id,
    millis_of,
    routing_of,
)
from penstock_connector import (
    BadRow,
    Batch,
    ConfigError,
    ConnectorError,
    Partition,
    RawRow,
    SchemaError,
    Source,
    key,
)
from penstock_connector.messages import (
    MESSAGE_SCHEMA,
    OFFSET,
    PARTITION,
    POSITION_SCHEMA,
    DecodedRows,
    MessageDecoder,
)
from penstock_connector.raw_message_reader import read_given_once
from penstock_connector.raw_messages import RawMessage, raw_message

_ID: Final = "JMSMessageID"
"""Header of a message that is kept, with its id."""

_GATHER_S: Final = 0.02
_MAX_PREFETCH: Final = 32_766
"""Messages that Classic sends at most before some are acknowledged."""

_WINDOW_BYTES: Final = 64 << 20
"""Bytes that Artemis sends before some are acknowledged; Classic counts messages."""


@dataclass(frozen=True)
class ActivemqSourceConfig(MessageConfig):
    """Which messages, and how many at once."""

    jms_message_selector: str = key(
        "",
        doc="Condition of JMS on headers of messages, as `colour = 'red' AND size > 3`. Empty: all "
        "messages.",
        group="Reading",
    )
    message_selector: str = key(
        "",
        name="messageSelector",
        doc="As `jms.message.selector`. In configurations of RocketMQ Connect.",
        group="Compatibility",
    )
    jms_subscription_durable: bool = key(
        default=False,
        doc="Whether the broker keeps messages of a topic while the connector is away.",
        group="Reading",
    )
    jms_subscription_name: str = key("", doc="Name of the durable subscription.", group="Reading")
    message_id_column: str = key(
        "",
        doc="Column for the message's id (JMSMessageID), which becomes the key column of the rows: "
        "a sink with keys writes a message that comes twice once. Empty: none.",
        group="Reading",
    )
    kafka_topic: str = key(
        "",
        doc="Dataset of the rows. Empty: the name of the queue or topic; with `destinationName`, "
        "none, so that `connect.topicname` names the topic.",
        group="Reading",
    )
    batch_size: int = key(10_000, doc="Most messages of a batch.", group="Reading")
    max_pending_messages: int = key(
        50_000,
        doc="Messages that are read and not committed yet; no more are asked for.",
        group="Reading",
    )
    max_poll_duration: int = key(
        60_000,
        doc="Milliseconds to gather a batch while messages come. A batch ends before when no "
        "message is there.",
        group="Reading",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if not self.destination:
            raise ConfigError(
                "config.missing",
                "`jms.destination.name` is not set",
                fix="Name a queue or topic.",
                config_path="jms.destination.name",
            )
        if self.jms_message_selector and self.message_selector:
            raise ConfigError(
                "config.conflict",
                "`jms.message.selector` and `messageSelector` mean the same, and both are set",
                fix="Remove `messageSelector`.",
                config_path="jms.message.selector",
            )
        for path, number in (
            ("batch.size", self.batch_size),
            ("max.pending.messages", self.max_pending_messages),
            ("max.poll.duration", self.max_poll_duration),
        ):
            if not 1 <= number <= 1_000_000:
                raise invalid(path, number, "Use a number from 1 to 1000000.")
        if self.jms_subscription_durable != bool(self.jms_subscription_name):
            raise ConfigError(
                "config.conflict" if self.jms_subscription_name else "config.missing",
                "`jms.subscription.durable=true` and `jms.subscription.name` belong together",
                fix="Set both, or remove both.",
                config_path="jms.subscription.name",
            )
        if self.jms_subscription_durable and not self.is_topic:
            raise ConfigError(
                "config.conflict",
                "`jms.subscription.durable` is for topics: a queue keeps its messages",
                fix="Set `jms.destination.type=topic`, or remove the key.",
                config_path="jms.subscription.durable",
            )

    @property
    def selector(self) -> str:
        """The condition; empty: none."""
        return self.jms_message_selector or self.message_selector

    @property
    def client_id(self) -> str:
        """The name of the client; a durable subscription belongs to one."""
        return self.jms_client_id or self.jms_subscription_name

    @property
    def dataset(self) -> str:
        """The dataset of the rows; empty: the key `topic` of the host names it, which is called
        `connect.topicname` by RocketMQ Connect.
        """
        return self.kafka_topic or self.jms_destination_name


@dataclass(frozen=True, slots=True)
class _Unacknowledged:
    """Messages up to a number, and what acknowledges them."""

    end: int
    acknowledgement: bytes


class ActivemqSource(Source[ActivemqSourceConfig]):
    """Messages of a queue or topic of ActiveMQ, Classic or Artemis.

    At least once: the broker forgets a message when its row is committed and not before.
    """

    name = "activemq-source"
    aliases = (
        "ActiveMQSourceConnector",
        "io.confluent.connect.activemq.ActiveMQSourceConnector",
        "org.apache.rocketmq.connect.activemq.connector.ActivemqSourceConnector",
    )
    needs_commit: ClassVar[bool] = True
    replayable: ClassVar[bool] = False

    @classmethod
    def check(cls, config: ActivemqSourceConfig) -> None:
        """Connect, without a name: another connection may have it."""
        Connection.open(_anonymous(config)).close()

    @classmethod
    def plan(
        cls, config: ActivemqSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the queue or topic: one task keeps the order of its messages."""
        kind = "topic" if config.is_topic else "queue"
        return [Partition({kind: config.destination}, datasets=(config.dataset,))]

    @classmethod
    def parse_rows(
        cls, config: ActivemqSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read messages again that could not be read."""
        parts = [_without_id(row) for row in rows]
        messages = [row for row, _ in parts]
        found = read_given_once("activemq", config.open_converters, messages)
        for one, (_, id_) in zip(found, parts, strict=True):
            if config.message_id_column and not isinstance(one, ConnectorError):
                one.rows = _with_ids(config, one.rows, pa.array([id_], pa.string()))
                one.key_columns = (config.message_id_column,)
            yield one

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Subscribe. Where reading goes on is what the broker has: offsets only count messages."""
        config = self.config
        self._ready: deque[Batch] = deque()
        self._arrived: deque[Frame] = deque()
        self._batches: deque[_Unacknowledged] = deque()
        self._count = self._done = 0
        self._session = secrets.token_hex(8)
        self._partition = partitions[0].key if partitions else None
        self._decoder = MessageDecoder("activemq", config.dataset, config.open_converters())
        if self._partition is None:
            return
        self._connection = Connection.open(config.dialing())
        self._connection.send(encode_frame("SUBSCRIBE", self._subscription()))

    def _subscription(self) -> dict[str, str]:
        config = self.config
        is_artemis = self._connection.is_artemis
        headers = {
            "id": "0",
            "destination": destination_of(
                config.destination, is_topic=config.is_topic, is_artemis=is_artemis
            ),
            # of several transactions, Classic keeps apart what is acknowledged one by one
            "ack": "client" if is_artemis else "client-individual",
        }
        if is_artemis:
            headers["subscription-type"] = routing_of(is_topic=config.is_topic)
            headers["consumer-window-size"] = str(_WINDOW_BYTES)
        else:
            headers["activemq.prefetchSize"] = str(min(config.max_pending_messages, _MAX_PREFETCH))
        if config.selector:
            headers["selector"] = config.selector
        if config.jms_subscription_durable:
            name = "durable-subscription-name" if is_artemis else "activemq.subscriptionName"
            headers[name] = config.jms_subscription_name
        return headers

    def read_batch(self) -> Batch | None:
        """Return the next rows."""
        if not self._ready and self._partition is not None:
            self._gather()
            if self._arrived and self._pending_room() > 0:
                self._decode()
        return self._ready.popleft() if self._ready else None

    def wait(self, timeout: float) -> None:
        """Block until there are messages."""
        if self._partition is None or self._pending_room() <= 0:
            self.stopping.wait(min(timeout, 0.05))
        elif not self._ready and not self._arrived:
            self._receive(min(timeout, 0.1))

    def _pending_room(self) -> int:
        return self.config.max_pending_messages - (self._count - self._done)

    def _receive(self, timeout: float) -> bool:
        frames = self._connection.receive(timeout)
        self._arrived.extend(one for one in frames if one.command == "MESSAGE")
        return bool(frames)

    def _gather(self) -> None:
        """Take messages as long as they come, up to a batch."""
        until = time.monotonic() + self.config.max_poll_duration / 1000
        while len(self._arrived) < min(self.config.batch_size, self._pending_room()):
            if not self._receive(_GATHER_S if self._arrived else 0) or time.monotonic() > until:
                return

    def _decode(self) -> None:
        count = min(len(self._arrived), self.config.batch_size, self._pending_room())
        frames = [self._arrived.popleft() for _ in range(count)]
        headers = [one.headers for one in frames]
        self._count += count
        self._promise([one.get("ack", "") for one in headers])
        keys = [one.get(KEY) for one in headers]
        columns = [
            pa.array([None if text is None else text.encode() for text in keys], pa.binary()),
            pa.array(map(_value_of, frames), pa.binary()),
            pa.array(map(millis_of, headers), pa.int64()),
            pa.array(map(message_headers, headers), MESSAGE_SCHEMA.field("headers").type),
        ]
        schema = MESSAGE_SCHEMA
        if self.config.message_id_column:
            schema = POSITION_SCHEMA
            columns += [pa.array(np.zeros(count, np.int32)), pa.array(np.arange(count))]
        messages = pa.RecordBatch.from_arrays(columns, schema=schema)
        decoded, refused = self._decoder.decode(messages)
        ids = pa.array(map(message_id, headers), pa.string())
        batches = [self._batch(one, ids) for one in decoded] or [self._nothing()]
        # a batch has one offset behind its rows, and rejected rows go with the last one
        batches[-1].bad_rows = [
            BadRow(
                _with_id(raw_message(messages, one.index), headers[one.index]).to_bytes(),
                one.error,
                self._offset(),
            )
            for one in refused
        ]
        batches[-1].offset = self._offset()
        self._ready.extend(batches)

    def _promise(self, acks: Sequence[str]) -> None:
        """Remember how a batch is acknowledged. Classic sends no more than a page of messages, 200,
        while none is acknowledged: it is told in a transaction, which ends when the rows are
        durable, and is undone when we are gone. Artemis has no transactions of acknowledgements.
        """
        if self._connection.is_artemis:
            data = encode_frame("ACK", {"id": acks[-1]})
        else:
            within = {"transaction": str(self._count)}
            told = [encode_frame("ACK", {"id": one, **within}) for one in acks]
            self._connection.send(encode_frame("BEGIN", within) + b"".join(told))
            data = encode_frame("COMMIT", within)
        self._batches.append(_Unacknowledged(self._count, data))

    def _offset(self) -> dict[str, Any]:
        return {"session": self._session, "messages": self._count}

    def _nothing(self) -> Batch:
        return Batch(partition=self._partition, dataset=self.config.dataset)

    def _batch(self, decoded: DecodedRows, ids: pa.Array) -> Batch:
        rows, keys = decoded.rows, decoded.key_columns
        if name := self.config.message_id_column:
            of_rows = ids.take(rows.column(OFFSET))
            rows = _with_ids(self.config, rows.drop_columns([PARTITION, OFFSET]), of_rows)
            keys = (name,)
        return Batch(rows, self._partition, dataset=self.config.dataset, key_columns=keys)

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Acknowledge the messages whose rows are durable."""
        done = max(
            (
                int(one["messages"])
                for one in offsets.values()
                if one.get("session") == self._session
            ),
            default=0,
        )
        found: list[bytes] = []
        while self._batches and self._batches[0].end <= done:
            batch = self._batches.popleft()
            self._done = batch.end
            found.append(batch.acknowledgement)
        if found:
            self._connection.send(b"".join(found[-1:] if self._connection.is_artemis else found))

    def close(self) -> None:
        """Leave the broker."""
        if (decoder := getattr(self, "_decoder", None)) is not None:
            decoder.close()
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()


def _value_of(frame: Frame) -> bytes | None:
    """Return the value of a message; None for one that means a deleted row."""
    if not frame.body and frame.headers.get(OP) == DELETE:
        return None
    return frame.body


def _anonymous(config: ActivemqSourceConfig) -> Dialing:
    return replace(config.dialing(), client_id="")


def _with_ids(config: ActivemqSourceConfig, rows: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
    """Return rows with the ids of their messages.

    Raises:
        SchemaError: `activemq.message_id_column`: they have a column of this name.
    """
    name = config.message_id_column
    if name in rows.schema.names:
        raise SchemaError(
            "activemq.message_id_column",
            f"messages of {config.destination!r} have a field {name!r} of their own",
            fix="Set `message.id.column` to another name.",
            dataset=config.dataset,
        )
    return rows.append_column(name, ids)


def _with_id(message: RawMessage, headers: Mapping[str, str]) -> RawMessage:
    """Return a message that is kept with its id, which is no header of rows."""
    id_ = message_id(headers)
    if id_ is None:
        return message
    return replace(message, headers=[*message.headers, (_ID, id_.encode())])


def _without_id(row: RawRow) -> tuple[RawRow, str | None]:
    """Return what was kept without the id of the message, and the id."""
    try:
        message = RawMessage.from_bytes(row.raw)
    except ValueError:
        message = None
    if message is None:
        return row, None
    id_ = dict(message.headers).get(_ID)
    others = [one for one in message.headers if one[0] != _ID]
    row = replace(row, raw=replace(message, headers=others).to_bytes())
    return row, None if id_ is None else id_.decode(errors="replace")
