"""Rows as messages, at least once: a broker's transaction has them when theirs is prepared."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_amqp.config import MessageConfig, invalid
from penstock_amqp.connection import Connection
from penstock_amqp.frames import encode_frame, escape
from penstock_amqp.headers import (
    DELETE,
    ID,
    OP,
    InvalidHeaderError,
    destination_of,
    encode_row_headers,
    routing_of,
)
from penstock_connector import (
    CommitMode,
    CompatibilityKey,
    ConnectorError,
    DataError,
    SchemaError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector import Op as Change
from penstock_connector.dead_letters import DeadLetterEncoder, put_in_pieces
from penstock_connector.messages import OP as OP_COLUMN
from penstock_connector.messages import Converters, MessageEncoder, columns_of, has_columns
from penstock_connector.staging import Spill, SpillStaging, without_rejected

_MEMORY_BYTES: Final = 256 << 20
"""Messages in memory that wait for their transaction; more go to a file."""

_SEND_BYTES: Final = 1 << 20
"""Bytes that are given to the socket at once."""

_NO_SLOT: Final = -1
"""Instead of a slot, for schemas without rows."""

_STAGED: Final = pa.schema([pa.field("headers", pa.binary()), pa.field("body", pa.binary())])
"""Messages that wait."""


@dataclass(frozen=True)
class ActivemqSinkConfig(MessageConfig):
    """Where messages go, and how."""

    message_type: str = key(
        "text",
        doc="What messages are in JMS: `text` (TextMessage), whose values are texts in UTF-8, or "
        "`bytes` (BytesMessage).",
        choices=("text", "bytes"),
        group="Writing",
    )
    message_persistent: bool = key(
        default=True, doc="Whether a broker keeps messages on its disk.", group="Writing"
    )
    message_priority: int = key(
        4, doc="Priority, from 0 to 9 for the most urgent.", group="Writing"
    )
    message_ttl: float = key(
        0.0,
        doc="Time after which a broker drops a message that nobody has read; 0: never.",
        type="duration",
        group="Writing",
    )
    max_message_size: int = key(
        64 << 20, doc="Bytes of the largest message.", type="size", group="Writing"
    )
    transaction_max_rows: int = key(
        10_000,
        doc="Messages of a transaction of the broker, which keeps it in its memory. A larger "
        "transaction of rows becomes several, one after the other.",
        group="Writing",
    )
    jms_forward_kafka_key: bool = key(
        default=True, doc="Whether messages have the key of their row.", group="Writing"
    )
    jms_forward_kafka_headers: bool = key(
        default=True, doc="Whether messages have the headers of their row.", group="Writing"
    )
    dead_letters: str = key(
        "",
        doc="`rows`: rows are dead letters, and messages have the bytes that could not be read. "
        "For `errors.deadletterqueue.sink.dead.letters`.",
        choices=("", "rows"),
        group="Writing",
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of Confluent's connector."""
        if name == "jms.message.format":
            return CompatibilityKey(
                "the converter of values says how rows are written",
                "Set `value.converter` to `json`, `string` or `avro` instead.",
                refused=True,
            )
        if name == "jms.forward.kafka.metadata":
            is_off = value.strip().lower() == "false"
            return CompatibilityKey(
                "" if is_off else "rows have no place in Kafka", "Remove it.", refused=not is_off
            )
        return super().compatibility_key(name, value)

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        for path, value, is_valid, fix in (
            ("message.priority", self.message_priority, 0 <= self.message_priority <= 9,
             "Use a number from 0 to 9."),
            ("message.ttl", self.message_ttl, self.message_ttl >= 0, "Use a time, or 0."),
            ("max.message.size", self.max_message_size, 1024 <= self.max_message_size <= 100 << 20,
             "Use 1KiB to 100MiB."),
            ("transaction.max.rows", self.transaction_max_rows,
             1 <= self.transaction_max_rows <= 1_000_000, "Use a number from 1 to 1000000."),
        ):  # fmt: skip
            if not is_valid:
                raise invalid(path, value, fix)

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = dict(super().unused_keys())
        if self.dead_letters:
            why = "with `dead.letters`, messages have the bytes that they had"
            found |= dict.fromkeys(self.named_converters(), why)
        if self.jms_client_id:
            found["jms.client.id"] = "only a durable subscription belongs to a client"
        return found

    def destination_for(self, dataset: str) -> str:
        """Return the queue or topic of a dataset."""
        return (self.destination or "${dataset}").replace("${dataset}", dataset)


