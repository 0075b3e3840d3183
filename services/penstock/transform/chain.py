"""The chain: checked once when it is configured, fitted to each schema of each dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

from penstock.model.config_def import ConfigKey, combined, did_you_mean, parse
from penstock.model.errors import ConfigError, nearest
from penstock.model.step import Step
from penstock.transform.change import Change, Kind, Transform, limited
from penstock.transform.filter import Filter
from penstock.transform.members import Member, members
from penstock.transform.predicate import Decision, Predicate
from penstock.transform.registry import PREDICATES, TRANSFORMS, kind_of
from penstock.transform.row import Row

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A chain fitted to one schema: the dataset after routing, and the steps in order. No steps,
    and the engine need not touch the rows.
    """

    dataset: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A transform and the predicate that limits it."""

    path: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def change(self, dataset: str, row: Row) -> Change:
        """Return what becomes of a dataset."""
        applies = self._applies(dataset, row)
        if applies is False:
            return Change()
        change = self.transform.change(dataset, row)
        if isinstance(applies, str) and change != Change():
            return limited(change, applies, row, self.path)
        return change

    def _applies(self, dataset: str, row: Row) -> Decision:
        if self.predicate is None:
            return True
        decision = self.predicate.decide(dataset, row)
        if isinstance(decision, bool):
            return decision != self.negate
        return f"NOT ({decision})" if self.negate else decision


@dataclass(frozen=True, slots=True)
class Chain:
    """Transforms in order."""

    links: tuple[Link, ...] = ()

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Fit the chain to a dataset. Every transform sees what those before it left: the columns,
        and the name.

        Raises:
            ConfigError: a transform cannot be applied to such rows.
        """
        if not self.links:
            return Compiled(dataset, ())
        row, steps = Row.of(schema), list[Step]()
        for link in self.links:
            change = link.change(dataset, row)
            dataset, row = change.dataset or dataset, change.row(row)
            step = change.step()
            if step is not None:
                steps.append(step)
        return Compiled(dataset, tuple(steps))


def build_chain(config: Mapping[str, str]) -> Chain:
    """Return the chain of a connector's configuration; keys other than the chain's are passed over.

    Raises:
        ConfigError: something is wrong; all that is wrong, when it is more.
    """
    errors: list[ConfigError] = []
    predicates = _each(config, "predicates", errors, _predicate)
    links = _each(config, "transforms", errors, lambda member: _link(member, predicates))
    if errors:
        raise combined(errors)
    return Chain(tuple(links.values()))


_COMMON: Final = (
    ConfigKey("type", required=True, doc="a type like `Filter` or `TopicNameMatches`."),
    ConfigKey("plugin.version", doc="Kafka Connect's; built-in types have one version."),
)
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


def _link(member: Member, predicates: Mapping[str, Predicate]) -> Link:
    kind, values = _values(member, TRANSFORMS, "transform", _LIMITS)
    transform = kind.build(member.path, values)
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
