"""What a node lets connectors reach: topics, secrets, folders and hosts. Pure.

    reach=team-a,rest
    reach.team-a.connectors=team-a-.*
    reach.team-a.topics=team-a-.*
    reach.team-a.secrets=env:TEAM_A_.*,file:/etc/team-a/.*
    reach.team-a.folders=/data/team-a
    reach.team-a.hosts=db.example,10.1.0.0/16,*.team-a.example
    reach.rest.connectors=.*

The first rule whose pattern matches the whole name of a connector counts. What it does not name is
denied; `*` allows everything. Topics and secrets are checked here. Folders and hosts are sent to
the plugins, which alone know the meaning of their keys.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.model.config_def import ConfigKey, did_you_mean, parse
from penstock.model.connector import Target
from penstock.model.errors import ConfigError
from penstock.model.pattern import Pattern
from penstock.secrets.resolution import Reference
from penstock.worker.config.client_overrides import OverridePolicy

if TYPE_CHECKING:
    from penstock.plugin.responses import ConnectorSpec
from penstock.model.errors import Diagnostic

REACH: Final = "reach"
RESERVED: Final = f"{REACH}."
"""Prefix of the keys that send bounds to plugins. No configuration may have them."""

_T = TypeVar("_T")

_ANY: Final = "*"
_RULE_KEYS: Final = (
    ConfigKey("connectors", required=True, doc="Pattern of the names of connectors."),
    ConfigKey("folders", "list", (), doc="Folders that their plugins may read and write."),
    ConfigKey("topics", "list", (), doc="Patterns of topics."),
    ConfigKey("secrets", "list", (), doc="Patterns of references: `env:DB_.*`."),
    ConfigKey("hosts", "list", (), doc="Names, *.names, addresses and networks."),
)
_RULE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class Reach:
    """What one connector may reach. None allows anything; `rule` is empty on a node without
    rules.
    """

    rule: str = ""
    topics: tuple[Pattern, ...] | None = None
    secrets: tuple[Pattern, ...] | None = field(default=None, repr=False)
    folders: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None

    def has_topic(self, topic: str) -> bool:
        """Return whether a topic may be read and written.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return self.topics is None or any(one.matches(topic) for one in self.topics)

    def require_topic(self, topic: str, path: str = "") -> None:
        """Raise when a topic may not be read and written. `path` is the key that names it.

        Raises:
            ConfigError: `reach.topic`, `config.slow_pattern`.
        """
        if not self.has_topic(topic):
            raise self._out_of_reach("topic", "topics", f"the topic {topic[:200]!r}", path)

    def require_any_topic(self) -> None:
        """Refuse a connector with topics of a broker where a rule bounds topics: the brokers bound
        them, by the rights of the node's user.

        Raises:
            ConfigError: `reach.brokers`.
        """
        if self.topics is not None:
            raise ConfigError(
                "reach.brokers",
                f"the rule {self.rule!r} bounds the topics of this connector, and those of brokers "
                "are not bounded by rules",
                fix=f"Set `topics.backend=embedded`, or remove `{RESERVED}{self.rule}.topics` and "
                "give the node's user at the brokers only the rights that it needs.",
                config_path="topics.backend",
            )

    def check_topics(self, named: Iterable[tuple[str, str]]) -> list[Diagnostic]:
        """Return an error for each topic that is out of reach, of pairs of a key and a topic."""
        found = []
        for path, topic in named:
            try:
                self.require_topic(topic, path)
            except ConfigError as error:
                found.append(error.diagnostic)
        return found

    def require_secrets(self, references: Iterable[tuple[str, Reference]]) -> None:
        """Raise when one of the references of a configuration may not be looked up.

        Raises:
            ConfigError: `reach.secret`, `config.slow_pattern`.
        """
        for path, reference in references:
            if self.secrets is not None and not _allows(self.secrets, reference):
                raise self._out_of_reach("secret", "secrets", f"the secret {reference}"[:300], path)

    def with_reach_keys(self, spec: ConnectorSpec, target: Target) -> Target:
        """Return a plugin's configuration with the folders and hosts that it has to enforce.

        Raises:
            ConfigError: `reach.plugin`: it does not enforce any.
        """
        bounds = {
            key: ",".join(values)
            for key, values in (("folders", self.folders), ("hosts", self.hosts))
            if values is not None
        }
        if not bounds:
            return target
        if not spec.enforces_reach:
            raise self._not_enforced(spec.name, bounds)
        keys = {f"{RESERVED}{name}": bounds.get(name, _ANY) for name in ("folders", "hosts")}
        return replace(target, config={**target.config, **keys})

    def _out_of_reach(self, code: str, dimension: str, what: str, path: str) -> ConfigError:
        return ConfigError(
            f"reach.{code}",
            f"{what} is out of reach of this connector by the rule {self.rule!r}",
            fix=f"Choose another, or have it added to `{RESERVED}{self.rule}.{dimension}` of the "
            "workers.",
            config_path=path,
        )

    def _not_enforced(self, plugin: str, dimensions: Iterable[str]) -> ConfigError:
        keys = " and ".join(f"`{RESERVED}{self.rule}.{one}=*`" for one in dimensions)
        return ConfigError(
            "reach.plugin",
            f"{plugin} does not enforce folders and hosts, which the rule {self.rule!r} restricts",
            fix=f"Choose a connector that does, or have {keys} set at the workers, which opens "
            "them to all plugins of these connectors.",
            config_path="connector.class",
        )