_Encoder: TypeAlias = MessageEncoder | DeadLetterEncoder


class MessageStaging(SpillStaging[pa.RecordBatch]):
    """Messages of a slot, in memory or a file, that are not sent yet."""

    def __init__(
        self, destination: str, config: ActivemqSinkConfig, encoder: _Encoder, spill: Spill
    ) -> None:
        super().__init__(spill)
        self.destination, self._config, self._encoder = destination, config, encoder

    def put(self, rows: pa.RecordBatch) -> Sequence[tuple[int, Any]]:
        """Keep the messages of rows, but for those that have none."""
        if isinstance(self._encoder, DeadLetterEncoder):
            return put_in_pieces(rows, self._put)
        return self._put(rows)

    def _put(self, rows: pa.RecordBatch) -> list[tuple[int, Any]]:
        messages, bad = self._encoder.encode(rows)
        refused: dict[int, ConnectorError] = {}
        for one in bad:
            refused.setdefault(one.index, one.error)
        bodies = [value or b"" for value in messages.column("value").to_pylist()]
        lines = self._lines(messages, _deletes(rows), refused)
        limit, is_text = self._config.max_message_size, self._config.message_type == "text"
        for index, body in enumerate(bodies):
            if len(body) + len(lines[index]) > limit:
                refused.setdefault(index, _too_large(len(body) + len(lines[index]), limit))
            elif is_text and not _is_text(body):
                refused.setdefault(index, _not_text())
        staged = pa.RecordBatch.from_arrays(
            [pa.array(lines, pa.binary()), pa.array(bodies, pa.binary())], schema=_STAGED
        )
        rejected = sorted(refused.items())
        self.add_batch(without_rejected(staged, rejected))
        return rejected

    def _lines(
        self, messages: pa.RecordBatch, dead: Sequence[bool], refused: dict[int, ConnectorError]
    ) -> list[bytes]:
        total = messages.num_rows
        keys: list[Any] = [None] * total
        headers: list[Any] = [None] * total
        if self._config.jms_forward_kafka_key:
            keys = messages.column("key").to_pylist()
        column = messages.column("headers")
        if self._config.jms_forward_kafka_headers and column.null_count < total:
            headers = column.to_pylist()
        deleted = b"%s:%s\n" % (OP.encode(), DELETE.encode())
        found: list[bytes] = []
        for index in range(total):
            line = b""
            if index not in refused:
                try:
                    line = encode_row_headers(keys[index], headers[index])
                except InvalidHeaderError as error:
                    refused[index] = error.error
            found.append(line + deleted if dead[index] else line)
        return found


