"""Keys of Kafka Connect that configurations carry along without effect here: still, what is wrong
with them is told, as Kafka Connect does. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from penstock.convert.registry import converter
from penstock.model.errors import ConfigError, Diagnostic, Severity
from penstock.plugin import Kind

SIMPLE: Final = (
    "simple",
    "SimpleHeaderConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
)
"""Names of the converter that headers alone have: theirs are texts here anyhow."""

_ENDS: Final = ("key.converter", "value.converter", "header.converter")
_GROUPS: Final = "topic.creation.groups"
_OTHERS: Final = ("io.confluent.connect.", "io.apicurio.registry.", "com.amazonaws.services.")
"""Packages whose converters come with many configurations. They are not here, and nobody misses
them: rows of topics are columns."""


def carried_findings(
    config: Mapping[str, str], served: Callable[[str], Kind | None]
) -> list[Diagnostic]:
    """Return what is wrong; `served` tells what a plugin has under a name."""
    found = [one for key in _ENDS for one in _of_converter(key, config, served)]
    return [*found, *_of_groups(config)]


def _of_converter(
    path: str, config: Mapping[str, str], served: Callable[[str], Kind | None]
) -> Iterator[Diagnostic]:
    name = config.get(path, "").strip()
    if not name or name.startswith(_OTHERS) or (path.startswith("header") and name in SIMPLE):
        return
    kind = served(name)
    if kind is Kind.CONVERTER:
        return
    if kind is not None:
        yield _another_kind(path, name, kind)
        return
    prefix = f"{path}."
    own = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
    own.pop("plugin.version", None)  # a warning says already that it has no effect
    try:
        converter(name, own)
    except ConfigError as error:
        yield _at(error.diagnostic, path)


def _at(found: Diagnostic, path: str) -> Diagnostic:
    """A key that a converter does not have is passed over by Kafka Connect."""
    unknown = found.code == "config.unknown_key"
    where = f"{path}.{found.config_path}" if found.config_path else path
    severity = Severity.WARNING if unknown else found.severity
    return replace(found, config_path=where, severity=severity)


def _of_groups(config: Mapping[str, str]) -> Iterator[Diagnostic]:
    groups = [one.strip() for one in config.get(_GROUPS, "").split(",") if one.strip()]
    twice = sorted({one for one in groups if groups.count(one) > 1})
    if twice:
        yield ConfigError(
            "config.repeated",
            f"`{_GROUPS}` names {', '.join(twice)[:200]} more than once",
            fix="Name each group once.",
            config_path=_GROUPS,
        ).diagnostic


def _another_kind(path: str, name: str, kind: Kind) -> Diagnostic:
    return ConfigError(
        "plugin.wrong_kind",
        f"`{name[:200]}` is a {kind}, and no converter",
        fix="Name a converter, or leave the key out: rows of topics are columns here.",
        config_path=path,
    ).diagnostic
