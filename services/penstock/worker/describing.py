"""What a connector can be told: its plugin's keys, and ours beside them."""

from __future__ import annotations

from typing import Final

from penstock.model.config_def import ConfigKey, written
from penstock.model.described import DescribedConnector, DescribedKey
from penstock.plugin import Kind, PluginHost
from penstock.worker.replay_rules import REPLAY_KEYS
from penstock.worker.settings import KEYS

_OF_SINKS: Final = frozenset({"topics", "topics.regex", "auto.offset.reset"})
_OF_SOURCES: Final = frozenset(
    {"topic", "topic.partitions", "topic.retention", "topic.retention.bytes"}
)


_OF_REPLAYS: Final = frozenset(key.name for key in REPLAY_KEYS)
"""Keys that are written by a command, not by people."""


async def described(host: PluginHost, name: str, version: str = "") -> DescribedConnector:
    """Return what a connector, a transform or a converter can be told.

    Raises:
        PenstockError: it is not installed, or its plugin cannot be started.
    """
    process = await host.acquire(name, version)
    spec = process.spec
    return DescribedConnector(
        spec.name,
        spec.kind.value if spec.kind else "",
        process.plugin,
        process.description.version,
        spec.keys,
        framework_keys(spec.kind),
    )


def framework_keys(kind: Kind | None) -> tuple[DescribedKey, ...]:
    """Return the keys that we read of a source or a sink, in the order of our own list."""
    if kind not in {Kind.SOURCE, Kind.SINK}:
        return ()
    others = (_OF_SINKS if kind is Kind.SOURCE else _OF_SOURCES) | _OF_REPLAYS
    return tuple(described_key(n, key) for n, key in enumerate(KEYS, 1) if key.name not in others)


def described_key(order: int, key: ConfigKey, group: str = "Common") -> DescribedKey:
    """Return one of our keys as the protocol tells it."""
    return DescribedKey(
        name=key.name,
        type="class" if key.name == "connector.class" else key.type,
        default=None if key.default is None else written(key),
        required=key.required or key.name == "connector.class",
        sensitive=key.sensitive or key.type == "password",
        documentation=key.doc,
        importance="high" if key.required or key.name == "connector.class" else "low",
        group=group,
        order=order,
        choices=key.choices,
    )
