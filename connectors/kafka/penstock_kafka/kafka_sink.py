"""Rows as messages. A transaction of the host is one of Kafka, with the host's offsets in it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from penstock_connector import (
    CommitMode,
    ConfigError,
    Pattern,
    SchemaError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector.dead_letters import DeadLetterEncoder, DeadLetterKeys
from penstock_connector.messages import (
    OFFSET,
    PARTITION,
    Converters,
    MessageEncoder,
    columns_of,
    has_columns,
)
from penstock_connector.staging import Spill
from penstock_kafka.broker import (
    REQUEST_TIMEOUT_S,
    Broker,
    MessageConfig,
)
from penstock_kafka.client_settings import translate
from penstock_kafka.message_limits import BatchLimit, Refusals, find_limit
from penstock_kafka.message_sender import DELIVERY_TIMEOUT_S, MAX_QUEUED, MessageSender
from penstock_kafka.message_staging import MessageStaging, RowEncoder
from penstock_kafka.mirror.offset_syncs import OffsetSyncWriter
from penstock_kafka.offsets_topic import OffsetsTopic, ensure_topic, offsets_topic_settings
from penstock_kafka.originals import Originals
from penstock_values.topic_creation import TopicCreation, TopicSettings

_MEMORY_BYTES: Final = 256 << 20
"""Messages in memory that wait for their transaction; more go to a file."""

_LINGER_MS: Final = 20
"""Time to wait for more messages of a request."""

_MAX_REQUEST_BYTES: Final = 1 << 20
"""Bytes of the largest message, as in Kafka's clients."""

TRANSACTION_TIMEOUT_S: Final = 120.0
"""Time after which the brokers abort a transaction whose task has died. Until then it hides what
others write after it, in the topic and in `offsets.storage.topic`.
"""

