"""Splits a connector's configuration by owner, and checks keys that depend on each other. Pure.

The configuration is flat, as in Kafka Connect: keys of the framework, the chain and the plugin
share one mapping. A pipeline has two plugins, so their keys start with `source.` and `sink.`.

No row is lost silently: a connector that tolerates rejected rows and names no place for dead
letters gets a topic for them, unless `errors.skip` discards them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.connector_config.keys import (
    BOUNDARY,
    BOUNDARY_INTERVAL,
    CHAIN_PREFIXES,
    DLQ_HEADERS,
    DLQ_SINK_PREFIX,
    DLQ_TOPIC,
    FRAMEWORK_KEYS,
    KAFKA_CONNECT_KEYS,
    KEYS,
    OVERRIDE_PREFIXES,
    REPLAY_KEYS,
    RESTART_DELAY,
    RESTART_DELAY_MAX,
    RESTART_KEYS,
    UNTIL_CAUGHT_UP,
    to_framework_names,
)
from penstock.connector_config.settings import SHORTEST_DELAY_S, ConnectorSettings
from penstock.model.config_def import (
    combine_errors,
    did_you_mean,
    find_keys_without_effect,
    no_effect_warning,
    parse_or_default,
)
from penstock.model.connector import ConnectorKind
from penstock.model.drift_policy import DriftPolicy
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, Severity, nearest_names


def unused_key_warning(key: str) -> Diagnostic:
    """Return the warning about a key of Kafka Connect that has no effect."""
    why, instead = next(
        found for start, found in KAFKA_CONNECT_KEYS.items() if key.startswith(start)
    )
    return replace(no_effect_warning(key, why, instead), code="config.not_here_yet")


@dataclass(frozen=True, slots=True)
class ConfigSections:
    """A configuration by owner. A source or sink that is a topic has no keys. `dead_letter_sink`
    has the keys of a sink of dead letters, `overrides` those of Kafka's clients.
    """

    framework: Mapping[str, str]
    chain: Mapping[str, str]
    source: Mapping[str, str]
    sink: Mapping[str, str]
    dead_letter_sink: Mapping[str, str]
    unused_keys: tuple[str, ...]
    overrides: tuple[str, ...]


def split_config(
    config: Mapping[str, str], kind: ConnectorKind, own: Collection[str] = ()
) -> ConfigSections:
    """Return the keys of each owner. Keys of a plugin have no prefix; `own` are its keys that the
    framework has, too: `topics`, or all that begin alike, `value.converter.*`.

    Raises:
        ConfigError: `config.unknown_key`: a key of a pipeline belongs to no plugin.
    """
    framework, chain, plugin, dead_letter_sink = {}, {}, {}, {}
    unused_keys, overrides = [], []
    for key, value in to_framework_names(config).items():
        if is_own_key(key, own):
            plugin[key] = value
        elif key in FRAMEWORK_KEYS:
            framework[key] = value
        elif key.startswith(DLQ_SINK_PREFIX):
            dead_letter_sink[key.removeprefix(DLQ_SINK_PREFIX)] = value
        elif key.split(".")[0] in CHAIN_PREFIXES:
            chain[key] = value
        elif key.startswith(OVERRIDE_PREFIXES):
            overrides.append(key)
        elif key.startswith(tuple(KAFKA_CONNECT_KEYS)):
            unused_keys.append(key)
        else:
            plugin[key] = value
    source: Mapping[str, str] = plugin if kind is ConnectorKind.SOURCE else {}
    sink: Mapping[str, str] = plugin if kind is ConnectorKind.SINK else {}
    if kind is ConnectorKind.PIPELINE:
        source, sink = _split_pipeline(plugin)
    return ConfigSections(
        framework,
        chain,
        source,
        sink,
        dead_letter_sink,
        tuple(sorted(unused_keys)),
        tuple(sorted(overrides)),
    )


def is_own_key(key: str, own: Collection[str]) -> bool:
    """Return whether a key is among a plugin's own keys, as in `split_config`."""
    return key in own or any(one.endswith(".*") and key.startswith(one[:-1]) for one in own)


