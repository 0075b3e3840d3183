"""Topics of a broker instead of embedded ones: the topic's end of a connector is a plugin, too.

A source whose topics are a broker's is a pipeline into its sink (`kafka-sink`, `rocketmq-sink`), a
sink one out of its source. What those need is in the file of the node (addresses, logins,
converters) and in the connector (`topics`, converters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.connector_config.keys import (
    DLQ_REPLICATION_FACTOR,
    DLQ_TOPIC,
    EMBEDDED,
    TOPICS_BACKEND,
)
from penstock.connector_config.sections import ConfigSections
from penstock.connector_config.settings import ConnectorSettings
from penstock.model.config_def import ConfigKey, no_effect_warning
from penstock.model.config_redaction import is_sensitive_key
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic
from penstock.telemetry.redaction import register_secret
from penstock.worker.config import kafka_end, rocketmq_end
from penstock.worker.config.reach import Reach

_End = Callable[[Mapping[str, str], Mapping[str, str], ConnectorSettings], dict[str, str]]


@dataclass(frozen=True, slots=True)
class _System:
    """A kind of broker: the key with its addresses, an example of it, and both topic's ends.

    Attributes:
        clients: Prefixes of the clients of Kafka that a topic's end has.
        used: Prefixes of Kafka Connect's keys of a connector that have an effect.
        dead_letter_end: The sink that dead letters go to.
        dead_letter_clients: Prefixes of its clients of Kafka.
        has_replicas: Whether the number of replicas of a new topic can be chosen.
        repeats: Whether rows may come twice in it after a crash.
        has_headers: Whether the values of headers are bytes, so that they may be converted.
    """

    servers: str
    example: str
    source_end: _End
    sink_end: _End
    clients: Mapping[ConnectorKind, tuple[str, ...]]
    used: Mapping[ConnectorKind, tuple[str, ...]]
    dead_letter_end: _End
    dead_letter_clients: tuple[str, ...] = ()
    has_replicas: bool = False
    repeats: bool = False
    has_headers: bool = False

    @property
    def converters(self) -> tuple[str, ...]:
        """The keys of converters that have an effect."""
        return tuple(one for one in _CONVERTERS if self.has_headers or one != _HEADERS)


_HEADERS: Final = "header.converter"
_CONVERTERS: Final = ("key.converter", "value.converter", _HEADERS)

_NO_KEYS: Final[Mapping[ConnectorKind, tuple[str, ...]]] = {
    ConnectorKind.SOURCE: (),
    ConnectorKind.SINK: (),
}

_SYSTEMS: Final[Mapping[str, _System]] = {
    "kafka": _System(
        kafka_end.SERVERS,
        "broker1:9092,broker2:9092",
        kafka_end.source_end,
        kafka_end.sink_end,
        kafka_end.CLIENTS,
        kafka_end.USED,
        kafka_end.dead_letter_end,
        kafka_end.DEAD_LETTER_CLIENTS,
        has_replicas=True,
        has_headers=True,
    ),
    "rocketmq": _System(
        rocketmq_end.SERVERS,
        "namesrv1:9876;namesrv2:9876",
        rocketmq_end.source_end,
        rocketmq_end.sink_end,
        _NO_KEYS,
        _NO_KEYS,
        rocketmq_end.dead_letter_end,
        repeats=True,
    ),
}

BACKEND: Final = ConfigKey(
    TOPICS_BACKEND,
    default="",
    choices=("", EMBEDDED, *_SYSTEMS),
    doc="Whose topics are: those of the brokers of `bootstrap.servers` or `namesrv.addr` (the "
    "default where one is set), or tables in `topics.dir`.",
)

_REGISTRY: Final = ("schema.registry.", "apicurio.")
"""What the keys of a converter begin with that name hosts and files."""

POSITIONS: Final = "positions"
"""Key of a source of messages whose rows have `__partition` and `__offset`, and of a sink that
wants them.
"""

PREFIXES: Final = (*kafka_end.PREFIXES, *rocketmq_end.PREFIXES, *_CONVERTERS)
"""Prefixes of a node's keys for topics of brokers."""


def is_broker_key(key: str) -> bool:
    """Return whether a key of a node is about brokers."""
    return key.startswith(PREFIXES) and not key.startswith(kafka_end.NOT_OURS)


_ROLES: Final = {ConnectorKind.SOURCE: "sink", ConnectorKind.SINK: "source"}
"""The end of a connector that is a topic."""

_ANY_VERSION: Final = {"connector.plugin.version": "latest"}
"""A version that the connector requires is one of its own plugin."""

_ONLY_EMBEDDED: Final = ("topic.retention", "topic.retention.bytes")