_NO_SLOT: Final = -1
"""Instead of a slot, for schemas without rows."""


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
        -1, doc="Copies of that topic; -1: the default of the brokers.", group="Writing"
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
            **self.unused_client_keys("producer", self.producer),
            **self.unused_client_keys("admin", self.admin),
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
        producer = broker.open(Producer, broker.settings())
        broker.topics(producer, "brokers")

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older runs of the task."""
        config = self.config
        self._key_columns: dict[str, tuple[str, ...]] = {}
        self._converters: dict[int, Converters] = {}
        self.reports_columns = not self.config.dead_letters and has_columns(
            self._slot_converters(_NO_SLOT).value
        )
        self._spill = Spill(_MEMORY_BYTES, "kafka.memory", "kafka.spill_failed")
        self._originals: Originals | None = None
        self._syncs: OffsetSyncWriter | None = None
        self._open = self._committed = 0
        self._written: set[str] = set()
        self._broker = Broker(config, "producer", config.producer)
        self._admin = Broker(config, "admin", config.admin)
        self._creation = config.creation()
        of_offsets = offsets_topic_settings(config.offsets_storage_replication_factor)
        partitions = self._ensure_topic(config.offsets_storage_topic, of_offsets, may_create=True)
        if config.offset_syncs_topic:
            compacted = TopicSettings(1, -1, {"cleanup.policy": "compact"})
            self._ensure_topic(config.offset_syncs_topic, compacted, may_create=True)
            self._syncs = OffsetSyncWriter(config.offset_syncs_topic, config.offset_syncs_prefix)
        self._offsets = OffsetsTopic(
            self._broker.for_offsets(), config.offsets_storage_topic, partitions, task_id
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
            "queue.buffering.max.messages": 2 * MAX_QUEUED,
        }
        self._refusals = Refusals()
        settings["on_delivery"] = self._refusals.note
        # without syncs, which need reports of what was stored, only refused messages cost a call
        settings["delivery.report.only.error"] = self._syncs is None
        self._max_bytes = int(settings["message.max.bytes"])
        self._batch_bytes = min(self._max_bytes, int(settings["batch.size"]))
        self._compression = str(settings["compression.type"])
        self._limits: dict[str, BatchLimit | None] = {}
        self._producer = self._broker.open(Producer, settings)
        self._sender = MessageSender(self._producer, self._syncs)
        with self._broker.errors(
            f"init_transactions of transactional.id {settings['transactional.id']}", self._producer
        ):
            self._producer.init_transactions(REQUEST_TIMEOUT_S)
        self._last = self._offsets.read()
        self._committed = self._last[0] if self._last else 0

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction that Kafka has."""
        return self._last

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the newest schema of a topic, where a registry has them."""
        return columns_of(self._slot_converters(_NO_SLOT).value, self.config.topic_of(dataset))

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
        may_create = config.topic_creation_enable
        self._ensure_topic(topic, self._creation.settings(topic), may_create=may_create)
        limit = find_limit(self._admin, topic, self._compression)
        # most topics take whatever the client makes
        self._limits[topic] = limit if limit and limit.max_bytes < self._max_bytes else None
        nothing = pa.RecordBatch.from_pylist([], schema)
        self._encoder(_NO_SLOT, dataset, schema).encode(nothing)  # asks a schema registry
        return None

    def _ensure_topic(self, topic: str, settings: TopicSettings, *, may_create: bool) -> int:
        return ensure_topic(self._admin, topic, settings, may_create=may_create)

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for messages that no transaction has yet."""
        config = self.config
        encoder = self._encoder(slot, dataset, schema)
        topic = config.topic_of(dataset)
        positions = config.positions
        limit = self._limits.get(topic)
        return MessageStaging(
            topic, encoder, self._max_bytes, self._spill, positions=positions, limit=limit
        )

    def _encoder(self, slot: int, dataset: str, schema: pa.Schema) -> RowEncoder:
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
        topic, keys = config.topic_of(dataset), self._key_columns.get(dataset, ())
        return MessageEncoder("kafka", topic, schema, keys, self._slot_converters(slot))

    def _slot_converters(self, slot: int) -> Converters:
        if slot not in self._converters:
            self._converters[slot] = self.config.open_converters()
        return self._converters[slot]

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Send all messages, and the offsets that they cover, in one transaction."""
        producer, sender = self._producer, self._sender
        if self._syncs is not None:
            self._syncs.reset()
        with self._broker.errors("prepare"), self._refusals.explain(producer):
            producer.begin_transaction()
            self._open = txn_id
            self._written = {one.topic for one in staged if isinstance(one, MessageStaging)}
            self._written.add(self.config.offsets_storage_topic)
            for staging in staged:
                assert isinstance(staging, MessageStaging)  # noqa: S101 - `stage` made it
                limit = self._limits.get(staging.topic)
                narrow = limit is not None and limit.max_bytes < self._batch_bytes
                for part in staging.parts():
                    for piece in limit.pieces(part) if limit and narrow else (part,):
                        sender.send(staging.topic, piece)
                        if narrow:  # what waits together may become one batch
                            sender.flush()
            self._offsets.put(producer, txn_id, epoch, token)
            sender.flush()
            if self._syncs is not None:
                self._syncs.write(producer)
                sender.flush()
        for staging in staged:
            staging.discard()  # the brokers have the messages
        return b""

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Commit the transaction of Kafka; again, it does nothing."""
        if txn_id <= self._committed or txn_id != self._open:
            return
        topics = " and ".join(f"topic {name}" for name in sorted(self._written))
        with self._broker.errors(f"commit_transaction to {topics}"):
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
                    with suppress(KafkaException):  # the next run aborts it, too
                        self._producer.abort_transaction(REQUEST_TIMEOUT_S)
                    raise
                if not error.retriable() or time.monotonic() > deadline:
                    raise

    def close(self) -> None:
        """Give up what is not committed."""
        if (producer := getattr(self, "_producer", None)) is not None:
            producer.purge()
            with suppress(KafkaException):  # a fatal error, which was raised before
                producer.flush(0)
        if (originals := getattr(self, "_originals", None)) is not None:
            originals.close()
        for converters in getattr(self, "_converters", {}).values():
            converters.close()
