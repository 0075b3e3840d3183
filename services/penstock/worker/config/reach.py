"""What connectors may reach: rules by name of connector, which a node imposes. Pure.

    reach=team-a,rest
    reach.team-a.connectors=team-a-.*
    reach.team-a.topics=team-a-.*
    reach.team-a.secrets=env:TEAM_A_.*,file:/etc/team-a/.*
    reach.team-a.folders=/data/team-a
    reach.team-a.hosts=db.example,10.1.0.0/16,*.team-a.example
    reach.rest.connectors=.*

The first rule whose pattern matches the whole name counts. What it does not name is denied, and `*`
opens it. Topics and secrets are compared here; folders and hosts by the plugins, which are told
them, since nobody else knows what a key of theirs means.
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
from penstock.model.pattern import Pattern, read_pattern
from penstock.secrets import Reference
from penstock.worker.config.client_overrides import OverridePolicy

if TYPE_CHECKING:
    from penstock.plugin import ConnectorSpec


REACH: Final = "reach"
RESERVED: Final = f"{REACH}."
"""Begins the keys by which plugins are told, which no configuration may have."""

_T = TypeVar("_T")

_ANY: Final = "*"
_KEYS: Final = (
    ConfigKey("connectors", required=True, doc="Pattern of the names of connectors."),
    ConfigKey("folders", "list", (), doc="Folders that their plugins may read and write."),
    ConfigKey("topics", "list", (), doc="Patterns of topics."),
    ConfigKey("secrets", "list", (), doc="Patterns of references: `env:DB_.*`."),
    ConfigKey("hosts", "list", (), doc="Names, *.names, addresses and networks."),
)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class Reach:
    """What one connector may reach: a rule. None stands for anything; `rule` is empty where the
    node has none.
    """

    rule: str = ""
    topics: tuple[Pattern, ...] | None = None
    secrets: tuple[Pattern, ...] | None = field(default=None, repr=False)
    folders: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None

    def has_topic(self, topic: str) -> bool:
        """Tell whether a topic may be read and written.

        Raises:
            ConfigError: `config.slow_pattern`.
        """
        return self.topics is None or any(one.matches(topic) for one in self.topics)

    def require_topic(self, topic: str, path: str = "") -> None:
        """Raise when a topic may not be read and written; `path` is the key that names it.

        Raises:
            ConfigError: `reach.topic`, `config.slow_pattern`.
        """
        if not self.has_topic(topic):
            raise self._refused("topic", "topics", f"the topic {topic[:200]!r}", path)

    def require_secrets(self, references: Iterable[tuple[str, Reference]]) -> None:
        """Raise when one of the references of a configuration may not be looked up.

        Raises:
            ConfigError: `reach.secret`, `config.slow_pattern`.
        """
        for path, reference in references:
            if self.secrets is not None and not _refers(self.secrets, reference):
                raise self._refused("secret", "secrets", f"the secret {reference}"[:300], path)

    def told(self, spec: ConnectorSpec, target: Target) -> Target:
        """Return what a plugin is told, with the folders and hosts that it keeps to.

        Raises:
            ConfigError: `reach.plugin`: it keeps to none.
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

    def _refused(self, code: str, dimension: str, what: str, path: str) -> ConfigError:
        return ConfigError(
            f"reach.{code}",
            f"{what} is outside of what the rule {self.rule!r} lets this connector reach",
            fix=f"Name another, or have it added to `{RESERVED}{self.rule}.{dimension}` of the "
            "workers.",
            config_path=path,
        )

    def _not_enforced(self, plugin: str, dimensions: Iterable[str]) -> ConfigError:
        keys = " and ".join(f"`{RESERVED}{self.rule}.{one}=*`" for one in dimensions)
        return ConfigError(
            "reach.plugin",
            f"{plugin} does not keep to folders and hosts, and the rule {self.rule!r} bounds them",
            fix=f"Take a connector that does; or have {keys} set at the workers, which lets all "
            "plugins of these connectors reach any.",
            config_path="connector.class",
        )


