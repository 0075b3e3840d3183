"""MirrorMaker's file (`connect-mirror-maker.properties`) as a node with connectors. Pure.

clusters=A,B
A.bootstrap.servers=a1:9092
B.bootstrap.servers=b1:9092
A->B.enabled=true
A->B.topics=orders.*

Each enabled flow is three pipelines into its target: messages, checkpoints and heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from penstock.model.config_def import no_effect_warning
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic
from penstock.worker.config.kafka_end import BYTES, MIRROR, mirror_end

_CLUSTERS: Final = "clusters"
_ARROW: Final = "->"
_ENABLED: Final = "enabled"
_CHECKPOINTS: Final = "mirror-checkpoint-source"
_HEARTBEATS: Final = "mirror-heartbeat-source"
_FACTOR: Final = "topic.creation.default.replication.factor"
_LOGIN: Final = ("bootstrap.servers", "security.protocol", "sasl.", "ssl.")

_OF_ALL: Final = (
    "replication.policy.", "admin.", "source.admin.", "target.admin.", "forwarding.admin.class",
)  # fmt: skip
_OF_ONE: Final[Mapping[str, tuple[str, ...]]] = {
    MIRROR: (
        "topics", "topics.exclude", "replication.factor", "sync.topic.", "refresh.topics.",
        "config.properties.exclude", "config.property.filter.class", "offset.lag.max",
        "offset-syncs.", "emit.offset-syncs.",
        "topic.filter.class", "consumer.", "source.consumer.",
    ),
    _CHECKPOINTS: (
        "groups", "groups.exclude", "refresh.groups.", "emit.checkpoints.", "sync.group.",
        "group.filter.class",
    ),
    _HEARTBEATS: ("emit.heartbeats.",),
}  # fmt: skip
"""Keys of each source, or what they begin with."""

_OF_SINK: Final = ("producer.",)
_OF_FLOW: Final = ("tasks.max", _ENABLED)
_REPLICAS: Final = {
    _CHECKPOINTS: "checkpoints.topic.replication.factor",
    _HEARTBEATS: "heartbeats.topic.replication.factor",
}
_SWITCHES: Final = {
    _CHECKPOINTS: "emit.checkpoints.enabled",
    _HEARTBEATS: "emit.heartbeats.enabled",
}
_NAMES: Final = {MIRROR: "messages", _CHECKPOINTS: "checkpoints", _HEARTBEATS: "heartbeats"}

_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "dedicated.mode.enable.internal.rest": "all connectors of this file run on this machine",
}
_OF_WORKERS: Final = ("config.storage.", "status.storage.", "offset.storage.", "group.id")
_KEPT_HERE: Final = "connectors, states and offsets are in the state folder of this node"


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The content of a file: keys of the node, connectors, and warnings."""

    node: Mapping[str, str]
    connectors: tuple[Connector, ...]
    warnings: tuple[Diagnostic, ...]


def read_mirrors(config: Mapping[str, str]) -> Mirrors:
    """Return the node and the connectors of a file.

    Raises:
        ConfigError: `config.missing`, `config.unknown_key`.
    """
    clusters = [one.strip() for one in config.get(_CLUSTERS, "").split(",") if one.strip()]
    if len(clusters) < 2:
        raise _missing("`clusters` names fewer than two clusters", _CLUSTERS, "A,B")
    for alias in clusters:
        if not config.get(f"{alias}.bootstrap.servers"):
            path = f"{alias}.bootstrap.servers"
            raise _missing(f"the cluster {alias} has no brokers", path, "host1:9092,host2:9092")
    node, warnings = dict[str, str](), list[Diagnostic]()
    for key, value in config.items():
        if key == _CLUSTERS or _is_of_flows(key) or key.startswith(_LOGIN[1:]):
            continue
        if _ARROW in key:
            _require_flow(key, clusters)
            warnings += _check_flow_key(key, config)
        elif key.partition(".")[0] in clusters:
            warnings += _check_cluster_key(key)
        elif key in _WITHOUT_EFFECT:
            warnings.append(no_effect_warning(key, _WITHOUT_EFFECT[key]))
        else:
            node[key] = value
    connectors = tuple(
        connector
        for source, target in permutations(clusters, 2)
        for connector in _flow(config, source, target)
    )
    if not any(one.config["source.connector.class"] == MIRROR for one in connectors):
        first = f"{clusters[0]}{_ARROW}{clusters[1]}.{_ENABLED}"
        raise _missing("no flow between two clusters is enabled", first, "true")
    warnings += _check_consumer_keys(config, clusters, connectors)
    return Mirrors(node, connectors, tuple(warnings))


def _starts(key: str, starts: tuple[str, ...]) -> bool:
    return any(key.startswith(one) if one.endswith(".") else key == one for one in starts)


def _is_of_flows(key: str) -> bool:
    """Return whether a key is one of all flows."""
    of_one = tuple(start for starts in _OF_ONE.values() for start in starts)
    return _starts(key, (*_OF_ALL, *of_one, *_OF_SINK, *_OF_FLOW)) or key in _REPLICAS.values()


def _require_flow(key: str, clusters: list[str]) -> None:
    flow, _, name = key.partition(".")
    ends = flow.split(_ARROW)
    if len(ends) != 2 or not set(ends) <= set(clusters):
        raise _unknown(key, f"`{_CLUSTERS}` does not name both clusters of it")
    if not _is_of_flows(name):
        raise _unknown(key, f"a flow has no key {name!r}")