@dataclass(frozen=True, slots=True)
class BrokerTopics:
    """The brokers of a node: its keys, and whose topics connectors use by default."""

    default: str
    keys: Mapping[str, str]

    def has(self, system: str) -> bool:
        """Return whether the node knows brokers of a system."""
        return bool(self.keys.get(_SYSTEMS[system].servers))


NO_BROKERS: Final = BrokerTopics(EMBEDDED, {})


def read_broker_topics(values: Mapping[str, Any], config: Mapping[str, str]) -> BrokerTopics:
    """Return the brokers of a node.

    Raises:
        ConfigError: `config.missing`; `config.conflict`: brokers of two systems, and no default.
    """
    keys = {key: value for key, value in config.items() if is_broker_key(key)}
    for key, value in keys.items():
        if is_sensitive_key(key):
            register_secret(value)  # invariant 9
    known = [name for name, system in _SYSTEMS.items() if keys.get(system.servers)]
    default = values[BACKEND.name]
    if not default and len(known) > 1:
        raise ConfigError(
            "config.conflict",
            f"`{' and '.join(_SYSTEMS[name].servers for name in known)}` are set, and "
            f"`{BACKEND.name}` does not name those that connectors use",
            fix=f"Set `{BACKEND.name}` to {' or '.join(known)}.",
            config_path=BACKEND.name,
        )
    if default in _SYSTEMS and default not in known:
        raise _no_brokers(default, "config.missing", "Set it")
    return BrokerTopics(default or (known[0] if known else EMBEDDED), keys)


def _no_brokers(system: str, code: str, fix: str) -> ConfigError:
    servers, example = _SYSTEMS[system].servers, _SYSTEMS[system].example
    path = servers if code == "config.missing" else TOPICS_BACKEND
    return ConfigError(
        code,
        f"`{TOPICS_BACKEND}={system}` needs `{servers}` of the workers",
        fix=f"{fix} to the addresses, such as {example}.",
        config_path=path,
    )


def select_backend(brokers: BrokerTopics, configured: str, kind: ConnectorKind) -> str:
    """Return whose topics a connector uses. `configured` is its own key.

    Raises:
        ConfigError: `topics.no_brokers`, `topics.no_mirror`.
    """
    backend = configured or brokers.default
    if backend == EMBEDDED or kind is ConnectorKind.PIPELINE:
        return EMBEDDED
    if not brokers.has(backend):
        servers = _SYSTEMS[backend].servers
        raise _no_brokers(backend, "topics.no_brokers", f"Set `{servers}` in their file")
    if kind not in _ROLES:
        raise ConfigError(
            "topics.no_mirror",
            "a mirror reads and writes embedded topics only",
            fix=f"Set `{TOPICS_BACKEND}=embedded`, or use a pipeline from `{backend}-source` to "
            f"`{backend}-sink`.",
            config_path=TOPICS_BACKEND,
        )
    return backend


def with_topic_end(
    brokers: BrokerTopics,
    backend: str,
    sections: ConfigSections,
    settings: ConnectorSettings,
    kind: ConnectorKind,
    config: Mapping[str, str],
    plugin: str,
) -> tuple[ConfigSections, list[Diagnostic]]:
    """Return the sections with a plugin at the end that is a topic, and warnings about keys
    that it does not have. `plugin` is the connector at the other end.
    """
    system = _SYSTEMS[backend]
    sections = _with_dead_letter_end(brokers, system, sections, settings, kind, config)
    keys = _converter_keys(system, brokers.keys, config) | _ANY_VERSION
    if plugin in kafka_end.MIRRORS:
        keys = _own_converters(system, config) | _ANY_VERSION
    if kind is ConnectorKind.SOURCE:
        keys |= system.source_end(brokers.keys, config, settings)
        if plugin in kafka_end.MIRRORS and backend == "kafka":
            keys = kafka_end.with_mirror_end(keys, plugin, config)
        ours = replace(sections, sink=keys)
    else:
        keys |= system.sink_end(brokers.keys, config, settings)
        if settings.topics.names:
            keys["topics"] = ",".join(settings.topics.names)
        if settings.topics.pattern:
            keys["topics.regex"] = settings.topics.pattern.text
        if sections.dead_letter_sink or _needs_positions(sections):
            keys[POSITIONS] = "true"
        ours = replace(sections, source=keys)
    used = (*system.converters, *system.used[kind])
    unused = tuple(key for key in sections.unused_keys if not key.startswith(used))
    findings = [*_unused(sections.framework), *_unused_converter_keys(system, config)]
    if system.repeats and kind is ConnectorKind.SOURCE and settings.needs_replayable:
        findings.append(_repeats(backend))
    return replace(ours, unused_keys=unused), findings


