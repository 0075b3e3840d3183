"""Rows as messages. A transaction of the host is one of Kafka, with the host's offsets in it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from penstock_connector import (
    CommitMode,
    ConfigError,
    DataError,
    Pattern,
    RetriableError,
    SchemaError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector.dead_letters import DeadLetterEncoder, DeadLetterKeys, put_in_pieces
from penstock_connector.messages import OFFSET, PARTITION, MessageEncoder
from penstock_connector.staging import Spill, SpillStaging, without_rejected
from penstock_converters import Converter
from penstock_kafka.broker import (
    REQUEST_TIMEOUT_S,
    Broker,
    MessageConfig,
    to_connector_error,
)
from penstock_kafka.client_settings import translate
from penstock_kafka.messages import message_values
from penstock_kafka.mirror.offset_syncs import OffsetSyncWriter
from penstock_kafka.offsets_topic import OffsetsTopic, ensure_topic, offsets_topic_settings
from penstock_kafka.originals import Originals
from penstock_values.topic_creation import TopicCreation, TopicSettings

_MEMORY_BYTES: Final = 256 << 20
"""Messages in memory that wait for their transaction; more go to a file."""

_PIECE: Final = 10_000
"""Messages that are handed to the client at once."""

_LINGER_MS: Final = 20
"""Time to wait for more messages of a request."""

_MAX_REQUEST_BYTES: Final = 1 << 20
"""Bytes of the largest message, as in Kafka's clients."""

_MAX_QUEUED: Final = 200_000
"""Messages that the client holds before more are handed to it."""

DELIVERY_TIMEOUT_S: Final = 60.0
"""Time for all messages of a transaction to be stored (`delivery.timeout.ms` of Kafka)."""

TRANSACTION_TIMEOUT_S: Final = 120.0
"""Time after which the brokers abort a transaction whose task has died. Until then it hides what
others write after it, in the topic and in `offsets.storage.topic`.
"""

_NO_SLOT: Final = -1
"""Instead of a slot, for schemas without rows."""

_OVERHEAD_BYTES: Final = 512
"""What a message's frame may add to its key and value."""


