"""The topic's end of a connector whose topics are Kafka's: `kafka-sink` or `kafka-source`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.connector_config.keys import DLQ_REPLICATION_FACTOR, DLQ_TOPIC
from penstock.connector_config.settings import ConnectorSettings
from penstock.model.connector import ConnectorKind

SERVERS: Final = "bootstrap.servers"

_OFFSETS: Final = "offset.storage.topic"
_OFFSETS_KEY: Final = "offsets.storage.topic"
_FACTOR: Final = "offset.storage.replication.factor"
_CREATION: Final = "topic.creation."
_RESET: Final = "auto.offset.reset"
_LOGINS: Final = ("security.protocol", "sasl.", "ssl.")

PREFIXES: Final = (
    SERVERS, *_LOGINS, "producer.", "consumer.", "admin.", _CREATION, _OFFSETS, _FACTOR,
)  # fmt: skip
"""Prefixes of a node's keys, as Kafka Connect names them."""

NOT_OURS: Final = ("admin.listeners",)
"""Longer prefixes of keys that have another meaning."""

USED: Final[Mapping[ConnectorKind, tuple[str, ...]]] = {
    ConnectorKind.SOURCE: ("offsets.storage.topic", _CREATION),
    ConnectorKind.SINK: (),
}
"""Prefixes of Kafka Connect's keys of a connector that have an effect."""

CLIENTS: Final[Mapping[ConnectorKind, tuple[str, ...]]] = {
    ConnectorKind.SOURCE: ("producer.", "admin."),
    ConnectorKind.SINK: ("consumer.",),
}
"""Prefixes of the clients that the topic's end of a connector has."""

DEAD_LETTER_CLIENTS: Final = ("producer.", "admin.")
"""Those of the sink that dead letters go to."""


MIRROR: Final = "mirror-source"
MIRRORS: Final = frozenset({MIRROR, "mirror-checkpoint-source", "mirror-heartbeat-source"})
"""Sources whose rows are the bytes of messages."""

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"

DEAD_LETTER_KEYS: Final = {
    "topic": DLQ_TOPIC,
    f"{_CREATION}default.replication.factor": DLQ_REPLICATION_FACTOR,
}
"""Keys of that sink that a connector has under another name."""


def source_end(
    node: Mapping[str, str], config: Mapping[str, str], settings: ConnectorSettings
) -> dict[str, str]:
    """Return the keys of the sink that a source's rows go to."""
    keys = _connection(node) | _clients(node, config, CLIENTS[ConnectorKind.SOURCE])
    keys |= {key: value for key, value in config.items() if key.startswith(_CREATION)}
    if enable := node.get(f"{_CREATION}enable"):
        keys[f"{_CREATION}enable"] = enable
    if topic := config.get("offsets.storage.topic") or node.get(_OFFSETS):
        keys["offsets.storage.topic"] = topic
    if factor := node.get(_FACTOR):
        keys["offsets.storage.replication.factor"] = factor
    if "topic.partitions" in config:
        keys.setdefault(f"{_CREATION}default.partitions", str(settings.topic_partitions))
    return keys | {"connector.class": "kafka-sink", "topic": "${dataset}", "positions": "true"}


def with_mirror_end(
    keys: Mapping[str, str], plugin: str, config: Mapping[str, str]
) -> dict[str, str]:
    """Return the keys of the sink of a source of `MIRRORS`: its own topic for offsets is none that
    a mirror in the other direction takes for a foreign one.
    """
    own = mirror_end(plugin, config)
    named = config.get(_OFFSETS_KEY, own[_OFFSETS_KEY])
    return {**own, **keys, _OFFSETS_KEY: named}


def mirror_end(plugin: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that the sink of a source of `MIRRORS` has beside others."""
    alias = config.get("source.cluster.alias", "source")
    separator = config.get("replication.policy.separator", ".")
    of_internal = config.get("replication.policy.internal.topic.separator.enabled", "true")
    dot = separator if of_internal.strip().lower() == "true" else "."
    offsets = {_OFFSETS_KEY: f"mm2-offsets{dot}{alias}{dot}internal"}
    if plugin != MIRROR:
        default = f"{_CREATION}default."
        return {**offsets, f"{default}partitions": "1", f"{default}cleanup.policy": "compact"}
    name = config.get("replication.policy.class", "").rpartition(".")[2]
    return {
        **offsets,
        "positions": "true",
        "offset.syncs.topic": f"mm2-offset-syncs{dot}{alias}{dot}internal",
        "offset.syncs.prefix": "" if name == "IdentityReplicationPolicy" else alias + separator,
    }


def dead_letter_end(
    node: Mapping[str, str], config: Mapping[str, str], settings: ConnectorSettings
) -> dict[str, str]:
    """Return the keys of the sink that dead letters go to."""
    keys = _connection(node) | _clients(node, config, DEAD_LETTER_CLIENTS)
    if topic := node.get(_OFFSETS):
        keys["offsets.storage.topic"] = topic
    if factor := node.get(_FACTOR):
        keys["offsets.storage.replication.factor"] = factor
    return keys | {
        "connector.class": "kafka-sink",
        "topic": settings.dead_letter_topic,
        f"{_CREATION}default.partitions": "1",
        f"{_CREATION}default.replication.factor": config.get(DLQ_REPLICATION_FACTOR, "-1"),
    }


def sink_end(
    node: Mapping[str, str], config: Mapping[str, str], settings: ConnectorSettings
) -> dict[str, str]:
    """Return the keys of the source that a sink's rows come from."""
    keys = _connection(node) | _clients(node, config, CLIENTS[ConnectorKind.SINK])
    reset = keys.pop(f"consumer.{_RESET}", "")
    if not reset or _RESET in config:
        reset = "none" if settings.offset_reset == "fail" else settings.offset_reset
    keys[_RESET] = reset
    keys.setdefault("consumer.group.id", f"connect-{config['name']}")
    return keys | {"connector.class": "kafka-source"}


def _connection(node: Mapping[str, str]) -> dict[str, str]:
    """Return brokers and login. Keys of TLS may be of the node's own server, where the brokers have
    none.
    """
    used = (SERVERS, *(one for one in _LOGINS if has_tls(node) or one != "ssl."))
    return {key: value for key, value in node.items() if key.startswith(used)}


def has_tls(node: Mapping[str, str]) -> bool:
    """Return whether a client of a node reaches the brokers by TLS."""
    protocols = (value for key, value in node.items() if key.endswith("security.protocol"))
    return any(protocol.strip().upper().endswith("SSL") for protocol in protocols)


def _clients(
    node: Mapping[str, str], config: Mapping[str, str], clients: tuple[str, ...]
) -> dict[str, str]:
    """Return the settings of the clients: those of the node, and over them the connector's."""
    found = {key: value for key, value in node.items() if key.startswith(clients)}
    for client in clients:
        start = f"{client}override."
        own = (key for key in config if key.startswith(start))
        found |= {f"{client}{key.removeprefix(start)}": config[key] for key in own}
    return found


def to_connector_key(key: str, config: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Return the name that a key of an end at the brokers has in a connector, where that sets it.
    `names` are those that are others there.
    """
    client, _, setting = key.partition(".")
    override = f"{client}.override.{setting}"
    return override if override in config else names.get(key, key)
