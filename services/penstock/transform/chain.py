"""The transform chain. `configuration` builds it; `Chain.compile` resolves it for each schema of
each dataset into the steps that the engine runs. Transforms of plugins are members of it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa

from penstock.model.columns import OFFSET, PARTITION
from penstock.model.errors import ConfigError
from penstock.model.step import RemoteStep, RemoteTransform, Step
from penstock.transform.change import (
    Change,
    OutputColumn,
    Transform,
    limit_to_rows,
    project_columns,
)
from penstock.transform.defaults import with_defaults
from penstock.transform.kafka.field_values import InsertField
from penstock.transform.predicate import Decision, Predicate
from penstock.transform.row import Row

CHAIN_KEYS: Final = frozenset({"type", "predicate", "negate", "plugin.version"})
"""Keys of a plugin's transform that the chain reads; all others belong to the plugin."""

ResolveRest: TypeAlias = Callable[[str, pa.Schema], tuple[str, tuple[Step, ...]]]
"""Resolves the rest of a chain for a dataset and a schema; see `Chain.resolve_steps`."""


@dataclass(frozen=True, slots=True)
class PluginTransform:
    """A transform that runs in the process of a plugin."""

    remote: RemoteTransform

    def resolve(self, dataset: str, row: Row) -> Change:
        """Refuse a predicate over rows: the output columns are known only when the plan is made."""
        raise ConfigError(
            "transform.row_predicate",
            f"a plugin's transform is applied to all rows of {dataset!r} or to none of them",
            fix="Use TopicNameMatches, or select the rows in the plugin.",
            config_path=self.remote.path,
        )

    def resolve_step(self, dataset: str, rest: ResolveRest) -> RemoteStep:
        """Return the step for the engine; `rest` resolves the following transforms."""

        def resolve_following(schema: pa.Schema) -> tuple[Step, ...]:
            routed, steps = rest(dataset, schema)
            if routed != dataset:
                raise ConfigError(
                    "transform.router_after_plugin",
                    f"{dataset!r} is renamed to {routed!r} behind a transform of a plugin",
                    fix=f"List the router before `{self.remote.path.rpartition('.')[2]}`.",
                    config_path="transforms",
                )
            return steps

        return RemoteStep(remote=self.remote, rest=resolve_following)

    def with_connection(
        self, connect: Callable[[RemoteTransform], RemoteTransform]
    ) -> PluginTransform:
        """Return the transform with the address and credential of its plugin's process."""
        return replace(self, remote=connect(self.remote))


def parse_plugin_transform(path: str, config: Mapping[str, str]) -> PluginTransform:
    """Create the transform of a plugin from the keys of a member of the chain."""
    own = sorted((key, value) for key, value in config.items() if key not in CHAIN_KEYS)
    version = config.get("plugin.version", "").strip()
    return PluginTransform(
        RemoteTransform(config["type"].strip(), tuple(own), path, version=version)
    )


@dataclass(frozen=True, slots=True)
class CompiledChain:
    """A chain resolved for one schema: the dataset after routing, and the steps in order. Without
    steps, the engine leaves the rows untouched.
    """

    dataset: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A transform and the predicate that limits it."""

    path: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def resolve(self, dataset: str, row: Row) -> Change:
        """Return the change of a dataset, limited by the predicate."""
        applies = self.applies(dataset, row)
        if applies is False:
            return Change()
        change = self.transform.resolve(dataset, row)
        if isinstance(applies, str) and change != Change():
            return limit_to_rows(change, applies, row, self.path)
        return change

    def applies(self, dataset: str, row: Row) -> Decision:
        """Whether the transform applies to a dataset; a text: to rows for which it is true."""
        if self.predicate is None:
            return True
        decision = self.predicate.decide(dataset, row)
        if isinstance(decision, bool):
            return decision != self.negate
        return f"NOT ({decision})" if self.negate else decision


@dataclass(frozen=True, slots=True)
class Chain:
    """Transforms in order. `keeps_positions`: the sink wants `__partition` and `__offset`;
    `keeps_partition`: it wants the first of them.
    """

    links: tuple[ChainLink, ...] = ()
    keeps_positions: bool = False
    keeps_partition: bool = False

    @property
    def needs_positions(self) -> bool:
        """Whether it uses `__partition` and `__offset` of rows that are read from a topic."""
        return self.keeps_positions or any(
            isinstance(link.transform, InsertField) and link.transform.needs_positions
            for link in self.links
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the transforms, as in the key `transforms`."""
        return tuple(link.path.removeprefix("transforms.") for link in self.links)

    def until(self, name: str) -> Chain:
        """Return the chain up to and including a transform."""
        return replace(self, links=self.links[: self.names.index(name) + 1])

    def compile(self, dataset: str, schema: pa.Schema) -> CompiledChain:
        """Resolve the chain for a dataset with this schema. Each transform sees the columns and the
        dataset name that the transforms before it produce.

        Raises:
            ConfigError: a transform cannot be applied to such rows.
        """
        if not self.links and not self._dropped(schema.names):
            return CompiledChain(dataset, ())
        row, steps = with_defaults(Row.of(schema), schema), list[Step]()
        for at, link in enumerate(self.links):
            if isinstance(link.transform, PluginTransform) and link.applies(dataset, row) is True:
                rest = replace(self, links=self.links[at + 1 :]).resolve_steps
                return CompiledChain(dataset, (*steps, link.transform.resolve_step(dataset, rest)))
            change = link.resolve(dataset, row)
            dataset, row = change.dataset or dataset, change.row_after(row)
            step = change.to_step(link.path)
            if step is not None:
                steps.append(step)
        if unwanted := self._dropped([column.name for column in row]):
            left = tuple(OutputColumn.unchanged(c) for c in row if c.name not in unwanted)
            dropped = project_columns(left, "transforms").to_step("transforms")
            steps += [dropped] if dropped is not None else []
        if steps:
            semantic_types = tuple((c.name, c.semantic_type) for c in row if c.semantic_type)
            steps[-1] = replace(steps[-1], semantic_types=semantic_types)
        return CompiledChain(dataset, tuple(steps))

    def _dropped(self, names: Collection[str]) -> Collection[str]:
        """Return the columns of a row's position that the sink does not want."""
        if PARTITION not in names or self.keeps_positions:
            return ()
        dropped = {OFFSET} if self.keeps_partition else {PARTITION, OFFSET}
        return dropped.intersection(names)

    def resolve_steps(self, dataset: str, schema: pa.Schema) -> tuple[str, tuple[Step, ...]]:
        """Return the dataset after routing, and the steps, as `compile`."""
        compiled = self.compile(dataset, schema)
        return compiled.dataset, compiled.steps

    @property
    def plugin_transforms(self) -> tuple[RemoteTransform, ...]:
        """The transforms of plugins."""
        transforms = (link.transform for link in self.links)
        return tuple(t.remote for t in transforms if isinstance(t, PluginTransform))

    def with_connections(self, connect: Callable[[RemoteTransform], RemoteTransform]) -> Chain:
        """Return the chain with the addresses and credentials of its plugins' processes."""
        return replace(
            self,
            links=tuple(
                replace(link, transform=link.transform.with_connection(connect))
                if isinstance(link.transform, PluginTransform)
                else link
                for link in self.links
            ),
        )