@dataclass(frozen=True)
class KafkaSinkConfig(MessageConfig, DeadLetterKeys):
    """Where messages go, and how."""

    topic: str = key(
        "${dataset}", doc="Topic; `${dataset}` stands for the dataset of the rows.", group="Writing"
    )
    topic_creation_enable: bool = key(
        True, doc="Whether topics are created that do not exist.", group="Writing"
    )
    topic_creation: Mapping[str, str] = key(
        doc="What they are created with, as in Kafka Connect: `topic.creation.default.partitions`, "
        "`….default.replication.factor`, `….groups`. Numbers of -1 are those of the brokers.",
        group="Writing",
    )
    offsets_storage_topic: str = key(
        "penstock-offsets",
        doc="Topic with the last transaction of each task; created when it does not exist.",
        group="Writing",
    )
    transactional_id_prefix: str = key(
        "penstock-",
        doc="What the transactional ids begin with; the id of the task follows.",
        group="Writing",
    )
    offsets_storage_replication_factor: int = key(
        -1, doc="Copies of that topic; -1: as the brokers say.", group="Writing"
    )
    positions: bool = key(
        False,
        doc="Whether rows go to the partition in their `__partition`, where they have one.",
        group="Writing",
    )
    offset_syncs_topic: str = key(
        "",
        doc="Topic for the offsets that mirrored messages have in both clusters, as MirrorMaker "
        "writes it; empty: they are not written. Needs `positions`, here and at the source.",
        group="Writing",
    )
    offset_syncs_prefix: str = key(
        "",
        doc="What names of topics begin with here, and not where they are mirrored from.",
        group="Writing",
    )
    producer: Mapping[str, str] = key(
        doc="Settings of the producer, by the names that they have in Kafka: "
        "`producer.compression.type`, `producer.linger.ms`.",
        group="Writing",
    )
    admin: Mapping[str, str] = key(
        doc="Settings of the client that creates topics.", group="Writing"
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        translate("producer", self.producer)
        translate("admin", self.admin)
        self.creation()
        if self.offset_syncs_topic and not self.positions:
            raise ConfigError(
                "config.conflict",
                "`offset.syncs.topic` is set, and without `positions` offsets are not known",
                fix="Set `positions=true`, or remove `offset.syncs.topic`.",
                config_path="offset.syncs.topic",
            )
        if not self.topic:
            raise ConfigError(
                "config.invalid_value",
                "`topic` is empty",
                fix="Name a topic, or remove the key.",
                config_path="topic",
            )

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        clients = (translate("producer", self.producer), translate("admin", self.admin))
        return {
            **super().unused_keys(),
            **clients[0].unused,
            **clients[1].unused,
            **self.unused_converters(),
            **self._unused_positions(),
        }

    def _unused_positions(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        if self.offset_syncs_prefix and not self.offset_syncs_topic:
            found["offset.syncs.prefix"] = "without `offset.syncs.topic`, no offsets are written"
        if self.positions and self.dead_letters:
            found["positions"] = "dead letters go to the partition of their key"
        return found

    def require_reach(self) -> None:
        """Refuse brokers and files of the clients, too."""
        super().require_reach()
        self.login("producer", self.producer)
        self.login("admin", self.admin)

    def creation(self) -> TopicCreation:
        """Return how topics are created."""
        keys = {name: text for name, text in self.topic_creation.items() if name != "enable"}
        return TopicCreation(keys, Pattern)

    def topic_of(self, dataset: str) -> str:
        """Return the topic of a dataset."""
        return self.topic.replace("${dataset}", dataset)


_Encoder: TypeAlias = MessageEncoder | DeadLetterEncoder


class MessageStaging(SpillStaging[pa.RecordBatch]):
    """Messages of a slot, in memory or a file, that no transaction has yet."""

    def __init__(
        self, topic: str, encoder: _Encoder, max_bytes: int, spill: Spill, *, positions: bool
    ) -> None:
        super().__init__(spill)
        self._positions = positions
        self.topic, self._encoder, self._max_bytes = topic, encoder, max_bytes

    def put(self, rows: pa.RecordBatch) -> Sequence[tuple[int, Any]]:
        """Keep the messages of rows, but for those that have none."""
        if isinstance(self._encoder, DeadLetterEncoder):
            return put_in_pieces(rows, self._put)
        return self._put(rows)

    def _put(self, rows: pa.RecordBatch) -> list[tuple[int, Any]]:
        messages, bad = self._encoder.encode(rows)
        if self._positions and PARTITION in rows.schema.names:
            messages = messages.append_column("partition", rows.column(PARTITION))
            if OFFSET in rows.schema.names and pa.types.is_int64(rows.schema.field(OFFSET).type):
                messages = messages.append_column("offset", rows.column(OFFSET))
        refused = {one.index: one.error for one in bad}
        if messages.nbytes > self._max_bytes:  # only then one of them can be too large
            for index, size in enumerate(_sizes(messages)):
                if size + _OVERHEAD_BYTES > self._max_bytes:
                    refused.setdefault(index, _too_large(size, self._max_bytes))
        rejected = sorted(refused.items())
        self.add_batch(without_rejected(messages, rejected))
        return rejected


class KafkaSink(TransactionalSink[KafkaSinkConfig]):
    """Rows as messages of Kafka's topics.

    Exactly once: the offsets of the source are written in the same transaction as the messages. A
    newer run of a task fences an older one.
    """

    name = "kafka-sink"
    commit_modes = (CommitMode.SINK,)

    @classmethod
    def check(cls, config: KafkaSinkConfig) -> None:
        """Ask the brokers who they are."""
        broker = Broker(config, "producer", config.producer)
        producer = Producer(broker.settings())
        broker.topics(producer, "brokers")

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older runs of the task."""
        config = self.config
        self._key_columns: dict[str, tuple[str, ...]] = {}
        self._sides: dict[int, tuple[Converter, Converter]] = {}
        self._spill = Spill(_MEMORY_BYTES, "kafka.memory", "kafka.spill_failed")
        self._originals: Originals | None = None
        self._syncs: OffsetSyncWriter | None = None
        self._open = self._committed = 0
        self._broker = Broker(config, "producer", config.producer)
        self._admin = Broker(config, "admin", config.admin)
        self._creation = config.creation()
        of_offsets = offsets_topic_settings(config.offsets_storage_replication_factor)
        ensure_topic(self._admin, config.offsets_storage_topic, of_offsets, may_create=True)
        if config.offset_syncs_topic:
            compacted = TopicSettings(1, -1, {"cleanup.policy": "compact"})
            ensure_topic(self._admin, config.offset_syncs_topic, compacted, may_create=True)
            self._syncs = OffsetSyncWriter(config.offset_syncs_topic, config.offset_syncs_prefix)
        self._offsets = OffsetsTopic(
            self._broker.for_offsets(), config.offsets_storage_topic, task_id
        )
        settings = self._broker.settings(
            linger_ms=_LINGER_MS,
            compression_type="lz4",
            message_max_bytes=_MAX_REQUEST_BYTES,
            batch_size=512 << 10,
            queue_buffering_max_kbytes=1 << 20,
            partitioner="murmur2_random",  # that of Kafka's clients in Java
            transaction_timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
            delivery_timeout_ms=int(DELIVERY_TIMEOUT_S * 1000),
        )
        settings |= {
            "transactional.id": f"{config.transactional_id_prefix}{task_id}",
            "queue.buffering.max.messages": 2 * _MAX_QUEUED,
        }
        self._max_bytes = int(settings["message.max.bytes"])
        with self._broker.errors("settings of the producer"):
            self._producer = Producer(settings)
        with self._broker.errors("init_transactions", self._producer):
            self._producer.init_transactions(REQUEST_TIMEOUT_S)
        self._last = self._offsets.read()
        self._committed = self._last[0] if self._last else 0

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction that Kafka has."""
        return self._last

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Create the topic when it does not exist."""
        config = self.config
        topic = config.topic_of(dataset)
        if not topic:
            raise SchemaError(
                "kafka.no_topic",
                "the rows have no dataset to name a topic by",
                fix="Set `topic` to a name.",
            )
        if self._syncs is not None and not {PARTITION, OFFSET} <= set(schema.names):
            raise SchemaError(
                "kafka.no_positions",
                f"rows of {dataset!r} do not say where their messages are, and "
                "`offset.syncs.topic` is set",
                fix="Set `positions=true` at the source, too, or remove `offset.syncs.topic`.",
                dataset=dataset,
            )
        self._key_columns[dataset] = tuple(key_columns)
        ensure_topic(
            self._admin,
            topic,
            self._creation.settings(topic),
            may_create=config.topic_creation_enable,
        )
        nothing = pa.RecordBatch.from_pylist([], schema)
        self._encoder(_NO_SLOT, dataset, schema).encode(nothing)  # asks a schema registry
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for messages that no transaction has yet."""
        config = self.config
        encoder = self._encoder(slot, dataset, schema)
        topic = config.topic_of(dataset)
        positions = config.positions
        return MessageStaging(topic, encoder, self._max_bytes, self._spill, positions=positions)

    def _encoder(self, slot: int, dataset: str, schema: pa.Schema) -> _Encoder:
        """Return what makes messages of rows. A slot keeps its converters, which remember
        schemas.
        """
        config = self.config
        if config.dead_letters == "messages":
            if self._originals is None:
                self._originals = Originals(self._broker.for_offsets())
            return DeadLetterEncoder("kafka", dataset, schema, self._originals.read)
        if config.dead_letters:
            return DeadLetterEncoder("kafka", dataset, schema, None)
        if slot not in self._sides:
            self._sides[slot] = config.open_key_converter(), config.open_value_converter()
        topic, keys = config.topic_of(dataset), self._key_columns.get(dataset, ())
        return MessageEncoder("kafka", topic, schema, keys, *self._sides[slot])

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Send all messages, and the offsets that they cover, in one transaction."""
        producer = self._producer
        if self._syncs is not None:
            self._syncs.reset()
        with self._broker.errors("prepare"):
            producer.begin_transaction()
            self._open = txn_id
            for staging in staged:
                assert isinstance(staging, MessageStaging)  # noqa: S101 - `stage` made it
                for part in staging.parts():
                    self._send(staging.topic, part)
            self._offsets.put(producer, txn_id, epoch, token)
            self._flush()
            if self._syncs is not None:
                self._syncs.write(producer)
                self._flush()
        return b""

    def _send(self, topic: str, messages: pa.RecordBatch) -> None:
        producer = self._producer
        has_places = "partition" in messages.schema.names
        columns = (messages.column(name) for name in ("headers", "timestamp_ms"))
        one_by_one = has_places or any(one.null_count < messages.num_rows for one in columns)
        for start in range(0, messages.num_rows, _PIECE):
            part = messages.slice(start, _PIECE)
            piece = message_values(part)
            self._make_room()
            if one_by_one:  # the client takes no headers and no times with many messages at once
                if self._syncs is not None and "offset" in part.schema.names:
                    for at, take in self._syncs.watch(topic, part).items():
                        piece[at]["on_delivery"] = take
                for message in piece:
                    producer.produce(topic, **message)
            else:
                sent = producer.produce_batch(topic, piece)
                if sent < len(piece):
                    error = next(one["_error"] for one in piece if "_error" in one)
                    raise to_connector_error(error, f"topic {topic}")

    def _make_room(self) -> None:
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while len(self._producer) > _MAX_QUEUED:
            self._producer.poll(0.05)
            if time.monotonic() > deadline:
                raise _not_delivered(len(self._producer))

    def _flush(self) -> None:
        left = self._producer.flush(DELIVERY_TIMEOUT_S)
        if left:
            raise _not_delivered(left)

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Commit the transaction of Kafka; again, it does nothing."""
        if txn_id <= self._committed or txn_id != self._open:
            return
        with self._broker.errors("commit_transaction"):
            self._commit_transaction()
        self._committed, self._open = txn_id, 0

    def _commit_transaction(self) -> None:
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        done = False
        while not done:
            try:
                self._producer.commit_transaction(REQUEST_TIMEOUT_S)
                done = True
            except KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort():
                    self._producer.abort_transaction(REQUEST_TIMEOUT_S)
                    raise
                if not error.retriable() or time.monotonic() > deadline:
                    raise

    def close(self) -> None:
        """Give up what is not committed."""
        if (producer := getattr(self, "_producer", None)) is not None:
            producer.purge()
            producer.flush(0)
        if (originals := getattr(self, "_originals", None)) is not None:
            originals.close()
        for side in [one for pair in getattr(self, "_sides", {}).values() for one in pair]:
            side.close()


def _sizes(messages: pa.RecordBatch) -> list[int]:
    keys, values = messages.column("key"), messages.column("value")
    return [
        (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
    ]


def _too_large(size: int, limit: int) -> DataError:
    return DataError(
        "kafka.too_large",
        f"the message has {size} bytes, and `producer.max.request.size` is {limit}",
        fix="Raise `producer.max.request.size`, and `max.message.bytes` of the topic.",
    )


def _not_delivered(left: int) -> RetriableError:
    return RetriableError(
        "kafka.not_delivered",
        f"{left} messages were not stored within {DELIVERY_TIMEOUT_S:g} s",
        fix="Check the brokers: disks, replicas in sync (`min.insync.replicas`), network.",
    )