ANYWHERE: Final = Reach()
"""Of connectors where a node has no rules."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a node, in order: each with the pattern of the names it is for. None: there are
    none, and everything may be reached.
    """

    rules: tuple[tuple[Pattern, Reach], ...] | None = None

    def of(self, name: str) -> Reach:
        """Return what a connector may reach.

        Raises:
            ConfigError: `reach.no_rule`, `config.slow_pattern`.
        """
        if self.rules is None:
            return ANYWHERE
        for pattern, reach in self.rules:
            if pattern.matches(name):
                return reach
        raise ConfigError(
            "reach.no_rule",
            f"no rule says what the connector {name[:200]!r} may reach",
            fix="Give it another name, or have a rule added for it: "
            f"`{RESERVED}<rule>.connectors` of the workers.",
            config_path="name",
        )


NO_RULES: Final = Rules()


def reach_rules(names: Sequence[str], config: Mapping[str, str]) -> Rules:
    """Return the rules that are named. `config` has the keys behind `reach.`.

    Raises:
        ConfigError: `reach.unknown_rule`, or one has a key that is wrong.
    """
    for key in config:
        name = key.removeprefix(RESERVED).partition(".")[0]
        if name not in names:
            raise ConfigError(
                "reach.unknown_rule",
                f"`{key}` is about a rule that `{REACH}` does not name",
                fix=did_you_mean(name, names) if names else f"Add `{name}` to `{REACH}`.",
                config_path=key,
            )
    return Rules(tuple(_rule(name, config) for name in names)) if names else NO_RULES


def _rule(name: str, config: Mapping[str, str]) -> tuple[Pattern, Reach]:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "reach.bad_name",
            f"{name[:200]!r} is no name of a rule",
            fix="Take letters, digits, `-` and `_`.",
            config_path=REACH,
        )
    start = f"{RESERVED}{name}."
    said = {key.removeprefix(start): config[key] for key in config if key.startswith(start)}
    values = parse(_KEYS, said, start.rstrip("."))
    reach = Reach(
        name,
        topics=_patterns(values, "topics", start),
        secrets=_patterns(values, "secrets", start),
        folders=_bounded(values["folders"], lambda folder: _folder(folder, f"{start}folders")),
        hosts=_bounded(values["hosts"], lambda host: _host(host, f"{start}hosts")),
    )
    return read_pattern(values["connectors"], f"{start}connectors"), reach


def _patterns(values: Mapping[str, Any], key: str, start: str) -> tuple[Pattern, ...] | None:
    return _bounded(values[key], lambda text: read_pattern(text, f"{start}{key}"))


def _bounded(values: Sequence[str], read: Callable[[str], _T]) -> tuple[_T, ...] | None:
    return None if _ANY in values else tuple(read(value) for value in values)


def _folder(folder: str, path: str) -> str:
    if not Path(folder).is_absolute() and "://" not in folder:
        raise _bad(path, f"{folder[:200]!r} is no absolute path", "Write it from `/` on.")
    return folder


def _host(host: str, path: str) -> str:
    if "/" in host:
        try:
            ipaddress.ip_network(host)
        except ValueError as error:
            fix = "Write a network as 10.1.0.0/16, or a name without anything before or behind it."
            raise _bad(path, str(error)[:300], fix) from None
    return host.lower()


def _bad(path: str, why: str, fix: str) -> ConfigError:
    return ConfigError("config.bad_value", f"`{path}`: {why}", fix=fix, config_path=path)


def _refers(allowed: Iterable[Pattern], reference: Reference) -> bool:
    # a path that leads out of where it begins matches what it does not mean
    parts = (*reference.path.split("/"), *reference.key.split("/"))
    text = str(reference)[2:-1]
    return ".." not in parts and any(one.matches(text) for one in allowed)


def refuse_reserved(keys: Iterable[str], prefix: str) -> None:
    """Raise when a configuration has keys by which plugins are told what they may reach; `prefix`
    is what `keys` begin with in the whole of it.

    Raises:
        ConfigError: `reach.reserved`.
    """
    for key in keys:
        if key.startswith(RESERVED):
            raise ConfigError(
                "reach.reserved",
                f"`{prefix}{key}` is a key that the node alone sets",
                fix=f"Remove it. Rules stand in the file of the workers: `{REACH}`.",
                config_path=f"{prefix}{key}",
            )


@dataclass(frozen=True, slots=True)
class Bounds:
    """`overrides`: which settings of Kafka's clients they may bring; `reach`: what they may reach,
    by their names.
    """

    overrides: OverridePolicy = field(default_factory=OverridePolicy)
    reach: Rules = NO_RULES


NO_BOUNDS: Final = Bounds()
