"""Rows as messages of MQTT's topics, at least once: they are sent when their transaction is
prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import (
    CommitMode,
    ConnectorError,
    DataError,
    FailedRowsError,
    Op,
    SchemaError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector.messages import (
    KEY,
    OP,
    Converters,
    MessageEncoder,
    columns_of,
    has_columns,
)
from penstock_connector.row_ids import row_id
from penstock_connector.staging import Budget, MemoryStaging, placed_rows
from penstock_messaging.mqtt.broker import Session, connect_once
from penstock_messaging.mqtt.config import MqttConfig, conflict, invalid
from penstock_messaging.mqtt.properties import ID, problem_of_headers, set_properties
from penstock_messaging.mqtt.publisher import Publisher, Publishing
from penstock_messaging.mqtt.topics import problem_of_name

_MEMORY_BYTES: Final = 256 << 20
"""Messages that wait for their transaction."""

_NO_SLOT: Final = -1
"""Instead of a slot, for schemas without rows."""

_DATASET: Final = "${dataset}"
_KEY_PLACE: Final = "${key}"
_OVERHEAD_BYTES: Final = 64
"""What a packet has beside topic, payload and properties."""

_STAGED: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("payload", pa.binary()),
        pa.field("headers", pa.map_(pa.string(), pa.binary())),
    ]
)

Refusals: TypeAlias = "dict[int, ConnectorError]"


@dataclass(frozen=True)
class MqttSinkConfig(MqttConfig):
    """Where messages go, and how."""

    mqtt_topic: str = key(
        _DATASET,
        doc="Topic; `${dataset}` stands for the dataset of the rows, `${key}` for the key of a row "
        "as `key.converter` writes it.",
        group="Writing",
    )
    mqtt_qos: int = key(
        1,
        doc="1: a message is sent until the broker has it. 2: the broker takes it once, as long as "
        "the task runs. 0: nobody knows whether it arrived.",
        group="Writing",
    )
    mqtt_retained_enabled: bool = key(
        False,
        doc="Whether the broker keeps the last message of each topic for later subscribers. That "
        "of a deleted row removes it.",
        group="Writing",
    )
    mqtt_clean_session_enabled: bool = key(
        True,
        doc="Whether the session ends with the connection.",
        no_effect="a sink subscribes to nothing: it has no session to keep",
        group="Writing",
    )
    mqtt_message_max_bytes: int = key(
        16 << 20,
        doc="Bytes of the largest message; larger rows are rejected. A broker may allow fewer.",
        type="size",
        group="Writing",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        fixed = self.mqtt_topic.replace(_DATASET, "d").replace(_KEY_PLACE, "k")
        if problem := problem_of_name(fixed):
            raise invalid("mqtt.topic", problem, "Name a topic, for instance `plant/${key}`.")
        if self.mqtt_qos not in {0, 1, 2}:
            raise invalid("mqtt.qos", f"it is {self.mqtt_qos}", "Use 0, 1 or 2.")
        if not 1024 <= self.mqtt_message_max_bytes <= 256 << 20:
            raise invalid(
                "mqtt.message.max.bytes", "it is out of range", "Use a size from 1KiB to 256MiB."
            )
        if self.mqtt_client_id and self.mqtt_client_id.strip() != self.mqtt_client_id:
            raise conflict("mqtt.client.id", "it has spaces around it", "Remove them.")

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = dict(super().unused_keys())
        if _KEY_PLACE not in self.mqtt_topic and "key.converter" in self.named_converters():
            found["key.converter"] = "messages have no key; `mqtt.topic` may have `${key}`"
        return found


class MessageStaging(MemoryStaging):
    """Messages of one slot, attempt and schema."""

    def __init__(
        self, dataset: str, config: MqttSinkConfig, encoder: MessageEncoder, budget: Budget
    ) -> None:
        super().__init__(dataset, lambda _: self._refused, budget, numbered=True)
        self._config, self._encoder = config, encoder
        self._refused: list[tuple[int, ConnectorError]] = []

    def put(self, rows: pa.RecordBatch) -> Sequence[tuple[int, ConnectorError]] | None:
        """Keep the messages of rows, but for those that have none."""
        messages, bad = self._encoder.encode(rows)
        refused: Refusals = {one.index: one.error for one in reversed(bad)}
        payloads = _payloads(rows, messages.column("value"), refused)
        topics = _topics(self._config, self.dataset, messages.column("key"), refused)
        headers = messages.column("headers")
        limit = self._config.mqtt_message_max_bytes
        for index, found in enumerate(headers.to_pylist()):
            if index not in refused:
                if problem := problem_of_headers(found or ()):
                    refused[index] = _bad_header(problem)
                _check_size(index, _size(topics[index], payloads[index], found), limit, refused)
        staged = pa.RecordBatch.from_arrays(
            [pa.array(topics, pa.string()), pa.array(payloads, pa.binary()), headers],
            schema=_STAGED,
        )
        self._refused = sorted(refused.items())
        return super().put(staged)


class MqttSink(TransactionalSink[MqttSinkConfig]):
    """Rows as messages of MQTT's topics.

    At least once: after a crash, or an answer that did not come, rows are sent again. Rows are sent
    in their order.
    """

    name = "mqtt-sink"
    aliases = ("MqttSinkConnector", "io.confluent.connect.mqtt.MqttSinkConnector")
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.HOST,)
    reports_failed_rows = True

    @classmethod
    def check(cls, config: MqttSinkConfig) -> None:
        """Connect."""
        connect_once(config, Session())

    def connect(self, task_id: str, epoch: int) -> None:
        """Connect to a broker."""
        self._task_id = task_id
        self._key_columns: dict[str, tuple[str, ...]] = {}
        self._converters: dict[int, Converters] = {}
        self.reports_columns = has_columns(self._slot_converters(_NO_SLOT).value)
        fix = "Lower `batch.max.bytes` of the connector."
        self._budget = Budget(_MEMORY_BYTES, "mqtt.memory", fix)
        self._publisher: Publisher | None = self._open()

    def _open(self) -> Publisher:
        config = self.config
        name = f"{config.mqtt_client_id}-{self._task_id}" if config.mqtt_client_id else ""
        how = Publishing(config.mqtt_qos, config.mqtt_retained_enabled)
        return Publisher(config, name, how, self.stopping.wait)

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the newest schema of a dataset, where a registry has them."""
        return columns_of(self._slot_converters(_NO_SLOT).value, dataset)

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Refuse a dataset whose rows can have no topic."""
        topic = self.config.mqtt_topic.replace(_DATASET, dataset).replace(_KEY_PLACE, "k")
        if problem := problem_of_name(topic):
            raise SchemaError(
                "mqtt.topic_name",
                f"{topic[:200]!r} cannot be the name of a topic: {problem}",
                fix="Set `mqtt.topic` to a name, or change the dataset's by the transform "
                "RegexRouter.",
                dataset=dataset,
            )
        self._key_columns[dataset] = tuple(key_columns)
        has_key = bool(key_columns) or KEY in schema.names
        if _KEY_PLACE in self.config.mqtt_topic and not has_key:
            raise SchemaError(
                "mqtt.no_key",
                f"rows of {dataset!r} have no key, and `mqtt.topic` has `${{key}}`",
                fix="Give the rows a key: key columns at the source, or the transform ValueToKey.",
                dataset=dataset,
            )
        nothing = pa.RecordBatch.from_pylist([], schema)
        self._encoder(_NO_SLOT, dataset, schema).encode(nothing)  # asks a schema registry
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for messages that are not sent yet."""
        encoder = self._encoder(slot, dataset, schema)
        return MessageStaging(dataset, self.config, encoder, self._budget)

    def _encoder(self, slot: int, dataset: str, schema: pa.Schema) -> MessageEncoder:
        """Return what makes messages of rows. A slot keeps its converters, which remember
        schemas.
        """
        keys = self._key_columns.get(dataset, ())
        return MessageEncoder("mqtt", dataset, schema, keys, self._slot_converters(slot))

    def _slot_converters(self, slot: int) -> Converters:
        if slot not in self._converters:
            self._converters[slot] = self.config.open_converters()
        return self._converters[slot]

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Send all messages: the broker has them before the offsets are stored (invariant 1).

        Raises:
            FailedRowsError: the broker refuses some of them for what they are.
        """
        try:
            refused = self._send(txn_id, staged)
        except ConnectorError:
            self._close_publisher()  # what is under way must not come between later rows
            raise
        if refused:
            raise FailedRowsError(refused)
        for staging in staged:
            staging.discard()
        return b""

    def _send(self, txn_id: int, staged: Sequence[Staging]) -> list[tuple[Staging, int, DataError]]:
        if self._publisher is None:
            self._publisher = self._open()
        publisher = self._publisher
        places: list[tuple[Staging, int]] = []
        refused: list[tuple[Staging, int, DataError]] = []
        for place, staging, number, (topic, payload, headers) in _messages(staged):
            size = _size(topic, payload, headers)
            if (most := publisher.packet_bytes) and size > most:
                refused.append((staging, number, _too_large(size, most)))
                continue
            # not by slot: two rows of the same bytes in two slots are two messages
            name = row_id(self._task_id, txn_id, place, None, topic.encode() + payload)
            properties = set_properties(publisher.properties(), headers, name.decode())
            publisher.put(len(places), topic, payload, properties)
            places.append((staging, number))
        refused += [(*places[number], error) for number, error in publisher.flush()]
        return refused

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Nothing is left to do."""

    def _close_publisher(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def close(self) -> None:
        """Leave the broker."""
        if getattr(self, "_publisher", None) is not None:
            self._close_publisher()
        for converters in getattr(self, "_converters", {}).values():
            converters.close()


Message: TypeAlias = "tuple[str, bytes, list[tuple[str, bytes | None]] | None]"


def _messages(staged: Sequence[Staging]) -> Iterator[tuple[int, Staging, int, Message]]:
    found = [one for one in staged if isinstance(one, MessageStaging)]
    assert len(found) == len(staged)  # noqa: S101 - `stage` made them
    yield from placed_rows(found)


def _payloads(rows: pa.RecordBatch, values: pa.Array, refused: Refusals) -> list[bytes]:
    """Return the payloads. That of a deleted row is empty, and no other may be."""
    dead = [False] * rows.num_rows
    if OP in rows.schema.names:
        is_delete = pc.equal(rows.column(OP), int(Op.DELETE))
        dead = pc.fill_null(is_delete, fill_value=False).to_pylist()
    payloads = [value or b"" for value in values.to_pylist()]
    for index, (payload, is_dead) in enumerate(zip(payloads, dead, strict=True)):
        if not payload and not is_dead:
            error = DataError(
                "mqtt.empty_payload",
                "the value of the row is empty, and a message without a payload means a deleted "
                "row",
                fix="Leave such rows out by a transform.",
            )
            refused.setdefault(index, error)
    return payloads


def _topics(config: MqttSinkConfig, dataset: str, keys: pa.Array, refused: Refusals) -> list[str]:
    fixed = config.mqtt_topic.replace(_DATASET, dataset)
    if _KEY_PLACE not in fixed:
        return [fixed] * len(keys)
    topics = []
    for index, one in enumerate(keys.to_pylist()):
        topic = ""
        try:
            text = "" if one is None else one.decode()
            topic = fixed.replace(_KEY_PLACE, text)
            problem = problem_of_name(topic) if text else "the row has no key"
        except UnicodeDecodeError:
            problem = "the key is no text"
        if problem:
            error = DataError(
                "mqtt.topic_name",
                f"{topic[:200]!r} cannot be the name of a topic: {problem}",
                fix="Correct the key by a transform, or set `mqtt.topic` without `${key}`.",
            )
            refused.setdefault(index, error)
        topics.append(topic)
    return topics


def _bad_header(problem: str) -> DataError:
    return DataError(
        "mqtt.header",
        f"a header cannot be a property of a message: {problem}",
        fix="Remove it by the transform DropHeaders.",
    )


def _size(topic: str, payload: bytes, headers: Sequence[tuple[str, bytes | None]] | None) -> int:
    """Return an upper bound of the bytes of a packet."""
    properties = sum(len(name.encode()) + len(value or b"") + 5 for name, value in headers or ())
    return len(topic.encode()) + len(payload) + properties + _OVERHEAD_BYTES + len(ID) + 64


def _check_size(index: int, size: int, limit: int, refused: Refusals) -> None:
    if size > limit:
        refused.setdefault(index, _too_large(size, limit))


def _too_large(size: int, limit: int) -> DataError:
    return DataError(
        "mqtt.too_large",
        f"the message has {size} bytes, and {limit} are allowed",
        fix="Raise `mqtt.message.max.bytes`, and the limit of the broker.",
    )
