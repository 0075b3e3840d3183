"""Rows as messages, at least once: they are sent when their transaction is prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import (
    CommitMode,
    ConfigError,
    ConnectorError,
    DataError,
    Op,
    SchemaError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector.dead_letters import DeadLetterEncoder, DeadLetterKeys, put_in_pieces
from penstock_connector.messages import (
    KEY,
    OP,
    PARTITION,
    Converters,
    MessageEncoder,
    columns_of,
    has_columns,
)
from penstock_connector.row_ids import row_id
from penstock_connector.staging import Spill, SpillStaging, without_rejected
from penstock_rocketmq.cluster import TOPIC_NAME, Cluster
from penstock_rocketmq.config import CONSUMER_GROUP, MessageConfig
from penstock_rocketmq.originals import Originals
from penstock_rocketmq.properties import (
    ID,
    InvalidPropertyError,
    encode_properties,
    hash_keys,
    header_rows,
    queue_of,
)
from penstock_rocketmq.sender import Sender
from penstock_rocketmq.storage import MAX_PROPERTIES_BYTES, encode_message

_MEMORY_BYTES: Final = 256 << 20
"""Messages in memory that wait for their transaction; more go to a file."""

_BATCH_BYTES: Final = 1 << 20
"""Bytes of a batch. Larger ones are not faster, and take the broker longer at once."""

_NO_SLOT: Final = -1
"""Instead of a slot, for schemas without rows."""

_REASON: Final = "__connect.errors."
_SEPARATORS: Final = {1: " ", 2: " "}
_MAX_REASON_BYTES: Final = 2_000
"""Bytes of a property that says why: all properties of a message have 32 KiB."""

_OVERHEAD_BYTES: Final = 512
"""What a message has beside its body and properties: its frame, and the id of its transaction."""

_STAGED: Final = pa.schema(
    [
        pa.field("body", pa.binary()),
        pa.field("properties", pa.binary()),
        pa.field("hash", pa.int32()),
        pa.field("queue", pa.int32()),
    ]
)
"""Messages that wait. `hash` is null for one without a key, `queue` for one that chooses none."""


@dataclass(frozen=True)
class RocketmqSinkConfig(MessageConfig, DeadLetterKeys):
    """Where messages go, and how."""

    topic: str = key(
        "${dataset}", doc="Topic; `${dataset}` stands for the dataset of the rows.", group="Writing"
    )
    topic_queues: int = key(
        4,
        doc="Queues, at each broker, of a topic that is created; 0: a topic must exist.",
        group="Writing",
    )
    keys_columns: tuple[str, ...] = key(
        (),
        doc="Columns whose texts, with spaces between them, are KEYS of a message. Empty: the key "
        "of the row, as `key.converter` writes it.",
        group="Writing",
    )
    tags_column: str = key(
        "",
        doc="Column whose text is the tag of a message. Empty: the header TAGS.",
        group="Writing",
    )
    producer_group: str = key(
        "penstock", doc="Group of producers that brokers know us by.", group="Writing"
    )
    max_message_size: int = key(
        4 << 20,
        doc="Bytes of the largest message (`maxMessageSize` of the brokers).",
        type="size",
        group="Writing",
    )

    positions: bool = key(
        False,
        doc="Whether rows go to the queue in their `__partition`, where they have one: its place "
        "among all queues of the topic, in order of brokers.",
        group="Writing",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        for path, is_valid, fix in (
            ("topic", bool(self.topic), "Name a topic, or remove the key."),
            ("topic.queues", 0 <= self.topic_queues <= 1024, "Use a number from 0 to 1024."),
            ("producer.group", bool(self.producer_group), "Name a group, or remove the key."),
            ("max.message.size", self.max_message_size >= 1024, "Use 1KiB or more."),
        ):
            if not is_valid:
                raise ConfigError(
                    "config.invalid_value",
                    f"`{path}` is not valid",
                    fix=fix,
                    config_path=path,
                )
        is_text = self.key_converter.rpartition(".")[2] in {"string", "StringConverter"}
        if self.keys_columns and not is_text:
            raise ConfigError(
                "config.conflict",
                "`keys.columns` are texts, and `key.converter` is not `string`",
                fix="Remove one of the two.",
                config_path="keys.columns",
            )

        if self.dead_letters and (self.keys_columns or self.tags_column):
            raise ConfigError(
                "config.conflict",
                "with `dead.letters`, messages have the keys and tags that they had",
                fix="Remove `keys.columns` and `tags.column`.",
                config_path="dead.letters",
            )

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = {**super().unused_keys(), **self.unused_converters()}
        if self.positions and self.dead_letters:
            found["positions"] = "dead letters go to the queue of their key"
        return found

    def topic_of(self, dataset: str) -> str:
        """Return the topic of a dataset."""
        return self.topic.replace("${dataset}", dataset)


_Encoder: TypeAlias = MessageEncoder | DeadLetterEncoder


class MessageStaging(SpillStaging[pa.RecordBatch]):
    """Messages of a slot, in memory or a file, that are not sent yet."""

    def __init__(
        self, topic: str, config: RocketmqSinkConfig, encoder: _Encoder, spill: Spill
    ) -> None:
        super().__init__(spill)
        self.topic, self._config, self._encoder = topic, config, encoder
        self._are_dead_letters = isinstance(encoder, DeadLetterEncoder)

    def put(self, rows: pa.RecordBatch) -> Sequence[tuple[int, Any]]:
        """Keep the messages of rows, but for those that have none."""
        if isinstance(self._encoder, DeadLetterEncoder):
            return put_in_pieces(rows, self._put)
        return self._put(rows)

    def _put(self, rows: pa.RecordBatch) -> list[tuple[int, Any]]:
        refused: dict[int, ConnectorError] = {}
        rows = _keyed(rows, self._config, refused)
        messages, bad = self._encoder.encode(rows)
        for one in bad:
            refused.setdefault(one.index, one.error)
        if self._are_dead_letters:
            bodies = [value or b"" for value in messages.column("value").to_pylist()]
        else:
            bodies = _bodies(rows, messages.column("value"), refused)
        keys = messages.column("key").to_pylist()
        properties = self._properties(rows, keys, messages, refused)
        limit = self._config.max_message_size - _OVERHEAD_BYTES
        for index, (body, text) in enumerate(zip(bodies, properties, strict=True)):
            size = len(body) + len(text)
            if size > limit or len(text) > MAX_PROPERTIES_BYTES - _OVERHEAD_BYTES:
                refused.setdefault(index, _too_large(size, len(text), limit))
        queues = self._queues(rows, refused)
        has_key = np.fromiter((key is not None for key in keys), bool, len(keys))
        hashes = hash_keys(
            [b"" if key is None or index in refused else key for index, key in enumerate(keys)]
        )
        staged = pa.RecordBatch.from_arrays(
            [
                pa.array(bodies, pa.binary()),
                pa.array(properties, pa.binary()),
                pa.array(hashes, pa.int32(), mask=~has_key),
                queues,
            ],
            schema=_STAGED,
        )
        rejected = sorted(refused.items())
        self.add_batch(without_rejected(staged, rejected))
        return rejected

    def _queues(self, rows: pa.RecordBatch, refused: dict[int, ConnectorError]) -> pa.Array:
        if not self._config.positions or PARTITION not in rows.schema.names:
            return pa.nulls(rows.num_rows, pa.int32())
        chosen = rows.column(PARTITION)
        for index in pc.indices_nonzero(pc.less(chosen, 0)).to_pylist():
            refused.setdefault(index, _no_queue(chosen[index].as_py()))
        return chosen

    def _properties(
        self, rows: pa.RecordBatch, keys: Sequence[bytes | None], messages: pa.RecordBatch,
        refused: dict[int, ConnectorError],
    ) -> list[bytes]:  # fmt: skip
        tags: list[str | None] = [None] * rows.num_rows
        if self._config.tags_column:
            tags = rows.column(self._config.tags_column).cast(pa.string()).to_pylist()
        times = messages.column("timestamp_ms").to_pylist()
        headers = header_rows(messages.column("headers"))
        if self._are_dead_letters:
            headers = list(map(_fit_reasons, headers))
        found: list[bytes] = []
        for index, parts in enumerate(zip(keys, tags, times, headers, strict=True)):
            try:
                found.append(b"" if index in refused else encode_properties(*parts))
            except InvalidPropertyError as error:
                refused[index] = error.error
                found.append(b"")
        return found


class RocketmqSink(TransactionalSink[RocketmqSinkConfig]):
    """Rows as messages of RocketMQ's topics.

    At least once: after a crash, or an answer that did not come, rows are sent again. Rows with one
    key go to one queue, in their order.
    """

    name = "rocketmq-sink"
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.HOST,)

    @classmethod
    def check(cls, config: RocketmqSinkConfig) -> None:
        """Ask the name servers for the brokers, and connect to these."""
        cluster = Cluster(config)
        try:
            for address in cluster.list_masters().values():
                cluster.remoting.channel(address)
        finally:
            cluster.close()

    def connect(self, task_id: str, epoch: int) -> None:
        """Get ready to send."""
        self._task_id = task_id
        self._key_columns: dict[str, tuple[str, ...]] = {}
        self._converters: dict[int, Converters] = {}
        self.reports_columns = not self.config.dead_letters and has_columns(
            self._slot_converters(_NO_SLOT).value
        )
        self._originals: Originals | None = None
        self._spill = Spill(_MEMORY_BYTES, "rocketmq.memory", "rocketmq.spill_failed")
        self._cluster = Cluster(self.config)
        batch_bytes = min(_BATCH_BYTES, self.config.max_message_size)
        self._sender = Sender(
            self._cluster, self.config.producer_group, batch_bytes, self.stopping.wait
        )
        self._turn = 0

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the newest schema of a topic, where a registry has them."""
        return columns_of(self._slot_converters(_NO_SLOT).value, self.config.topic_of(dataset))

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Create the topic when it does not exist."""
        config = self.config
        topic = config.topic_of(dataset)
        if not TOPIC_NAME.fullmatch(topic):
            raise SchemaError(
                "rocketmq.topic_name",
                f"{topic!r} cannot be the name of a topic: it has other characters than letters, "
                "digits, `_`, `-`, `%` and `|`, or not 1 to 127 of them",
                fix="Set `topic` to a name, or change the dataset's by the transform RegexRouter.",
                dataset=dataset,
            )
        _require_columns(dataset, schema, config)
        self._key_columns[dataset] = tuple(key_columns)
        nothing = _keyed(pa.RecordBatch.from_pylist([], schema), config, {})
        self._encoder(_NO_SLOT, dataset, schema).encode(nothing)  # asks a schema registry
        if config.topic_queues and self._cluster.ensure_topic(topic, config.topic_queues):
            return [f"created topic {topic}"]
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for messages that are not sent yet."""
        topic, encoder = self.config.topic_of(dataset), self._encoder(slot, dataset, schema)
        return MessageStaging(topic, self.config, encoder, self._spill)

    def _encoder(self, slot: int, dataset: str, schema: pa.Schema) -> _Encoder:
        """Return what makes messages of rows. A slot keeps its converters, which remember
        schemas.
        """
        config = self.config
        if config.dead_letters == "messages":
            if self._originals is None:
                self._originals = Originals(Cluster(config), CONSUMER_GROUP)
            return DeadLetterEncoder("rocketmq", dataset, schema, self._originals.read)
        if config.dead_letters:
            return DeadLetterEncoder("rocketmq", dataset, schema, None)
        schema = _keyed(pa.RecordBatch.from_pylist([], schema), config, {}).schema
        topic, keys = config.topic_of(dataset), self._key_columns.get(dataset, ())
        return MessageEncoder("rocketmq", topic, schema, keys, self._slot_converters(slot))

    def _slot_converters(self, slot: int) -> Converters:
        if slot not in self._converters:
            self._converters[slot] = self.config.open_converters()
        return self._converters[slot]

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Send all messages: they are stored before the offsets are (invariant 1)."""
        self._sender.reset()
        number = 0
        for staging in staged:
            assert isinstance(staging, MessageStaging)  # noqa: S101 - `stage` made it
            for part in staging.parts():
                self._put(staging.topic, part, txn_id, number)
                number += part.num_rows
        self._sender.flush()
        for staging in staged:
            staging.discard()
        return b""

    def _put(self, topic: str, part: pa.RecordBatch, txn_id: int, number: int) -> None:
        """Give messages to their queues. Those without a key go to one queue, and the next part's
        to the next one.
        """
        queues = self._sender.queues(topic)
        self._turn += 1
        lanes: dict[int, list[bytes]] = {}
        last = pc.max(part.column("queue")).as_py()
        if last is not None and last >= len(queues):
            raise _no_queue(last, topic, len(queues))
        columns = [column.to_pylist() for column in part.columns]
        for body, properties, hashed, place in zip(*columns, strict=True):
            number += 1
            name = row_id(self._task_id, txn_id, number, hashed, body)
            named = b"%s%s\x01%s\x02" % (properties, ID, name)
            chosen = place
            if chosen is None and hashed is not None:
                chosen = queue_of(hashed, len(queues))
            elif chosen is None:
                chosen = self._turn % len(queues)
            lanes.setdefault(chosen, []).append(encode_message(body, named))
        for chosen, messages in lanes.items():
            self._sender.put(topic, queues[chosen], messages)

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Leave the brokers."""
        if (cluster := getattr(self, "_cluster", None)) is not None:
            cluster.close()
        if (originals := getattr(self, "_originals", None)) is not None:
            originals.close()
        for converters in getattr(self, "_converters", {}).values():
            converters.close()


