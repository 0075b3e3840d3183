"""What a connector can be told: its plugin's keys, and ours beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from penstock.convert.registry import KINDS as CONVERTERS
from penstock.model.config_def import ConfigKey, written
from penstock.model.described import DescribedConnector, DescribedKey
from penstock.plugin import Kind, PluginHost
from penstock.transform.registry import PREDICATES, TRANSFORMS
from penstock.wire.built_in import BuiltIn
from penstock.worker.admin.validation import SIMPLE
from penstock.worker.config.settings import KEYS
from penstock.worker.dead_letters.replay import REPLAY_KEYS

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


PLUGIN: Final = "penstock"
"""What the plugin of built-in things is called."""

_HEADERS: Final = "header_converter"


@dataclass(frozen=True, slots=True)
class _Part:
    """One of them: its names, the words of Kafka Connect for what it is, its keys."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    keys: tuple[ConfigKey, ...]


def list_built_in() -> list[BuiltIn]:
    """Return all that there are, each under its own name and under each class name."""
    found = {
        BuiltIn(name, word, version(PLUGIN))
        for part in _parts()
        for number, name in enumerate(part.names)
        if not number or "." in name
        for word in part.types
    }
    return sorted(found, key=lambda one: (one.type, one.name))


def find_built_in(name: str) -> DescribedConnector | None:
    """Return what one can be told; None when nothing built in has this name."""
    for part in _parts():
        if name in part.names:
            keys = tuple(_described(n, key) for n, key in enumerate(part.keys, 1))
            return DescribedConnector(name, "", PLUGIN, version(PLUGIN), keys)
    return None


def _described(order: int, key: ConfigKey) -> DescribedKey:
    return described_key(order, key, "")


def _parts() -> Iterator[_Part]:
    for transform in dict.fromkeys(TRANSFORMS.values()):
        yield _Part(transform.names, ("transformation",), transform.keys)
    for predicate in dict.fromkeys(PREDICATES.values()):
        yield _Part(predicate.names, ("predicate",), predicate.keys)
    for converter in CONVERTERS:
        yield _Part(converter.names, ("converter", _HEADERS), converter.keys)
    yield _Part(SIMPLE, (_HEADERS,), ())