UNRESTRICTED: Final = Reach()
"""The reach of connectors on a node without rules."""


@dataclass(frozen=True, slots=True)
class ReachRules:
    """The rules of a node in order, each with the pattern of its connectors. None: the node has no
    rules, and everything may be reached.
    """

    rules: tuple[tuple[Pattern, Reach], ...] | None = None

    def for_connector(self, name: str) -> Reach:
        """Return what a connector may reach.

        Raises:
            ConfigError: `reach.no_rule`, `config.slow_pattern`.
        """
        if self.rules is None:
            return UNRESTRICTED
        for pattern, reach in self.rules:
            if pattern.matches(name):
                return reach
        raise ConfigError(
            "reach.no_rule",
            f"no rule matches the connector {name[:200]!r}",
            fix="Give it another name, or have a rule added for it with "
            f"`{RESERVED}<rule>.connectors` of the workers.",
            config_path="name",
        )


NO_RULES: Final = ReachRules()


def read_reach_rules(names: Sequence[str], config: Mapping[str, str]) -> ReachRules:
    """Return the named rules. `config` has the keys that start with `reach.`.

    Raises:
        ConfigError: `reach.unknown_rule`, or a key of a rule is wrong.
    """
    for key in config:
        name = key.removeprefix(RESERVED).partition(".")[0]
        if name not in names:
            raise ConfigError(
                "reach.unknown_rule",
                f"`{key}` belongs to a rule that `{REACH}` does not list",
                fix=did_you_mean(name, names) if names else f"Add `{name}` to `{REACH}`.",
                config_path=key,
            )
    return ReachRules(tuple(_rule(name, config) for name in names)) if names else NO_RULES


def _rule(name: str, config: Mapping[str, str]) -> tuple[Pattern, Reach]:
    if not _RULE_NAME.fullmatch(name):
        raise ConfigError(
            "reach.bad_name",
            f"{name[:200]!r} is not a valid name of a rule",
            fix="Use letters, digits, `-` and `_`.",
            config_path=REACH,
        )
    start = f"{RESERVED}{name}."
    set_keys = {key.removeprefix(start): config[key] for key in config if key.startswith(start)}
    values = parse(_RULE_KEYS, set_keys, start.rstrip("."))
    reach = Reach(
        name,
        topics=_patterns(values, "topics", start),
        secrets=_patterns(values, "secrets", start),
        folders=_parse_bound(values["folders"], lambda folder: _folder(folder, f"{start}folders")),
        hosts=_parse_bound(values["hosts"], lambda host: _host(host, f"{start}hosts")),
    )
    return Pattern.parse(values["connectors"], f"{start}connectors"), reach


def _patterns(values: Mapping[str, Any], key: str, start: str) -> tuple[Pattern, ...] | None:
    return _parse_bound(values[key], lambda text: Pattern.parse(text, f"{start}{key}"))


def _parse_bound(values: Sequence[str], read: Callable[[str], _T]) -> tuple[_T, ...] | None:
    return None if _ANY in values else tuple(read(value) for value in values)


def _folder(folder: str, path: str) -> str:
    if not Path(folder).is_absolute() and "://" not in folder:
        raise _bad_value(path, f"{folder[:200]!r} is not an absolute path", "Start it with `/`.")
    return folder


def _host(host: str, path: str) -> str:
    if "/" in host:
        try:
            ipaddress.ip_network(host)
        except ValueError as error:
            fix = "Write a network as 10.1.0.0/16, or a host name alone."
            raise _bad_value(path, str(error)[:300], fix) from None
    return host.lower()


def _bad_value(path: str, why: str, fix: str) -> ConfigError:
    return ConfigError("config.bad_value", f"`{path}`: {why}", fix=fix, config_path=path)


def _allows(allowed: Iterable[Pattern], reference: Reference) -> bool:
    # a path with `..` could match a pattern and lead elsewhere
    parts = (*reference.path.split("/"), *reference.key.split("/"))
    text = str(reference)[2:-1]
    return ".." not in parts and any(one.matches(text) for one in allowed)


def refuse_reserved(keys: Iterable[str], prefix: str) -> None:
    """Raise when a configuration has keys that are reserved for the reach of plugins. `prefix` is
    what `keys` begin with in the whole configuration.

    Raises:
        ConfigError: `reach.reserved`.
    """
    for key in keys:
        if key.startswith(RESERVED):
            raise ConfigError(
                "reach.reserved",
                f"`{prefix}{key}` is reserved: only the node sets it",
                fix=f"Remove it. Rules belong into the configuration of the workers: `{REACH}`.",
                config_path=f"{prefix}{key}",
            )


@dataclass(frozen=True, slots=True)
class ConnectorBounds:
    """Bounds that a node sets on connectors: settings of Kafka's clients, and reach."""

    overrides: OverridePolicy = field(default_factory=OverridePolicy)
    reach: ReachRules = NO_RULES


UNBOUNDED: Final = ConnectorBounds()