def _check_flow_key(key: str, config: Mapping[str, str]) -> Iterator[Diagnostic]:
    flow, _, name = key.partition(".")
    enabled = f"{flow}.{_ENABLED}"
    of_heartbeats = (*_OF_ALL, *_OF_ONE[_HEARTBEATS], *_OF_SINK, *_OF_FLOW)
    is_enabled = _is_on(
        {_ENABLED: config.get(_ENABLED, "false")} | _without(f"{flow}.", config),
        _ENABLED,
        default="false",
    )
    if not is_enabled and not _starts(name, of_heartbeats):
        why = f"the flow {flow} is not enabled"
        yield no_effect_warning(key, why, f"Set `{enabled}=true`, or remove the key.")


def _check_cluster_key(key: str) -> Iterator[Diagnostic]:
    _, _, name = key.partition(".")
    if name.startswith(_OF_WORKERS):
        yield no_effect_warning(key, _KEPT_HERE)
    elif not name.startswith((*_LOGIN, "consumer.", "producer.", "admin.")):
        raise _unknown(key, f"a cluster has no key {name!r}")


def _check_consumer_keys(
    config: Mapping[str, str], clusters: list[str], connectors: tuple[Connector, ...]
) -> Iterator[Diagnostic]:
    mirrors = [one.config for one in connectors if one.config["source.connector.class"] == MIRROR]
    read = {one["source.source.cluster.alias"] for one in mirrors}
    unread = tuple(f"{alias}.consumer." for alias in clusters if alias not in read)
    for key in config:
        if key.startswith(unread):
            alias = key.partition(".")[0]
            yield no_effect_warning(key, f"no enabled flow reads messages of {alias}")


def _flow(config: Mapping[str, str], source: str, target: str) -> Iterator[Connector]:
    own = _without(f"{source}{_ARROW}{target}.", config)
    keys = _select(config, _is_of_flows) | own
    is_enabled = _is_on(keys, _ENABLED, default="false")
    # heartbeats go both ways in any case: by them the other side sees where topics come from
    for plugin in _OF_ONE if is_enabled else (_HEARTBEATS,):
        if _is_on(keys, _SWITCHES.get(plugin, ""), default="true"):
            reads = _source_keys(plugin, config, keys, source, target)
            writes = _sink_keys(plugin, keys, _cluster(config, target), reads)
            found = {f"source.{key}": value for key, value in reads.items()}
            found |= {f"sink.{key}": value for key, value in writes.items()}
            found |= _select(keys, lambda key: key == "tasks.max")
            name = f"{source}-{target}-{_NAMES[plugin]}"
            yield Connector(name, {"name": name, **found}, ConnectorKind.PIPELINE)


def _source_keys(
    plugin: str, config: Mapping[str, str], keys: Mapping[str, str], source: str, target: str
) -> dict[str, str]:
    found = {
        "connector.class": plugin,
        "source.cluster.alias": source,
        "target.cluster.alias": target,
    }
    for end, alias in (("source", source), ("target", target)):
        of_cluster = _cluster(config, alias)
        login = _select(of_cluster, lambda key: key.startswith(_LOGIN))
        found |= {f"{end}.cluster.{key}": value for key, value in login.items()}
        admin = _select(of_cluster, lambda key: key.startswith("admin."))
        found |= {f"{end}.{key}": value for key, value in admin.items()}
    found |= _select(keys, lambda key: _starts(key, (*_OF_ALL, *_OF_ONE[plugin])))
    if plugin == MIRROR:
        of_source = _cluster(config, source)
        found |= _select(of_source, lambda key: key.startswith("consumer."))
    return found


def _sink_keys(
    plugin: str, keys: Mapping[str, str], cluster: Mapping[str, str], reads: Mapping[str, str]
) -> dict[str, str]:
    found = {"connector.class": "kafka-sink"}
    found |= _select(cluster, lambda key: key.startswith((*_LOGIN, *_OF_SINK)))
    found |= _select(keys, lambda key: key.startswith(_OF_SINK))
    found |= dict.fromkeys(("key.converter", "value.converter"), BYTES)
    found |= mirror_end(plugin, reads)
    if factor := keys.get(_REPLICAS.get(plugin, "")):
        found[_FACTOR] = factor
    return found


def _cluster(config: Mapping[str, str], alias: str) -> dict[str, str]:
    """Return the keys of a cluster, over the logins of all clusters."""
    return _select(config, lambda key: key.startswith(_LOGIN[1:])) | _without(f"{alias}.", config)


def _select(config: Mapping[str, str], is_wanted: Callable[[str], bool]) -> dict[str, str]:
    return {key: value for key, value in config.items() if is_wanted(key)}


def _is_on(config: Mapping[str, str], key: str, *, default: str) -> bool:
    return config.get(key, default).strip().lower() == "true"


def _without(prefix: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return the keys with a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}


def _missing(message: str, path: str, example: str) -> ConfigError:
    fix = f"Set `{path}={example}`, for example."
    return ConfigError("config.missing", message, fix=fix, config_path=path)


def _unknown(key: str, why: str) -> ConfigError:
    return ConfigError(
        "config.unknown_key",
        f"`{key}` has no meaning: {why}",
        fix="Correct the key, or remove it.",
        config_path=key,
    )
