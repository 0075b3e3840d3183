"""The keys that a configuration adds to a form: those of its transforms and predicates, of its
converters, and of its groups of topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.model.config_def import ConfigKey, ConfigValue, KeyDefinition
from penstock.model.errors import PenstockError
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.host import PluginHost
from penstock.transform.configuration import MEMBER_KEYS, PREDICATE_KEYS
from penstock.worker.admin.built_ins import (
    CONVERTER,
    HEADER_CONVERTER,
    PREDICATE,
    TRANSFORM,
    find_built_in,
    names_of_type,
)
from penstock.worker.admin.framework_keys import CONVERTER_KEYS, describe_key
from penstock_values.topic_creation import DEFAULT, GROUPS
from penstock_values.topic_creation import PREFIX as TOPIC_CREATION

MAX_NAMES: Final = 100
"""Transforms, predicates or groups of topics whose keys are described (invariant 12). A list of a
configuration may have 250,000 names."""

_PATTERNS: Final = (
    ConfigKey("include", "list", required=True, doc="Patterns of topics that belong to the group."),
    ConfigKey("exclude", "list", (), doc="Patterns of topics that do not."),
)
_SIZES: Final = (
    ConfigKey("replication.factor", "int", -1, doc="Replicas; -1: the default of the brokers."),
    ConfigKey("partitions", "int", -1, doc="Partitions; -1: the default."),
)
_KINDS: Final = {TRANSFORM: Kind.TRANSFORM, CONVERTER: Kind.CONVERTER}
"""Types of built-ins that plugins may serve, too."""


class AddedKeys(NamedTuple):
    """Definitions of added keys, and values of those for which a form offers some."""

    keys: tuple[KeyDefinition, ...] = ()
    values: tuple[ConfigValue, ...] = ()


async def find_added_keys(host: PluginHost, config: Mapping[str, str]) -> AddedKeys:
    """Return the keys that a configuration adds, as far as it can be read: what is wrong with it,
    such as an unknown type, is found by its validation.
    """
    keys: list[KeyDefinition] = []
    predicates = _names(config, "predicates")
    offered = {key: names_of_type(_converter_type(key)) for key in CONVERTER_KEYS}
    offered |= dict.fromkeys(
        (f"{path}.predicate" for path in _paths(config, "transforms")), predicates
    )
    for section, type_ in (("transforms", TRANSFORM), ("predicates", PREDICATE)):
        for path in _paths(config, section):
            keys += await _member_keys(host, config, path, type_)
            offered[f"{path}.type"] = names_of_type(type_)
    for key in CONVERTER_KEYS:
        own = await _keys_of_type(host, config.get(key, ""), _converter_type(key))
        group = key.replace(".", " ").capitalize()
        keys += _placed(own, key, group)
    keys += _topic_keys(config)
    defaults = {key.name: key.default for key in keys}
    values = (
        ConfigValue(name, config.get(name, defaults.get(name)), recommended_values=names)
        for name, names in offered.items()
    )
    return AddedKeys(tuple(keys), tuple(values))


async def _member_keys(
    host: PluginHost, config: Mapping[str, str], path: str, type_: str
) -> list[KeyDefinition]:
    """Return the keys of a transform or a predicate."""
    chosen = config.get(f"{path}.type", config.get(f"{path}.class", ""))
    version = config.get(f"{path}.plugin.version", "")
    member = [describe_key(0, key) for key in MEMBER_KEYS]
    member[0] = replace(member[0], type="class", importance="high")
    own = await _keys_of_type(host, chosen, type_, version)
    tail = PREDICATE_KEYS if type_ == TRANSFORM else ()
    section, _, name = path.partition(".")
    found = (*member, *own, *(describe_key(0, key) for key in tail))
    return _placed(found, path, f"{section.capitalize()}: {name}")


async def _keys_of_type(
    host: PluginHost, name: str, type_: str, version: str = ""
) -> tuple[KeyDefinition, ...]:
    """Return the keys of a built-in or of what a plugin serves; none of an unknown name."""
    name = name.strip()
    built_in = find_built_in(name, type_)
    if built_in is not None:
        return built_in.keys
    if not name or type_ not in _KINDS:
        return ()
    try:
        # what is installed since the last look is not looked for: there may be many unknown names
        if host.registry.find(name, version)[1].kind is not _KINDS[type_]:
            return ()
        return (await host.acquire(name, version)).spec.keys
    except PenstockError:
        return ()


def _placed(keys: Iterable[KeyDefinition], path: str, group: str) -> list[KeyDefinition]:
    """Return keys with their full names, in their order in a group."""
    return [
        replace(key, name=f"{path}.{key.name}", group=group, order=order)
        for order, key in enumerate(keys, 1)
    ]


def _topic_keys(config: Mapping[str, str]) -> list[KeyDefinition]:
    if not any(key.startswith(TOPIC_CREATION) for key in config):
        return []
    found: list[KeyDefinition] = []
    for name in (DEFAULT, *_names(config, TOPIC_CREATION + GROUPS)):
        keys = _SIZES if name == DEFAULT else (*_PATTERNS, *_SIZES)
        described = [describe_key(0, key) for key in keys]
        found += _placed(described, f"{TOPIC_CREATION}{name}", f"Topic Creation: {name}")
    return found


def _names(config: Mapping[str, str], key: str) -> tuple[str, ...]:
    names = (name.strip() for name in config.get(key, "").split(","))
    return tuple(dict.fromkeys(name for name in names if name))[:MAX_NAMES]


def _paths(config: Mapping[str, str], section: str) -> list[str]:
    return [f"{section}.{name}" for name in _names(config, section)]


def _converter_type(key: str) -> str:
    return HEADER_CONVERTER if key.startswith("header") else CONVERTER
