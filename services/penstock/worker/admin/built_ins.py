"""Lists and describes what is built in: transforms, predicates and converters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Final

from penstock.model.config_def import ConfigKey, ConnectorDefinition
from penstock.model.plugins import BuiltInPlugin
from penstock.transform.registry import PREDICATES_BY_NAME, TRANSFORMS_BY_NAME
from penstock.worker.admin.framework_keys import describe_key
from penstock_converters.registry import KINDS as CONVERTERS
from penstock_converters.registry import SIMPLE_HEADER_CONVERTER

PLUGIN: Final = "penstock"
"""Plugin name of everything that is built in."""

TRANSFORM: Final = "transformation"
PREDICATE: Final = "predicate"
CONVERTER: Final = "converter"
HEADER_CONVERTER: Final = "header_converter"


@dataclass(frozen=True, slots=True)
class _BuiltIn:
    """A built-in: its names, its types in Kafka Connect's terms, its keys."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    keys: tuple[ConfigKey, ...]


@cache
def list_built_ins() -> tuple[BuiltInPlugin, ...]:
    """Return all built-ins, each under its short name and each of its class names."""
    own_version = version(PLUGIN)
    found = {
        BuiltInPlugin(name, word, own_version)
        for part in _built_ins()
        for number, name in enumerate(part.names)
        if not number or "." in name
        for word in part.types
    }
    return tuple(sorted(found, key=lambda one: (one.type, one.name)))


@cache
def names_of_type(type_: str) -> tuple[str, ...]:
    """Return the names of the built-ins of a type."""
    return tuple(one.name for one in list_built_ins() if one.type == type_)


def find_built_in(name: str, type_: str = "") -> ConnectorDefinition | None:
    """Return the definition of a built-in, of this type where one is named; None for an unknown
    name.
    """
    for part in _built_ins():
        if name in part.names and type_ in {"", *part.types}:
            keys = tuple(describe_key(n, key) for n, key in enumerate(part.keys, 1))
            return ConnectorDefinition(name, "", PLUGIN, version(PLUGIN), keys)
    return None


def _built_ins() -> Iterator[_BuiltIn]:
    for transform in dict.fromkeys(TRANSFORMS_BY_NAME.values()):
        yield _BuiltIn(transform.names, (TRANSFORM,), transform.keys)
    for predicate in dict.fromkeys(PREDICATES_BY_NAME.values()):
        yield _BuiltIn(predicate.names, (PREDICATE,), predicate.keys)
    for known in CONVERTERS:
        keys = tuple(
            ConfigKey(key.name, key.type, key.default, choices=key.choices, doc=key.doc)
            for key in known.keys
        )
        yield _BuiltIn(known.names, (CONVERTER, HEADER_CONVERTER), keys)
    yield _BuiltIn(SIMPLE_HEADER_CONVERTER, (HEADER_CONVERTER,), ())
