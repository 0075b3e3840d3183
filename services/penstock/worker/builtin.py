"""What needs no plugin: transforms, predicates and converters that every worker has, by their names
here and by Kafka Connect's class names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from penstock.convert.registry import KINDS as CONVERTERS
from penstock.model.config_def import ConfigKey
from penstock.model.described import DescribedConnector, DescribedKey
from penstock.transform.registry import PREDICATES, TRANSFORMS
from penstock.wire.built_in import BuiltIn
from penstock.worker.carried import SIMPLE
from penstock.worker.describing import described_key

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
