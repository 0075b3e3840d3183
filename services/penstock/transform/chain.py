"""The chain: fitted to each schema of each dataset. `building` makes it of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.model.columns import OFFSET, PARTITION
from penstock.model.step import Remote, Step
from penstock.transform.change import Change, Output, Transform, limited, projected
from penstock.transform.kafka.insert_field import InsertField
from penstock.transform.plugin_step import PluginTransform
from penstock.transform.predicate import Decision, Predicate
from penstock.transform.row import Row


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
        applies = self.applies(dataset, row)
        if applies is False:
            return Change()
        change = self.transform.change(dataset, row)
        if isinstance(applies, str) and change != Change():
            return limited(change, applies, row, self.path)
        return change

    def applies(self, dataset: str, row: Row) -> Decision:
        """Tell whether it changes rows of a dataset; a text: those for which it is true."""
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

    @property
    def wants_places(self) -> bool:
        """Whether it wants `__partition` and `__offset` of rows that are read from a topic."""
        return any(
            isinstance(link.transform, InsertField) and link.transform.wants_places
            for link in self.links
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the transforms."""
        return tuple(link.path.removeprefix("transforms.") for link in self.links)

    def until(self, name: str) -> Chain:
        """Return the chain up to a transform, and with it."""
        return Chain(self.links[: self.names.index(name) + 1])

    def compile(self, dataset: str, schema: pa.Schema) -> Compiled:
        """Fit the chain to a dataset. Every transform sees what those before it left: the columns,
        and the name.

        Raises:
            ConfigError: a transform cannot be applied to such rows.
        """
        if not self.links and PARTITION not in schema.names:
            return Compiled(dataset, ())
        row, steps = Row.of(schema), list[Step]()
        for at, link in enumerate(self.links):
            if isinstance(link.transform, PluginTransform) and link.applies(dataset, row) is True:
                rest = Chain(self.links[at + 1 :]).fit
                return Compiled(dataset, (*steps, link.transform.step(dataset, rest)))
            change = link.change(dataset, row)
            dataset, row = change.dataset or dataset, change.row(row)
            step = change.step(link.path)
            if step is not None:
                steps.append(step)
        if row.get(PARTITION) is not None:
            left = tuple(Output.kept(c) for c in row if c.name not in {PARTITION, OFFSET})
            ended = projected(left, "transforms").step("transforms")
            steps += [ended] if ended is not None else []
        if steps:
            meanings = tuple((c.name, c.meaning) for c in row if c.meaning)
            steps[-1] = replace(steps[-1], meanings=meanings)
        return Compiled(dataset, tuple(steps))

    def fit(self, dataset: str, schema: pa.Schema) -> tuple[str, tuple[Step, ...]]:
        """Return where the rows of a dataset go, and the steps on their way."""
        compiled = self.compile(dataset, schema)
        return compiled.dataset, compiled.steps

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """The transforms that plugins serve."""
        transforms = (link.transform for link in self.links)
        return tuple(t.remote for t in transforms if isinstance(t, PluginTransform))

    def placed(self, place: Callable[[Remote], Remote]) -> Chain:
        """Return the chain with the places of its plugins."""
        return Chain(
            tuple(
                replace(link, transform=link.transform.placed(place))
                if isinstance(link.transform, PluginTransform)
                else link
                for link in self.links
            )
        )