def client_prefixes(
    backend: str, kind: ConnectorKind, *, has_dead_letters: bool
) -> tuple[str, ...]:
    """Return the prefixes of the clients of Kafka that a connector has. `has_dead_letters`: it
    sends dead letters to a topic of the brokers.
    """
    if backend == EMBEDDED:
        return ()
    system = _SYSTEMS[backend]
    return system.clients[kind] + (system.dead_letter_clients if has_dead_letters else ())


def _with_dead_letter_end(
    brokers: BrokerTopics,
    system: _System,
    sections: ConfigSections,
    settings: ConnectorSettings,
    kind: ConnectorKind,
    config: Mapping[str, str],
) -> ConfigSections:
    """Return the sections with the sink of dead letters, where they have a topic of the brokers."""
    if not sections.framework.get(DLQ_TOPIC) or sections.dead_letter_sink:
        return sections
    keys = system.dead_letter_end(brokers.keys, config, settings) | _ANY_VERSION
    keys["dead.letters"] = "messages" if kind is ConnectorKind.SINK else "rows"
    used = {DLQ_REPLICATION_FACTOR} if system.has_replicas else set()
    framework = {key: value for key, value in sections.framework.items() if key not in used}
    return replace(sections, dead_letter_sink=keys, framework=framework)


def _needs_positions(sections: ConfigSections) -> bool:
    """Return whether a transform inserts the partition or offset of a message."""
    return any(key.endswith((".partition.field", ".offset.field")) for key in sections.chain)


def _own_converters(system: _System, config: Mapping[str, str]) -> dict[str, str]:
    """Return the converters of a mirror, whose rows are bytes: the node's have no meaning."""
    keys = _converter_keys(system, {}, config)
    return dict.fromkeys(system.converters, kafka_end.BYTES) | keys


def _converter_keys(
    system: _System, node: Mapping[str, str], config: Mapping[str, str]
) -> dict[str, str]:
    """Return the converters of a connector: its own, with their keys, else those of the node."""
    found: dict[str, str] = {}
    for name in system.converters:
        place = config if config.get(name) else node
        found |= {key: place[key] for key in place if key == name or key.startswith(f"{name}.")}
    return found


def require_own_converters_within(reach: Reach, config: Mapping[str, str]) -> None:
    """Refuse a schema registry that a connector names itself where a rule bounds its hosts or
    folders: the topic's end is bounded by the node's own rights, and not by the rule.

    Raises:
        ConfigError: `reach.registry`.
    """
    if reach.hosts is None and reach.folders is None:
        return
    for name in _CONVERTERS:
        of_registry = tuple(f"{name}.{start}" for start in _REGISTRY)
        if config.get(name) and any(key.startswith(of_registry) for key in config):
            raise ConfigError(
                "reach.registry",
                f"the rule {reach.rule!r} bounds hosts or folders of this connector, and `{name}` "
                "names a schema registry of its own",
                fix=f"Remove `{name}` and its keys: the converter in the file of the workers is "
                "used then.",
                config_path=name,
            )


def _unused(framework: Mapping[str, str]) -> Iterator[Diagnostic]:
    for key in _ONLY_EMBEDDED:
        if key in framework:
            yield no_effect_warning(
                key,
                "the brokers keep messages by the settings of their topic",
                "Set the retention of the topic at the brokers.",
            )


def _unused_converter_keys(system: _System, config: Mapping[str, str]) -> Iterator[Diagnostic]:
    for name in system.converters:
        if not config.get(name):
            for key in sorted(key for key in config if key.startswith(f"{name}.")):
                yield no_effect_warning(
                    key,
                    f"the converter is `{name}` of the workers, with its own keys",
                    f"Set `{name}` in the connector, too.",
                )


def _repeats(backend: str) -> Diagnostic:
    key = "exactly.once.support"
    return ConfigError(
        "delivery.not_available",
        f"`{key}` is required, and rows may come twice in topics of {backend} after a crash",
        fix=f"Set `{key}=requested`, or `{TOPICS_BACKEND}` to kafka or embedded.",
        config_path=key,
    ).diagnostic


def topic_role(kind: ConnectorKind) -> str:
    """Return which end of a connector is a topic."""
    return _ROLES[kind]


def is_used(brokers: BrokerTopics, key: str) -> bool:
    """Return whether a node's key has an effect on connectors without keys of their own."""
    if brokers.default == EMBEDDED:
        return False
    of_rocketmq = key.startswith(rocketmq_end.PREFIXES)
    of_all = key.startswith(_SYSTEMS[brokers.default].converters)
    if key.startswith(_CONVERTERS) and not of_all:
        return False
    if key.startswith("ssl.") and not kafka_end.has_tls(brokers.keys):
        return False
    return key in brokers.keys and (of_all or of_rocketmq is (brokers.default == "rocketmq"))
