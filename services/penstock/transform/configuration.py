"""From a configuration to a chain: everything about it that can be wrong is found here, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.model.config_def import (
    ConfigKey,
    combined,
    did_you_mean,
    no_effect,
    parse,
    without_effect,
)
from penstock.model.errors import ConfigError, Diagnostic, nearest
from penstock.transform.chain import Chain, Link
from penstock.transform.change import Kind, Transform
from penstock.transform.functions.python import PythonFunction
from penstock.transform.kafka.filter import Filter
from penstock.transform.plugin_step import OURS, plugin_transform
from penstock.transform.predicate import Predicate
from penstock.transform.registry import PREDICATES, TRANSFORMS, kind_of


@dataclass(frozen=True, slots=True)
class Member:
    """A named transform or predicate as it was written; `path` is where."""

    name: str
    path: str
    config: Mapping[str, str]


def members(config: Mapping[str, str], section: str) -> tuple[Member, ...]:
    """Return the members that a section lists, in order, each with its own keys.

    Keys of members that are not listed are passed over, as in Kafka Connect: that is how a
    transform is switched off.

    Raises:
        ConfigError: a name is listed twice, or there are members and no list.
    """
    names = [name.strip() for name in config.get(section, "").split(",") if name.strip()]
    prefix = f"{section}."
    if section not in config and any(key.startswith(prefix) for key in config):
        raise ConfigError(
            "config.missing",
            f"there are keys of {section}, but `{section}` lists none",
            fix=f"Set `{section}` to their names, in order, separated by commas.",
            config_path=section,
        )
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            "transform.duplicate_member",
            f"`{twice}` is listed twice in `{section}`",
            fix="Give each its own name.",
            config_path=section,
        )
    own: dict[str, dict[str, str]] = {name: {} for name in names}
    for key, value in config.items():
        rest = key.removeprefix(prefix)
        owners = [name for name in names if rest.startswith(f"{name}.")]
        if rest != key and owners:
            owner = max(owners, key=len)  # of `a` and `a.b`, `a.b.type` is the longer one's
            own[owner][rest[len(owner) + 1 :]] = value
    return tuple(Member(name, prefix + name, own[name]) for name in names)


T = TypeVar("T")


def _no_plugin(_type: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Outside:
    """What a chain may use that is not built in.

    Attributes:
        functions: Folders with Python functions of the user.
        plugins: Tells whether a plugin serves a transform of a type.
    """

    functions: Sequence[Path] = ()
    plugins: Callable[[str], bool] = _no_plugin


NOTHING: Final = Outside()
"""Only what is built in."""


def build_chain(config: Mapping[str, str], outside: Outside = NOTHING) -> Chain:
    """Return the chain of a connector's configuration; keys other than the chain's are passed over.

    Raises:
        ConfigError: something is wrong; all that is wrong, when it is more.
    """
    errors: list[ConfigError] = []
    predicates = _each(config, "predicates", errors, _predicate)
    links = _each(config, "transforms", errors, lambda member: _link(member, predicates, outside))
    if errors:
        raise combined(errors)
    return Chain(tuple(links.values()))


def chain_warnings(config: Mapping[str, str]) -> list[Diagnostic]:
    """Return a warning for each key of a chain that does nothing. What is wrong is passed over:
    `build_chain` refuses it.
    """
    found: list[Diagnostic] = []
    for section, kinds in _KINDS.items():
        listed = _listed(config, section)
        for member in listed:
            type_ = member.config.get("type", "").strip()
            kind = kinds.get(type_)
            if kind is not None:
                found += without_effect((*_COMMON, *kind.keys), member.config, member.path)
        found += _unlisted(config, section, [member.path for member in listed])
    return found


def _listed(config: Mapping[str, str], section: str) -> tuple[Member, ...]:
    try:
        return members(config, section)
    except ConfigError:
        return ()


def _unlisted(
    config: Mapping[str, str], section: str, listed: Sequence[str]
) -> Iterator[Diagnostic]:
    """Yield a warning for each member that has keys, and is not in the list of the section."""
    owned = tuple(f"{path}." for path in listed)
    keys = (key for key in config if key.startswith(f"{section}.") and not key.startswith(owned))
    for path in dict.fromkeys(".".join(key.split(".")[:2]) for key in keys):
        name = path.removeprefix(f"{section}.")
        fix = f"List `{name}` in `{section}`, or remove its keys."
        yield no_effect(path, f"`{section}` does not list `{name}`", fix)


_COMMON: Final = (
    ConfigKey("type", required=True, doc="a type like `Filter` or `TopicNameMatches`."),
    ConfigKey(
        "plugin.version",
        doc="Which versions of its plugin are allowed; built-in types have one version.",
        no_effect="this type is built in, and has the one version of the worker",
    ),
)
_KINDS: Final[Mapping[str, Mapping[str, Kind[Any]]]] = {
    "transforms": TRANSFORMS,
    "predicates": PREDICATES,
}
_LIMITS: Final = (
    ConfigKey("predicate", doc="Name of the predicate that says which rows it is applied to."),
    ConfigKey("negate", "boolean", default=False, doc="Apply it where the predicate is false."),
)


def _each(
    config: Mapping[str, str],
    section: str,
    errors: list[ConfigError],
    build: Callable[[Member], T],
) -> dict[str, T]:
    built: dict[str, T] = {}
    try:
        for member in members(config, section):
            try:
                built[member.name] = build(member)
            except ConfigError as error:
                errors.append(error)
    except ConfigError as error:
        errors.append(error)
    return built


def _predicate(member: Member) -> Predicate:
    kind, values = _values(member, PREDICATES, "predicate", ())
    return kind.build(member.path, values)


def _link(member: Member, predicates: Mapping[str, Predicate], outside: Outside) -> Link:
    transform, values = _transform(member, outside)
    name, negate = values["predicate"], values["negate"]
    if name is None:
        _check_unlimited(transform, negate, member.path)
        return Link(member.path, transform)
    if name not in predicates:
        near = nearest(name, predicates)
        raise ConfigError(
            "transform.unknown_predicate_name",
            f"there is no predicate named `{name}`",
            fix=did_you_mean(name, predicates) if predicates else "List it in `predicates`.",
            config_path=f"{member.path}.predicate",
            suggestion=near[0] if near else "",
        )
    return Link(member.path, transform, predicates[name], negate)


def _transform(member: Member, outside: Outside) -> tuple[Transform, Mapping[str, Any]]:
    name = member.config.get("type", "").strip()
    if name not in TRANSFORMS and outside.plugins(name):
        ours = {key: value for key, value in member.config.items() if key in OURS}
        values = parse((*_COMMON, *_LIMITS), ours, member.path)
        return plugin_transform(member.path, member.config), values
    kind, values = _values(member, TRANSFORMS, "transform", _LIMITS)
    transform = kind.build(member.path, values)
    if isinstance(transform, PythonFunction):
        transform = transform.found(outside.functions)
    return transform, values


def _check_unlimited(transform: Transform, negate: bool, path: str) -> None:
    if negate:
        raise ConfigError(
            "config.missing",
            "`negate` without a predicate negates nothing",
            fix="Set `predicate`, or remove `negate`.",
            config_path=f"{path}.predicate",
        )
    if isinstance(transform, Filter) and transform.condition is None:
        raise ConfigError(
            "config.missing",
            "Filter without a condition and without a predicate would drop every row",
            fix="Set `condition` to keep rows, or `predicate` to drop those that it matches.",
            config_path=f"{path}.condition",
        )


def _values(
    member: Member, kinds: Mapping[str, Kind[T]], what: str, limits: tuple[ConfigKey, ...]
) -> tuple[Kind[T], dict[str, Any]]:
    """Return the kind of a member and the values of its keys."""
    type_ = parse(_COMMON[:1], {k: v for k, v in member.config.items() if k == "type"}, member.path)
    kind = kind_of(type_["type"], kinds, f"{member.path}.type", what)
    return kind, parse((*_COMMON, *limits, *kind.keys), member.config, member.path)
