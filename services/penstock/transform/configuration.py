"""Builds a transform chain from a configuration, and reports all of its errors at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.model.config_def import (
    ConfigKey,
    combine_errors,
    did_you_mean,
    find_keys_without_effect,
    no_effect_warning,
    parse,
)
from penstock.model.errors import ConfigError, Diagnostic, nearest_names
from penstock.transform.chain import CHAIN_KEYS, Chain, ChainLink, parse_plugin_transform
from penstock.transform.change import Transform, TypeDefinition
from penstock.transform.functions.python_function import PythonFunction
from penstock.transform.kafka.sql_transforms import Filter
from penstock.transform.predicate import Predicate
from penstock.transform.registry import PREDICATES_BY_NAME, TRANSFORMS_BY_NAME, find_definition


@dataclass(frozen=True, slots=True)
class ChainMember:
    """A named transform or predicate as the user configured it at `path`."""

    name: str
    path: str
    config: Mapping[str, str]


def list_members(config: Mapping[str, str], section: str) -> tuple[ChainMember, ...]:
    """Return the members that `transforms` or `predicates` lists, in order, each with its keys.

    Keys of members that are not listed are ignored, as in Kafka Connect: this switches a transform
    off.

    Raises:
        ConfigError: a name is listed twice, or the list is missing.
    """
    names = [name.strip() for name in config.get(section, "").split(",") if name.strip()]
    prefix = f"{section}."
    if section not in config and any(key.startswith(prefix) for key in config):
        raise ConfigError(
            "config.missing",
            f"there are keys of {section}, but the list `{section}` is missing",
            fix=f"Set `{section}` to their names, in order, separated by commas.",
            config_path=section,
        )
    if len(set(names)) != len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            "transform.duplicate_member",
            f"`{duplicate}` is listed twice in `{section}`",
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
    for keys in own.values():
        if "type" not in keys and "class" in keys:  # RocketMQ Connect's name of it
            keys["type"] = keys.pop("class")
    return tuple(ChainMember(name, prefix + name, own[name]) for name in names)


T = TypeVar("T")


def _no_plugin(_type: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Extensions:
    """What a chain may use besides the built-in transforms.

    Attributes:
        functions: Folders with Python functions of the user.
        plugins: Whether a plugin provides a transform of a type.
    """

    functions: Sequence[Path] = ()
    plugins: Callable[[str], bool] = _no_plugin


NO_EXTENSIONS: Final = Extensions()
"""Only built-in transforms."""


def build_chain(config: Mapping[str, str], extensions: Extensions = NO_EXTENSIONS) -> Chain:
    """Build the chain of a connector's configuration. Other keys of the connector are ignored.

    Raises:
        ConfigError: the chain has an error; a `CombinedError` when it has several.
    """
    errors: list[ConfigError] = []
    predicates = _build_members(config, "predicates", errors, _build_predicate)
    links = _build_members(
        config, "transforms", errors, lambda member: _build_link(member, predicates, extensions)
    )
    if errors:
        raise combine_errors(errors)
    return Chain(tuple(links.values()))


def find_chain_warnings(config: Mapping[str, str]) -> list[Diagnostic]:
    """Return a warning for each key of a chain that has no effect. Errors are ignored here:
    `build_chain` reports them.
    """
    found: list[Diagnostic] = []
    for section, definitions in _DEFINITIONS.items():
        listed = _list_valid_members(config, section)
        for member in listed:
            type_ = member.config.get("type", "").strip()
            definition = definitions.get(type_)
            if definition is not None:
                keys = (*MEMBER_KEYS, *definition.keys)
                found += find_keys_without_effect(keys, member.config, member.path)
        found += _warn_of_unlisted(config, section, [member.path for member in listed])
    return found


def _list_valid_members(config: Mapping[str, str], section: str) -> tuple[ChainMember, ...]:
    try:
        return list_members(config, section)
    except ConfigError:
        return ()


def _warn_of_unlisted(
    config: Mapping[str, str], section: str, listed: Sequence[str]
) -> Iterator[Diagnostic]:
    """Yield a warning for each member that has keys and is not listed."""
    owned = tuple(f"{path}." for path in listed)
    keys = (key for key in config if key.startswith(f"{section}.") and not key.startswith(owned))
    for path in dict.fromkeys(".".join(key.split(".")[:2]) for key in keys):
        name = path.removeprefix(f"{section}.")
        fix = f"List `{name}` in `{section}`, or remove its keys."
        yield no_effect_warning(path, f"`{section}` does not list `{name}`", fix)


MEMBER_KEYS: Final = (
    ConfigKey("type", required=True, doc="a type like `Filter` or `TopicNameMatches`."),
    ConfigKey(
        "plugin.version",
        doc="Which versions of its plugin are allowed; built-in types have one version.",
        no_effect="this type is built in: it has the version of the worker",
    ),
)
_DEFINITIONS: Final[Mapping[str, Mapping[str, TypeDefinition[Any]]]] = {
    "transforms": TRANSFORMS_BY_NAME,
    "predicates": PREDICATES_BY_NAME,
}
PREDICATE_KEYS: Final = (
    ConfigKey("predicate", doc="Name of the predicate that selects datasets or rows."),
    ConfigKey("negate", "boolean", default=False, doc="Apply it where the predicate is false."),
)


def _build_members(
    config: Mapping[str, str],
    section: str,
    errors: list[ConfigError],
    build: Callable[[ChainMember], T],
) -> dict[str, T]:
    built: dict[str, T] = {}
    try:
        for member in list_members(config, section):
            try:
                built[member.name] = build(member)
            except ConfigError as error:
                errors.append(error)
    except ConfigError as error:
        errors.append(error)
    return built


def _build_predicate(member: ChainMember) -> Predicate:
    definition, values = _parse_member(member, PREDICATES_BY_NAME, "predicate", ())
    return definition.build(member.path, values)


def _build_link(
    member: ChainMember, predicates: Mapping[str, Predicate], extensions: Extensions
) -> ChainLink:
    transform, values = _build_transform(member, extensions)
    name, negate = values["predicate"], values["negate"]
    if name is None:
        _check_without_predicate(transform, negate, member.path)
        return ChainLink(member.path, transform)
    if name not in predicates:
        near = nearest_names(name, predicates)
        raise ConfigError(
            "transform.unknown_predicate_name",
            f"there is no predicate named `{name}`",
            fix=did_you_mean(name, predicates) if predicates else "List it in `predicates`.",
            config_path=f"{member.path}.predicate",
            suggestion=near[0] if near else "",
        )
    return ChainLink(member.path, transform, predicates[name], negate)


def _build_transform(
    member: ChainMember, extensions: Extensions
) -> tuple[Transform, Mapping[str, Any]]:
    name = member.config.get("type", "").strip()
    if name not in TRANSFORMS_BY_NAME and extensions.plugins(name):
        own = {key: value for key, value in member.config.items() if key in CHAIN_KEYS}
        values = parse((*MEMBER_KEYS, *PREDICATE_KEYS), own, member.path)
        return parse_plugin_transform(member.path, member.config), values
    definition, values = _parse_member(member, TRANSFORMS_BY_NAME, "transform", PREDICATE_KEYS)
    transform = definition.build(member.path, values)
    if isinstance(transform, PythonFunction):
        transform = transform.with_code(extensions.functions)
    return transform, values


def _check_without_predicate(transform: Transform, negate: bool, path: str) -> None:
    if negate:
        raise ConfigError(
            "config.missing",
            "`negate` needs a predicate",
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


def _parse_member(
    member: ChainMember,
    definitions: Mapping[str, TypeDefinition[T]],
    what: str,
    limits: tuple[ConfigKey, ...],
) -> tuple[TypeDefinition[T], dict[str, Any]]:
    """Return the definition of a member's type, and the parsed values of its keys."""
    type_ = parse(
        MEMBER_KEYS[:1], {k: v for k, v in member.config.items() if k == "type"}, member.path
    )
    definition = find_definition(type_["type"], definitions, f"{member.path}.type", what)
    keys = (*MEMBER_KEYS, *limits, *definition.keys)
    return definition, parse(keys, member.config, member.path)
