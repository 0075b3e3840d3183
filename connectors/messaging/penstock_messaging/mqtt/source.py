"""Messages of MQTT's topics as rows, at least once: they are acknowledged once they are
committed.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock_connector import (
    ApplyAction,
    BadRow,
    Batch,
    ConnectorError,
    Partition,
    RawRow,
    Source,
    key,
)
from penstock_connector.connection import CONNECT_WITHIN_S
from penstock_connector.messages import HEADERS_TYPE, MESSAGE_SCHEMA, MessageDecoder
from penstock_connector.raw_message_reader import read_given_once
from penstock_connector.raw_messages import raw_message
from penstock_messaging.mqtt.broker import Session, connect_once
from penstock_messaging.mqtt.config import MqttConfig, conflict, invalid
from penstock_messaging.mqtt.properties import headers_of
from penstock_messaging.mqtt.subscription import Delivery, Filters, Start, Subscription
from penstock_messaging.mqtt.topics import problem_of_filter

_RETAINED: Final = ("always", "new", "never")
_LONGEST_EXPIRY_S: Final = 0xFFFFFFFF
_MOST_SESSIONS: Final = 1000
_WAIT_S: Final = 0.1


@dataclass(frozen=True)
class MqttSourceConfig(MqttConfig):
    """Which topics, and how."""

    mqtt_topics: tuple[str, ...] = key(
        doc="Filters of topics, separated by commas: `+` is any level, `#` all that follow.",
        required=True,
        group="Reading",
    )
    kafka_topic: str = key("mqtt", doc="Dataset of the rows.", group="Reading")
    mqtt_qos: int = key(
        1,
        doc="With 1, messages are given again until they are committed. With 0, those are lost "
        "that come while nobody reads. 2 reads with 1: a message of QoS 2 leaves the broker "
        "before it is stored.",
        group="Reading",
    )
    mqtt_clean_session_enabled: bool = key(
        False,
        doc="Whether the broker forgets the session when the connection ends, and with it all "
        "messages that come before the next one.",
        group="Reading",
    )
    mqtt_session_expiry: float = key(
        604_800.0,
        doc="How long the broker keeps the session without a connection.",
        type="duration",
        group="Reading",
    )
    mqtt_session_lost: str = key(
        "fail",
        doc="What to do when the broker has the session no more, and so messages are lost: `fail`, "
        "or `continue` with what comes now.",
        choices=("fail", "continue"),
        group="Reading",
    )
    mqtt_share_group: str = key(
        "",
        doc="Group of a shared subscription: all tasks, and other clients of the group, get a part "
        "of the messages each. Empty: one task gets all.",
        group="Reading",
    )
    mqtt_retained_handling: str = key(
        "new",
        doc="When retained messages are given: `always` at a connection, with a `new` "
        "subscription, or `never`.",
        choices=_RETAINED,
        group="Reading",
    )
    mqtt_receive_maximum: int = key(
        10_000,
        doc="Most messages that are read and not committed yet; a broker may allow fewer.",
        group="Reading",
    )
    batch_rows: int = key(5_000, doc="Most messages of a batch.", group="Reading")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        for name in self.mqtt_topics:
            if problem := problem_of_filter(name):
                why = f"{name[:200]!r} is no filter of topics: {problem}"
                raise invalid("mqtt.topics", why, "Write filters as `plant/+/temperature`.")
        for path, is_valid, fix in (
            ("kafka.topic", bool(self.kafka_topic), "Name a dataset, or remove the key."),
            ("mqtt.qos", self.mqtt_qos in {0, 1, 2}, "Use 0, 1 or 2."),
            (
                "mqtt.receive.maximum",
                1 <= self.mqtt_receive_maximum <= 65_535,
                "Use a number from 1 to 65535.",
            ),
            ("batch.rows", self.batch_rows >= 1, "Use a number above 0."),
            (
                "mqtt.session.expiry",
                1 <= self.mqtt_session_expiry <= _LONGEST_EXPIRY_S,
                "Use a duration from 1s.",
            ),
            (
                "mqtt.share.group",
                not set("/+#\0") & set(self.mqtt_share_group),
                "Use a name without `/`, `+` and `#`.",
            ),
        ):
            if not is_valid:
                raise invalid(path, "it is not valid", fix)
        if self.mqtt_share_group and self.mqtt_retained_handling == "always":
            raise conflict(
                "mqtt.retained.handling",
                "brokers give no retained messages to a group (`mqtt.share.group`)",
                "Remove one of the two.",
            )

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = dict(super().unused_keys())
        if self.mqtt_qos == 2:
            found["mqtt.qos"] = (
                "QoS 1 is used: a message of QoS 2 leaves the broker before it is stored"
            )
        if self.mqtt_clean_session_enabled and self.mqtt_session_lost != "fail":
            found["mqtt.session.lost"] = "with `mqtt.clean.session.enabled` no session is kept"
        return found

    @property
    def session_name(self) -> str:
        """The name that the client ids of all tasks begin with."""
        if self.mqtt_client_id:
            return self.mqtt_client_id
        parts = sorted(map(str, self.servers))
        parts += [self.mqtt_username, self.kafka_topic, self.mqtt_share_group]
        return f"penstock-{hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()}"

    def session(self, number: int) -> Session:
        """Return what a task asks for. Its number is in the name where there are several."""
        is_clean = self.mqtt_clean_session_enabled
        return Session(
            f"{self.session_name}-{number}" if self.mqtt_share_group else self.session_name,
            is_clean,
            0 if is_clean else int(self.mqtt_session_expiry),
            self.mqtt_receive_maximum,
        )

    def filters(self, before: Sequence[str]) -> Filters:
        """Return what is subscribed to; `before` are the filters of an earlier run."""
        group = f"$share/{self.mqtt_share_group}/" if self.mqtt_share_group else ""
        wanted = [f"{group}{one}" for one in dict.fromkeys(self.mqtt_topics)]
        unwanted = [one for one in before if one not in wanted]
        handling = _RETAINED.index(self.mqtt_retained_handling)
        return Filters(wanted, unwanted, min(self.mqtt_qos, 1), handling)


@dataclass(slots=True)
class _Reader:
    """What one partition is read by."""

    key: Mapping[str, Any]
    client_id: str
    filters: Filters
    subscription: Subscription

    def offset(self, number: int) -> dict[str, Any]:
        """Return the offset behind a message."""
        return {"number": number, "filters": list(self.filters.wanted)}


class MqttSource(Source[MqttSourceConfig]):
    """Messages of MQTT's topics as rows.

    At least once: the broker keeps a session, and gives each message until it is acknowledged. That
    is done when its row is committed.
    """

    name = "mqtt-source"
    aliases = ("MqttSourceConnector", "io.confluent.connect.mqtt.MqttSourceConnector")
    needs_commit = True
    replayable = False

    @classmethod
    def plan(
        cls, config: MqttSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return the sessions: of a group one for each task, and those that were there before."""
        sessions = {0}
        if config.mqtt_share_group:
            sessions |= set(range(min(max_tasks, _MOST_SESSIONS)))
            sessions |= {int(one.key["session"]) for one in known if "session" in one.key}
        return [
            Partition({"session": one}, datasets=(config.kafka_topic,)) for one in sorted(sessions)
        ]

    @classmethod
    def check(cls, config: MqttSourceConfig) -> None:
        """Connect, by another name than that of the session."""
        connect_once(config, Session())

    @classmethod
    def apply_action(
        cls, config: MqttSourceConfig, action: ApplyAction, *, last: MqttSourceConfig | None = None
    ) -> Sequence[str]:
        """End the sessions of a connector that is deleted, or has another name for them now."""
        gone = config if action == ApplyAction.DELETE else None
        if action == ApplyAction.UPDATE and last and last.session(0) != config.session(0):
            gone = last if last.session(0).client_id != config.session(0).client_id else None
        if gone is None or gone.mqtt_clean_session_enabled:
            return ()
        ended = []
        for number in range(_MOST_SESSIONS if gone.mqtt_share_group else 1):
            name = gone.session(number).client_id
            if not connect_once(gone, Session(name, is_clean=False)):
                break
            ended.append(f"ended the session {name}")
        return ended

    @classmethod
    def parse_rows(
        cls, config: MqttSourceConfig, rows: Sequence[RawRow]
    ) -> Iterator[Batch | ConnectorError]:
        """Read messages again that could not be read."""
        return read_given_once("mqtt", config.open_converters, rows)

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Open the sessions."""
        config = self.config
        self._arrived = threading.Event()
        self._pending: deque[Batch] = deque()
        self._readers: deque[_Reader] = deque()
        self._decoder = MessageDecoder("mqtt", config.kafka_topic, config.open_converters())
        for partition in partitions:
            before = partition.offset or {}
            session = config.session(int(partition.key["session"]))
            filters = config.filters([str(one) for one in before.get("filters", ())])
            start = Start(
                int(before.get("number", 0)),
                partition.offset is not None,
                config.mqtt_session_lost == "continue",
            )
            found = Subscription(config, session, filters, start, self._arrived.set)
            reader = _Reader(partition.key, session.client_id, filters, found)
            self._readers.append(reader)
            found.open(self.stopping.wait, CONNECT_WITHIN_S)
            if before.get("filters") != list(filters.wanted):  # from now on the session must exist
                offset = reader.offset(start.number)
                self._pending.append(Batch(partition=reader.key, offset=offset))

    def read_batch(self) -> Batch | None:
        """Return messages of one session; the sessions take turns."""
        for _ in range(len(self._readers)):
            if self._pending:
                break
            reader = self._readers[0]
            self._readers.rotate(-1)
            if found := reader.subscription.take(self.config.batch_rows):
                self._pending.extend(self._batches(reader, found))
        self._count()
        return self._pending.popleft() if self._pending else None

    def wait(self, timeout: float) -> None:
        """Block until there are messages."""
        self._arrived.wait(min(timeout, _WAIT_S))
        self._arrived.clear()

    def ack(self, offsets: Mapping[str, Mapping[str, Any]]) -> None:
        """Acknowledge what is committed."""
        for reader in self._readers:
            if (offset := offsets.get(Partition(reader.key).id)) is not None:
                reader.subscription.acknowledge(int(offset["number"]))

    def _count(self) -> None:
        """Count what came and is no row."""
        for reader in self._readers:
            dropped, redelivered = reader.subscription.take_counts()
            if dropped:
                self.metrics.add("messages_dropped_total", dropped)
            if redelivered:
                self.metrics.add("messages_redelivered_total", redelivered)

    def _batches(self, reader: _Reader, found: Sequence[Delivery]) -> list[Batch]:
        now_ms = time.time_ns() // 1_000_000
        messages = pa.RecordBatch.from_arrays(
            [
                pa.array([one.message.topic.encode() for one in found], pa.binary()),
                pa.array([bytes(one.message.payload) or None for one in found], pa.binary()),
                pa.array([now_ms] * len(found), pa.int64()),
                pa.array([headers_of(one, reader.client_id) for one in found], HEADERS_TYPE),
            ],
            schema=MESSAGE_SCHEMA,
        )
        decoded, refused = self._decoder.decode(messages)
        dataset = self.config.kafka_topic
        batches = [
            Batch(one.rows, reader.key, dataset=dataset, key_columns=one.key_columns)
            for one in decoded
        ] or [Batch(partition=reader.key, dataset=dataset)]
        batches[-1].bad_rows = [
            BadRow(
                raw_message(messages, one.index).to_bytes(),
                one.error,
                {"number": found[one.index].number},
            )
            for one in refused
        ]
        batches[-1].offset = reader.offset(found[-1].number)
        return batches

    def close(self) -> None:
        """Leave the brokers; the sessions stay."""
        for reader in getattr(self, "_readers", ()):
            reader.subscription.close()
        if (decoder := getattr(self, "_decoder", None)) is not None:
            decoder.close()