class ActivemqSink(TransactionalSink[ActivemqSinkConfig]):
    """Rows as messages of ActiveMQ's queues and topics, in transactions of the broker.

    At least once: after a crash, or an answer that did not come, rows are sent again.
    """

    name = "activemq-sink"
    aliases = ("ActiveMqSinkConnector", "io.confluent.connect.jms.ActiveMqSinkConnector")
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.HOST,)

    @classmethod
    def check(cls, config: ActivemqSinkConfig) -> None:
        """Connect to the broker."""
        Connection.open(config.dialing()).close()

    def connect(self, task_id: str, epoch: int) -> None:
        """Get ready to send."""
        self._task_id = task_id
        self._key_columns: dict[str, tuple[str, ...]] = {}
        self._converters: dict[int, Converters] = {}
        self.reports_columns = not self.config.dead_letters and has_columns(
            self._slot_converters(_NO_SLOT).value
        )
        self._spill = Spill(_MEMORY_BYTES, "activemq.memory", "activemq.spill_failed")
        self._connection = Connection.open(self.config.dialing())

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the newest columns of a destination, where a schema registry has them."""
        return columns_of(
            self._slot_converters(_NO_SLOT).value, self.config.destination_for(dataset)
        )

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Compare rows with what converters can write; brokers create queues by themselves."""
        destination = self.config.destination_for(dataset)
        if not destination or any(sign in destination for sign in "\r\n\x00"):
            raise SchemaError(
                "activemq.destination",
                f"{destination!r} cannot be the name of a queue or topic",
                fix="Set `jms.destination.name`.",
                dataset=dataset,
            )
        self._key_columns[dataset] = tuple(key_columns)
        self._encoder(_NO_SLOT, dataset, schema).encode(pa.RecordBatch.from_pylist([], schema))
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for messages that are not sent yet."""
        encoder = self._encoder(slot, dataset, schema)
        destination = self.config.destination_for(dataset)
        return MessageStaging(destination, self.config, encoder, self._spill)

    def _encoder(self, slot: int, dataset: str, schema: pa.Schema) -> _Encoder:
        """Return what makes messages of rows. A slot keeps its converters, which remember
        schemas.
        """
        if self.config.dead_letters:
            return DeadLetterEncoder("activemq", dataset, schema, None)
        keys = self._key_columns.get(dataset, ())
        destination = self.config.destination_for(dataset)
        return MessageEncoder("activemq", destination, schema, keys, self._slot_converters(slot))

    def _slot_converters(self, slot: int) -> Converters:
        if slot not in self._converters:
            self._converters[slot] = self.config.open_converters()
        return self._converters[slot]

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Send all messages: brokers have them before the host has the offsets (invariant 1)."""
        waiting: list[tuple[bytes, bytes, bytes]] = []
        number, most = 0, self.config.transaction_max_rows
        for staging in staged:
            assert isinstance(staging, MessageStaging)  # noqa: S101 - `stage` made it
            head = self._head(staging.destination)
            for part in staging.parts():
                for lines, body in zip(*(one.to_pylist() for one in part.columns), strict=True):
                    number += 1
                    name = row_id(self._task_id, txn_id, number, lines, body)
                    own = b"%s%s:%s\n" % (lines, ID.encode(), name)
                    waiting.append((head, own, body))
                    if len(waiting) == most:
                        self._send(waiting)
                        waiting = []
        if waiting:
            self._send(waiting)
        for staging in staged:
            staging.discard()
        return b""

    def _head(self, destination: str) -> bytes:
        """Return the beginning of messages to a destination."""
        config, is_artemis = self.config, self._connection.is_artemis
        name = destination_of(destination, is_topic=config.is_topic, is_artemis=is_artemis)
        lines = [b"SEND\ndestination:%s\ntransaction:t\n" % escape(name)]
        lines.append(b"persistent:%s\n" % (b"true" if config.message_persistent else b"false"))
        lines.append(b"priority:%d\n" % config.message_priority)
        if is_artemis:
            lines.append(b"destination-type:%s\n" % routing_of(is_topic=config.is_topic).encode())
        return b"".join(lines)

    def _send(self, messages: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send messages in a transaction of the broker, and wait until it has them."""
        connection, is_text = self._connection, self.config.message_type == "text"
        extra = b""
        if self.config.message_ttl:
            until = int((time.time() + self.config.message_ttl) * 1000)
            extra = b"expires:%d\n" % until
        parts = [encode_frame("BEGIN", {"transaction": "t"})]
        size = 0
        for head, own, body in messages:
            length = b"" if is_text else b"content-length:%d\n" % len(body)
            parts.append(b"%s%s%s%s\n%s\x00" % (head, own, extra, length, body))
            size += len(parts[-1])
            if size > _SEND_BYTES:
                connection.send(b"".join(parts))
                parts, size = [], 0
        connection.call(b"".join(parts), "COMMIT", {"transaction": "t"}, "the transaction")

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Leave the broker."""
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()
        for converters in getattr(self, "_converters", {}).values():
            converters.close()


def row_id(task_id: str, txn_id: int, number: int, lines: bytes, body: bytes) -> bytes:
    """Return the id of a message: the same when its transaction is sent again."""
    digest = hashlib.blake2b(lines + b"\x00" + body, digest_size=8).hexdigest()
    return b"%s/%d/%d/%s" % (task_id.replace(":", "/").encode(), txn_id, number, digest.encode())


def _deletes(rows: pa.RecordBatch) -> list[bool]:
    if OP_COLUMN not in rows.schema.names:
        return [False] * rows.num_rows
    dead = pc.fill_null(pc.equal(rows.column(OP_COLUMN), int(Change.DELETE)), False)
    found: list[bool] = np.asarray(dead).tolist()
    return found


def _is_text(body: bytes) -> bool:
    if 0 in body:
        return False
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _not_text() -> DataError:
    return DataError(
        "activemq.not_text",
        "the value is no text in UTF-8 without U+0000, and `message.type` is `text`",
        fix="Set `message.type=bytes`.",
    )


def _too_large(size: int, limit: int) -> DataError:
    return DataError(
        "activemq.too_large",
        f"the message has {size} bytes, and {limit} are allowed",
        fix="Raise `max.message.size`, and `maxFrameSize` of the broker.",
    )