def _fit_reasons(
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a dead letter that can be properties. Why it failed is cut to its
    beginning; what it says of an earlier failure gives way.
    """
    found: dict[str, bytes | None] = {}
    for name, value in headers or ():
        found[name] = _fit_reason(value or b"") if name.startswith(_REASON) else value
    return list(found.items())


def _fit_reason(value: bytes) -> bytes:
    text = value[:_MAX_REASON_BYTES].decode(errors="ignore")
    return text.translate(_SEPARATORS).encode() or b"-"


def _require_columns(dataset: str, schema: pa.Schema, config: RocketmqSinkConfig) -> None:
    for path, names in (
        ("keys.columns", config.keys_columns),
        ("tags.column", (config.tags_column,) if config.tags_column else ()),
    ):
        for name in names:
            is_text = name in schema.names and _is_text(schema.field(name).type)
            if not is_text:
                raise SchemaError(
                    "rocketmq.no_column",
                    f"rows of {dataset!r} have no column {name!r} of texts or whole numbers",
                    fix=f"Correct `{path}`.",
                    dataset=dataset,
                )


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
    )


def _keyed(
    rows: pa.RecordBatch, config: RocketmqSinkConfig, refused: dict[int, ConnectorError]
) -> pa.RecordBatch:
    """Return rows with the key that `keys.columns` make, where they do. A text with spaces would be
    several keys.
    """
    if not config.keys_columns:
        return rows
    texts = [rows.column(name).cast(pa.string()) for name in config.keys_columns]
    for name, text in zip(config.keys_columns, texts, strict=True):
        has_space = pc.fill_null(pc.match_substring_regex(text, r"\s"), fill_value=False)
        for index in pc.indices_nonzero(has_space).to_pylist():
            refused[index] = DataError(
                "rocketmq.key",
                f"the text of the column {name!r} has a space, and KEYS are separated by spaces",
                fix="Leave the column out of `keys.columns`, or change it by a transform.",
            )
    parts = [pc.fill_null(text, "") for text in texts]
    joined = pc.replace_substring_regex(pc.binary_join_element_wise(*parts, " "), " +", " ")
    joined = pc.utf8_trim(joined, " ")
    key = pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined)
    if KEY in rows.schema.names:
        return rows.set_column(rows.schema.get_field_index(KEY), KEY, key)
    return rows.append_column(KEY, key)


def _bodies(
    rows: pa.RecordBatch, values: pa.Array, refused: dict[int, ConnectorError]
) -> list[bytes]:
    """Return the bodies of messages. That of a deleted row is empty, and no other may be."""
    dead = np.zeros(rows.num_rows, bool)
    if OP in rows.schema.names:
        dead = np.asarray(pc.fill_null(pc.equal(rows.column(OP), int(Op.DELETE)), False))
    empty = np.asarray(pc.fill_null(pc.equal(pc.binary_length(values), 0), True))
    for index in np.nonzero(empty & ~dead)[0].tolist():
        refused.setdefault(
            index,
            DataError(
                "rocketmq.empty_body",
                "the value of the row is empty, and a message without a body means a deleted row",
                fix="Leave such rows out by a transform.",
            ),
        )
    return [value or b"" for value in values.to_pylist()]


def _no_queue(number: int, topic: str = "", queues: int = 0) -> DataError:
    expected = f"{topic} has {queues}: 0 to {queues - 1}" if topic else "expected 0 or more"
    return DataError(
        "rocketmq.no_queue",
        f"`__partition` of the row is {number}, {expected}",
        fix="Give the topic more queues, or correct `__partition` at the source; with null, the "
        "key chooses the queue.",
    )


def _too_large(size: int, properties: int, limit: int) -> DataError:
    return DataError(
        "rocketmq.too_large",
        f"the message has {size} bytes, {properties} of them properties; {limit} and "
        f"{MAX_PROPERTIES_BYTES - _OVERHEAD_BYTES} are allowed",
        fix="Raise `max.message.size`, and `maxMessageSize` of the brokers.",
    )