def _split_pipeline(plugin: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    roles: dict[str, dict[str, str]] = {"source": {}, "sink": {}}
    errors = []
    for key, value in plugin.items():
        role, _, rest = key.partition(".")
        if role in roles and rest:
            roles[role][rest] = value
        else:
            errors.append(_unknown_pipeline_key(key))
    if errors:
        raise combine_errors(errors)
    return roles["source"], roles["sink"]


def _unknown_pipeline_key(key: str) -> ConfigError:
    ours = {*FRAMEWORK_KEYS, *CHAIN_PREFIXES}
    near = nearest_names(key, ours)
    guess = f"{did_you_mean(key, ours)} " if near else ""
    return ConfigError(
        "config.unknown_key",
        f"`{key}` is not a key of a pipeline",
        fix=f"{guess}Keys of its connectors start with `source.` or `sink.`.",
        config_path=key,
        suggestion=near[0] if near else "",
    )


def plugin_class(
    section: Mapping[str, str], framework: Mapping[str, str], role: str, path: str
) -> str:
    """Return the connector class of a role. `path` is the full name of its key.

    Raises:
        ConfigError: `config.missing`.
    """
    name = section.get("connector.class") or framework.get("connector.class", "")
    if not name:
        raise ConfigError(
            "config.missing",
            f"`{path}` is not set: the {role} has no connector class",
            fix=f"Set `{path}` to the name of a connector; `penstock plugins` lists them.",
            config_path=path,
        )
    return name


def plugin_version(section: Mapping[str, str], framework: Mapping[str, str]) -> str:
    """Return the plugin versions that a role allows; empty for any."""
    key = "connector.plugin.version"
    return section.get(key) or framework.get(key, "")


def check_rejected_row_keys(
    settings: ConnectorSettings, sections: ConfigSections, kind: ConnectorKind
) -> list[Diagnostic]:
    """Return errors and warnings about the keys of rejected rows."""
    rules, topic, sink = (
        settings.rejected_rows,
        settings.dead_letter_topic,
        bool(sections.dead_letter_sink),
    )
    tolerant, place = not rules.tolerance.is_none, bool(sections.framework.get(DLQ_TOPIC)) or sink
    found = []
    if tolerant and not place and not rules.discard:
        found.append(
            Diagnostic(
                "errors.no_place",
                f"no place is configured for dead letters: they go to the topic {topic!r}",
                ErrorClass.CONFIG,
                Severity.WARNING,
                fix=f"Set a topic in `{DLQ_TOPIC}`, or a sink in "
                f"`{DLQ_SINK_PREFIX}connector.class`, or set `errors.skip=true` to discard "
                "rejected rows.",
                config_path="errors.tolerance",
            )
        )
    if place and not tolerant:
        found.append(
            Diagnostic(
                "errors.not_tolerated",
                "a place for dead letters is configured, but `errors.tolerance` is `none`: the "
                "first rejected row ends the task",
                ErrorClass.CONFIG,
                Severity.WARNING,
                fix="Set `errors.tolerance` to `all`, or to a number among others such as 5/1000.",
                config_path="errors.tolerance",
            )
        )
    if settings.drift.policy is DriftPolicy.DEAD_LETTER and not tolerant:
        found.append(_drift_not_tolerated())
    if topic and not sink and _is_own_topic(topic, settings, kind):
        found.append(
            ConfigError(
                "errors.loop",
                f"dead letters would go to {topic!r}, which holds the connector's own rows",
                fix="Name another topic.",
                config_path=DLQ_TOPIC,
            ).diagnostic
        )
    return found


def _is_own_topic(topic: str, settings: ConnectorSettings, kind: ConnectorKind) -> bool:
    reads = kind in {ConnectorKind.SINK, ConnectorKind.MIRROR}
    writes = kind in {ConnectorKind.SOURCE, ConnectorKind.MIRROR}
    return (reads and topic in settings.topics.select([topic])) or (
        writes and topic == settings.topic
    )


def _drift_not_tolerated() -> Diagnostic:
    return ConfigError(
        "errors.not_tolerated",
        "`schema.evolution` turns rows with other columns into dead letters, but "
        "`errors.tolerance` is `none`",
        fix="Set `errors.tolerance` to `all`, or choose another `schema.evolution`.",
        config_path="schema.evolution",
    ).diagnostic


def named_topics(
    settings: ConnectorSettings, sections: ConfigSections, kind: ConnectorKind
) -> Iterator[tuple[str, str]]:
    """Yield each topic that a configuration names, after the key that names it."""
    if kind in {ConnectorKind.SINK, ConnectorKind.MIRROR}:
        yield from (("topics", topic) for topic in settings.topics.names)
    if kind in {ConnectorKind.SOURCE, ConnectorKind.MIRROR} and sections.framework.get("topic"):
        yield "topic", settings.topic
    if settings.dead_letter_topic and not sections.dead_letter_sink:
        yield DLQ_TOPIC, settings.dead_letter_topic


_SOURCE: Final = frozenset({ConnectorKind.SOURCE, ConnectorKind.MIRROR})
_SINK: Final = frozenset({ConnectorKind.SINK, ConnectorKind.MIRROR})
_PIPELINE: Final = frozenset({ConnectorKind.PIPELINE})

_OF_SOURCES: Final = "rows of a topic can always be read again"

_KINDS_OF_KEYS: Final[Mapping[str, tuple[frozenset[ConnectorKind], str]]] = {
    "exactly.once.support": (_SOURCE | _PIPELINE, _OF_SOURCES),
    "transaction.boundary": (_SOURCE | _PIPELINE, _OF_SOURCES),
    "transaction.boundary.interval.ms": (_SOURCE | _PIPELINE, _OF_SOURCES),
    UNTIL_CAUGHT_UP: (_SOURCE | _PIPELINE, _OF_SOURCES),
    "topic": (_SOURCE | _PIPELINE, "rows of a sink belong to the topics that it reads"),
    "topics.backend": (_SOURCE | _SINK, "a pipeline has no topic"),
    "topic.partitions": (_SOURCE | _SINK, "a pipeline has no topic"),
    "topic.retention": (_SOURCE, "only a source makes topics"),
    "topic.retention.bytes": (_SOURCE, "only a source makes topics"),
    "topics": (_SINK, "only a sink reads topics"),
    "topics.regex": (_SINK, "only a sink reads topics"),
    "auto.offset.reset": (_SINK, "only a sink reads topics"),
}
"""Keys that some kinds of connectors use, and why the others have no use for them."""


def check_keys_without_effect(
    sections: ConfigSections, settings: ConnectorSettings, kind: ConnectorKind
) -> list[Diagnostic]:
    """Return a warning for each key of the framework that is set and has no effect."""
    set_keys = sections.framework
    found = [unused_key_warning(key) for key in sections.unused_keys]
    found += find_keys_without_effect(KEYS, set_keys)
    for key, (kinds, why) in _KINDS_OF_KEYS.items():
        if key in set_keys and kind not in kinds:
            found.append(no_effect_warning(key, why))
    ineffective = [
        *_ineffective_error_keys(sections, settings),
        *_ineffective_scaling_keys(settings),
        *_ineffective_boundary_keys(set_keys),
        *_ineffective_flush_keys(set_keys),
        *_ineffective_restart_keys(set_keys),
        *_shadowed_plugin_keys(sections, kind),
    ]
    if settings.replay is None:
        why, fix = "without `replay.of`, nothing is replayed", "Set `replay.of`, or remove it."
        ineffective += [(key.name, why, fix) for key in REPLAY_KEYS]
    return found + [
        no_effect_warning(key, why, fix) for key, why, fix in ineffective if key in set_keys
    ]


def _ineffective_error_keys(
    sections: ConfigSections, settings: ConnectorSettings
) -> Iterator[tuple[str, str, str]]:
    rules, headers = settings.rejected_rows, DLQ_HEADERS
    tolerate = "Set `errors.tolerance`, or remove it."
    if rules.tolerance.is_none:
        why = "the first rejected row ends the task, with the reason in its status"
        for key in ("errors.skip", "errors.log.enable", headers):
            yield key, why, tolerate
    elif rules.discard and (sections.dead_letter_sink or sections.framework.get(DLQ_TOPIC)):
        yield "errors.skip", "rejected rows go to the configured place for dead letters", ""
    elif rules.discard:
        yield headers, "with `errors.skip`, no dead letters are written", ""
    if not rules.log:
        fix = "Set `errors.log.enable=true`, or remove it."
        yield "errors.log.include.messages", "rejected rows are not logged", fix


def _ineffective_scaling_keys(settings: ConnectorSettings) -> Iterator[tuple[str, str, str]]:
    if settings.lag_target <= 0:
        why = "without `lag.target`, there are always `tasks.max` tasks"
        yield "tasks.min", why, "Set `lag.target`, or remove it."
    elif settings.tasks_min >= settings.tasks_max:
        why = f"`tasks.min` and `tasks.max` allow only {settings.tasks_max} tasks"
        yield "lag.target", why, "Set a `tasks.max` above `tasks.min`."


def _ineffective_boundary_keys(set_keys: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    boundary, interval = set_keys.get(BOUNDARY), set_keys.get(BOUNDARY_INTERVAL)
    if boundary == "interval":
        if set_keys.get("flush.interval"):
            yield BOUNDARY, "`flush.interval` is set", ""
        elif not interval:
            yield BOUNDARY, "there is no interval", f"Set `{BOUNDARY_INTERVAL}`."
    else:  # of both, the source's checkpoints are the only places where a transaction ends
        yield BOUNDARY_INTERVAL, f"`{BOUNDARY}` is not `interval`", f"Set `{BOUNDARY}=interval`."


def _ineffective_flush_keys(set_keys: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    is_interval = set_keys.get(BOUNDARY) == "interval"
    for key in ("flush.interval", *([BOUNDARY_INTERVAL] if is_interval else [])):
        if set_keys.get(key):
            yield "flush.busy.interval", f"`{key}` is set", "Remove one of the two."


def _ineffective_restart_keys(set_keys: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    values, _ = parse_or_default(RESTART_KEYS, set_keys)
    first_s, max_s = values[RESTART_DELAY.name], values[RESTART_DELAY_MAX.name]
    if first_s < SHORTEST_DELAY_S:
        why = f"a restart waits at least {SHORTEST_DELAY_S * 1000:.0f} ms"
        yield RESTART_DELAY.name, why, "Write a longer time, or remove it."
    if max_s < max(first_s, SHORTEST_DELAY_S):
        why = "it is shorter than the first delay"
        yield RESTART_DELAY_MAX.name, why, f"Write a time above `{RESTART_DELAY.name}`."


def _shadowed_plugin_keys(
    sections: ConfigSections, kind: ConnectorKind
) -> Iterator[tuple[str, str, str]]:
    if kind is not ConnectorKind.PIPELINE:
        return
    for key in ("connector.class", "connector.plugin.version"):
        if sections.source.get(key) and sections.sink.get(key):
            yield key, f"`source.{key}` and `sink.{key}` are set", ""
