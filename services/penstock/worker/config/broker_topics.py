"""Topics of Kafka instead of embedded ones: the topic's end of a connector is a plugin, too.

A source whose topics are Kafka's is a pipeline into `kafka-sink`, a sink one out of `kafka-source`.
What those need is in the file of the node (`bootstrap.servers`, logins, converters) and in the
connector (`topics`, converters).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.connector_config.keys import TOPICS_BACKEND
from penstock.connector_config.sections import ConfigSections
from penstock.connector_config.settings import ConnectorSettings
from penstock.model.config_def import ConfigKey, no_effect_warning
from penstock.model.config_redaction import is_sensitive_key
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic
from penstock.telemetry.redaction import register_secret

BACKEND: Final = ConfigKey(
    TOPICS_BACKEND,
    default="",
    choices=("", "embedded", "kafka"),
    doc="Whose topics are: those of the brokers of `bootstrap.servers` (the default where it is "
    "set), or tables in `topics.dir`.",
)

_SERVERS: Final = "bootstrap.servers"
_OFFSETS: Final = "offset.storage.topic"
_RESET: Final = "auto.offset.reset"
_CONVERTERS: Final = ("key.converter", "value.converter")

_CREATION: Final = "topic.creation."
_LOGINS: Final = ("security.protocol", "sasl.", "ssl.")

PREFIXES: Final = (
    _SERVERS, *_LOGINS, *_CONVERTERS, "producer.", "consumer.", "admin.", _CREATION,
    _OFFSETS, "offset.storage.replication.factor",
)  # fmt: skip
"""Prefixes of a node's keys for topics of Kafka, as Kafka Connect names them."""

_CLIENTS: Final[Mapping[ConnectorKind, tuple[str, ...]]] = {
    ConnectorKind.SOURCE: ("producer.", "admin."),
    ConnectorKind.SINK: ("consumer.",),
}
"""Prefixes of the clients that the topic's end of a connector has."""

_ROLES: Final = {ConnectorKind.SOURCE: "sink", ConnectorKind.SINK: "source"}
"""The end of a connector that is a topic."""

_ANY_VERSION: Final = {"connector.plugin.version": "latest"}
"""A version that the connector requires is one of its own plugin."""

_ONLY_EMBEDDED: Final = ("topic.retention", "topic.retention.bytes")


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """Where Kafka's topics are: the node's keys, and whether connectors use them without saying."""

    is_default: bool
    keys: Mapping[str, str]

    def connection_keys(self) -> dict[str, str]:
        """Return the node's keys of a connection: brokers and login. Those of TLS may be of the
        node's own server, where the brokers have none.
        """
        has_tls = self.keys.get("security.protocol", "").upper().endswith("SSL")
        used = (_SERVERS, *(one for one in _LOGINS if has_tls or one != "ssl."))
        return {key: value for key, value in self.keys.items() if key.startswith(used)}


def read_kafka_topics(values: Mapping[str, Any], config: Mapping[str, str]) -> KafkaTopics | None:
    """Return the settings; None when the node has no brokers.

    Raises:
        ConfigError: `config.missing`.
    """
    backend = values[BACKEND.name]
    is_default = backend == "kafka" or (not backend and bool(config.get(_SERVERS)))
    keys = {key: value for key, value in config.items() if key.startswith(PREFIXES)}
    for key, value in keys.items():
        if is_sensitive_key(key):
            register_secret(value)  # invariant 9
    if keys.get(_SERVERS):
        return KafkaTopics(is_default, keys)
    if is_default:
        raise ConfigError(
            "config.missing",
            f"`{BACKEND.name}=kafka` needs `{_SERVERS}`",
            fix=f"Set `{_SERVERS}` to the brokers, such as broker1:9092,broker2:9092.",
            config_path=_SERVERS,
        )
    return None


def uses_kafka(kafka: KafkaTopics | None, backend: str, kind: ConnectorKind) -> bool:
    """Return whether the topics of a connector are Kafka's. `backend` is what it says itself.

    Raises:
        ConfigError: `topics.no_brokers`, `topics.no_mirror`.
    """
    if backend == "embedded" or kind is ConnectorKind.PIPELINE:
        return False
    if backend == "kafka" and kafka is None:
        raise ConfigError(
            "topics.no_brokers",
            f"`{TOPICS_BACKEND}` is kafka, and this worker knows no brokers",
            fix=f"Set `{_SERVERS}` in the file of the workers.",
            config_path=TOPICS_BACKEND,
        )
    is_used = kafka is not None and (kafka.is_default or backend == "kafka")
    if is_used and kind not in _ROLES:
        raise ConfigError(
            "topics.no_mirror",
            "a mirror reads and writes embedded topics only",
            fix=f"Set `{TOPICS_BACKEND}=embedded`, or use a pipeline from `kafka-source` to "
            "`kafka-sink`.",
            config_path=TOPICS_BACKEND,
        )
    return is_used


