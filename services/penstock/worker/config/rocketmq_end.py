"""The topic's end of a connector whose topics are RocketMQ's: `rocketmq-sink` or
`rocketmq-source`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.connector_config.settings import ConnectorSettings
from penstock.model.connector import ConnectorKind

SERVERS: Final = "namesrv.addr"

_OTHERS: Final = "rocketmq."
"""Prefix of a node's keys that are those of `rocketmq-source` and `rocketmq-sink`."""

PREFIXES: Final = (SERVERS, _OTHERS)

_OF_OTHERS: Final[Mapping[ConnectorKind, tuple[str, ...]]] = {
    ConnectorKind.SOURCE: ("consume.", "consumer.", "batch."),
    ConnectorKind.SINK: ("topic.", "producer.", "max.message.", "keys.", "tags."),
}
"""Prefixes of keys that belong to the topic's end of connectors of the other kind."""

_AS_THEY_WERE: Final = frozenset({"keys.columns", "tags.column"})
"""Keys of messages that are made of rows, and not of dead letters."""

_BEGINNINGS: Final = {"earliest": "first", "latest": "last", "fail": "first"}
_LOST: Final = {"earliest": "first", "latest": "last", "fail": "fail"}


def source_end(
    node: Mapping[str, str], config: Mapping[str, str], settings: ConnectorSettings
) -> dict[str, str]:
    """Return the keys of the sink that a source's rows go to."""
    keys = _of_node(node, ConnectorKind.SOURCE)
    if "topic.partitions" in config:
        keys["topic.queues"] = str(settings.topic_partitions)
    return keys | {"connector.class": "rocketmq-sink", "topic": "${dataset}", "positions": "true"}


def sink_end(
    node: Mapping[str, str], config: Mapping[str, str], settings: ConnectorSettings
) -> dict[str, str]:
    """Return the keys of the source that a sink's rows come from."""
    keys = _of_node(node, ConnectorKind.SINK)
    if "auto.offset.reset" in config or "consume.from.where" not in keys:
        keys.pop("consume.timestamp", None)
        keys |= _beginning(settings.offset_reset)
    keys.setdefault("consume.offset.lost", _LOST.get(settings.offset_reset, "first"))
    return keys | {"connector.class": "rocketmq-source"}


def _beginning(reset: str) -> dict[str, str]:
    if reset not in _BEGINNINGS:
        return {"consume.from.where": "timestamp", "consume.timestamp": reset}
    return {"consume.from.where": _BEGINNINGS[reset]}


def dead_letter_end(
    node: Mapping[str, str], _: Mapping[str, str], settings: ConnectorSettings
) -> dict[str, str]:
    """Return the keys of the sink that dead letters go to."""
    keys = _of_node(node, ConnectorKind.SOURCE)
    kept = {key: value for key, value in keys.items() if key not in _AS_THEY_WERE}
    return kept | {
        "connector.class": "rocketmq-sink",
        "topic": settings.dead_letter_topic,
    }


def _of_node(node: Mapping[str, str], kind: ConnectorKind) -> dict[str, str]:
    keys = {SERVERS: node[SERVERS]}
    for key, value in node.items():
        name = key.removeprefix(_OTHERS)
        is_other = name.startswith(_OF_OTHERS[kind])
        is_other |= name == "tags" and kind is ConnectorKind.SOURCE
        if key.startswith(_OTHERS) and not is_other:
            keys[name] = value
    return keys
