"""Which keys of a configuration are whose. Pure.

A connector's configuration is flat, as Kafka Connect has it: the framework's keys, the chain's and
the plugin's share one mapping. A pipeline has two plugins, so their keys carry `source.` and
`sink.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.model.config_def import combined, did_you_mean, no_effect
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic, nearest
from penstock.worker.config.client_overrides import PREFIXES
from penstock.worker.config.settings import KEYS
from penstock.worker.dead_letters.rejected_rows import LETTERS

FRAMEWORK = frozenset(key.name for key in KEYS)

CHAIN = ("transforms", "predicates")

_TOPICS = "Set `topic.partitions`, `topic.retention` and `topic.retention.bytes` instead."
_COLUMNS = "rows of topics are columns here, and nothing is converted"

FOREIGN: Mapping[str, tuple[str, str]] = {
    "key.converter": (_COLUMNS, ""),
    "value.converter": (_COLUMNS, ""),
    "header.converter": (_COLUMNS, ""),
    "topic.creation.": ("topics are made by the keys of `topic.…`", _TOPICS),
    "exactly.once.support": (
        "offsets of every source are stored with its rows",
        "Set `delivery` to say which guarantee the sink has to give.",
    ),
    "transaction.boundary": (
        "a transaction ends at a checkpoint of the source",
        "Set `flush.interval`, `flush.rows` and `flush.bytes` instead.",
    ),
    "offsets.storage.topic": ("offsets are in the offset service, not in a topic", ""),
    "tasks.max.enforce": ("a connector never has more tasks than `tasks.max`", ""),
}
"""Keys of Kafka Connect that load and have no effect, by how they begin: why, and what to set
instead. Each that is set gets a warning.
"""


def foreign_finding(key: str) -> Diagnostic:
    """Return the warning about a key of Kafka Connect that has no effect."""
    why, instead = next(found for start, found in FOREIGN.items() if key.startswith(start))
    return replace(no_effect(key, why, instead), code="config.not_here_yet")


LETTERS_SINK = f"{LETTERS}sink."
"""Begins the keys of a sink that takes dead letters."""

PLUGIN_KEYS = frozenset({"connector.class", "connector.plugin.version"})
"""Keys by which an end names its plugin, which itself does not get them."""


@dataclass(frozen=True, slots=True)
class Sections:
    """A configuration by owner. An end that is a topic has no keys; `letters` are those of a sink
    of dead letters, `overrides` those of Kafka's clients.
    """

    framework: Mapping[str, str]
    chain: Mapping[str, str]
    source: Mapping[str, str]
    sink: Mapping[str, str]
    letters: Mapping[str, str]
    not_yet: tuple[str, ...]
    overrides: tuple[str, ...]


def sections(config: Mapping[str, str], kind: ConnectorKind) -> Sections:
    """Return the keys of each owner; those of the plugin keep no prefix."""
    framework, chain, plugin, letters = {}, {}, {}, {}
    not_yet, overrides = [], []
    for key, value in config.items():
        if key in FRAMEWORK:
            framework[key] = value
        elif key.startswith(LETTERS_SINK):
            letters[key.removeprefix(LETTERS_SINK)] = value
        elif key.split(".")[0] in CHAIN:
            chain[key] = value
        elif key.startswith(PREFIXES):
            overrides.append(key)
        elif key.startswith(tuple(FOREIGN)):
            not_yet.append(key)
        else:
            plugin[key] = value
    source: Mapping[str, str] = plugin if kind is ConnectorKind.SOURCE else {}
    sink: Mapping[str, str] = plugin if kind is ConnectorKind.SINK else {}
    if kind is ConnectorKind.PIPELINE:
        source, sink = _two_ends(plugin)
    return Sections(
        framework, chain, source, sink, letters, tuple(sorted(not_yet)), tuple(sorted(overrides))
    )


def _two_ends(plugin: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    ends: dict[str, dict[str, str]] = {"source": {}, "sink": {}}
    errors = []
    for key, value in plugin.items():
        end, _, rest = key.partition(".")
        if end in ends and rest:
            ends[end][rest] = value
        else:
            errors.append(_of_no_end(key))
    if errors:
        raise combined(errors)
    return ends["source"], ends["sink"]


def _of_no_end(key: str) -> ConfigError:
    ours = {*FRAMEWORK, *CHAIN}
    near = nearest(key, ours)
    guess = f"{did_you_mean(key, ours)} " if near else ""
    return ConfigError(
        "config.unknown_key",
        f"`{key}` is not a key of a pipeline",
        fix=f"{guess}Keys of an end start with `source.` or `sink.`.",
        config_path=key,
        suggestion=near[0] if near else "",
    )


def plugin_class(
    section: Mapping[str, str], framework: Mapping[str, str], end: str, path: str
) -> str:
    """Return the connector class of an end; `path` is what the key is called there.

    Raises:
        ConfigError: `config.missing`.
    """
    name = section.get("connector.class") or framework.get("connector.class", "")
    if not name:
        raise ConfigError(
            "config.missing",
            f"the {end} names no connector",
            fix=f"Set `{path}` to the name of a connector (`penstock plugins`).",
            config_path=path,
        )
    return name


def plugin_version(section: Mapping[str, str], framework: Mapping[str, str]) -> str:
    """Return which versions of its plugin an end allows; empty for any."""
    key = "connector.plugin.version"
    return section.get(key) or framework.get(key, "")