def with_kafka(
    kafka: KafkaTopics,
    sections: ConfigSections,
    settings: ConnectorSettings,
    kind: ConnectorKind,
    config: Mapping[str, str],
) -> tuple[ConfigSections, list[Diagnostic]]:
    """Return the sections with a plugin at the end that is a topic, and warnings about keys that
    only embedded topics have.
    """
    keys = kafka.connection_keys() | _converter_keys(kafka.keys, config)
    keys |= _client_settings(kafka.keys, config, kind)
    if kind is ConnectorKind.SOURCE:
        keys |= {"connector.class": "kafka-sink", "topic": "${dataset}", **_ANY_VERSION}
        keys |= _topic_keys(kafka.keys, config)
        if "topic.partitions" in sections.framework:
            name = f"{_CREATION}default.partitions"
            keys.setdefault(name, str(settings.topic_partitions))
        ours = replace(sections, sink=keys)
    else:
        keys |= {"connector.class": "kafka-source", **_ANY_VERSION}
        reset = keys.pop("consumer.auto.offset.reset", "")
        if not reset or _RESET in sections.framework:
            reset = "none" if settings.offset_reset == "fail" else settings.offset_reset
        keys[_RESET] = reset
        keys.setdefault("consumer.group.id", f"connect-{config['name']}")
        if settings.topics.names:
            keys["topics"] = ",".join(settings.topics.names)
        if settings.topics.pattern:
            keys["topics.regex"] = settings.topics.pattern.text
        ours = replace(sections, source=keys)
    used: tuple[str, ...] = _CONVERTERS
    if kind is ConnectorKind.SOURCE:
        used += ("offsets.storage.topic", _CREATION)
    unused = tuple(key for key in sections.unused_keys if not key.startswith(used))
    return replace(ours, unused_keys=unused), list(_unused(sections.framework))


def client_kinds(kind: ConnectorKind) -> tuple[str, ...]:
    """Return the prefixes of the clients that a connector has whose topics are Kafka's."""
    return _CLIENTS[kind]


def to_connector_key(key: str, config: Mapping[str, str]) -> str:
    """Return the name that a key of the topic's end has in a connector, where that sets it."""
    client, _, setting = key.partition(".")
    override = f"{client}.override.{setting}"
    return override if override in config else key


def _client_settings(
    node: Mapping[str, str], config: Mapping[str, str], kind: ConnectorKind
) -> dict[str, str]:
    """Return the settings of the clients: those of the node, and over them the connector's."""
    clients = _CLIENTS[kind]
    found = {key: value for key, value in node.items() if key.startswith(clients)}
    for client in clients:
        start = f"{client}override."
        found |= {
            f"{client}{key.removeprefix(start)}": value
            for key, value in config.items()
            if key.startswith(start)
        }
    return found


def _topic_keys(node: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of the topics that a source creates, and of that for its offsets."""
    found = {key: value for key, value in config.items() if key.startswith(_CREATION)}
    if enable := node.get(f"{_CREATION}enable"):
        found[f"{_CREATION}enable"] = enable
    if topic := config.get("offsets.storage.topic") or node.get(_OFFSETS):
        found["offsets.storage.topic"] = topic
    if factor := node.get("offset.storage.replication.factor"):
        found["offsets.storage.replication.factor"] = factor
    return found


def _converter_keys(node: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """Return the converters of a connector: its own, with their keys, else those of the node."""
    found: dict[str, str] = {}
    for name in _CONVERTERS:
        place = config if config.get(name) else node
        found |= {key: place[key] for key in place if key == name or key.startswith(f"{name}.")}
    return found


def _unused(framework: Mapping[str, str]) -> Iterator[Diagnostic]:
    for key in _ONLY_EMBEDDED:
        if key in framework:
            yield no_effect_warning(
                key,
                "the brokers keep messages as their topic says",
                "Set `retention.ms` of the topic at the brokers.",
            )


def topic_role(kind: ConnectorKind) -> str:
    """Return which end of a connector is a topic."""
    return _ROLES[kind]


def reads_kafka_key(kafka: KafkaTopics | None, key: str) -> bool:
    """Return whether a node's key has an effect on connectors that do not say otherwise."""
    return kafka is not None and kafka.is_default and key in kafka.keys
