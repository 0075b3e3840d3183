"""A transform of a plugin as a member of a chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.model.errors import ConfigError
from penstock.model.step import Remote, RemoteStep, Step
from penstock.transform.change import Change
from penstock.transform.row import Row

OURS: Final = frozenset({"type", "predicate", "negate", "plugin.version"})
"""Keys of a member that are the chain's; all others are the plugin's."""

Rest = Callable[[str, pa.Schema], tuple[str, tuple[Step, ...]]]


@dataclass(frozen=True, slots=True)
class PluginTransform:
    """Changes rows in a process of its own."""

    remote: Remote

    def change(self, dataset: str, row: Row) -> Change:
        """Refuse to tell: the columns that come out are known when the plan is made."""
        del row
        raise ConfigError(
            "transform.row_predicate",
            f"a plugin changes all rows of {dataset!r} or none of them",
            fix="Use TopicNameMatches, or let the plugin look at the rows.",
            config_path=self.remote.path,
        )

    def step(self, dataset: str, rest: Rest) -> RemoteStep:
        """Return the step; `rest` compiles what follows it in the chain."""

        def fitted(schema: pa.Schema) -> tuple[Step, ...]:
            routed, steps = rest(dataset, schema)
            if routed != dataset:
                raise ConfigError(
                    "transform.router_after_plugin",
                    f"{dataset!r} becomes {routed!r} behind a transform of a plugin",
                    fix=f"List the router before `{self.remote.path.rpartition('.')[2]}`.",
                    config_path="transforms",
                )
            return steps

        return RemoteStep(remote=self.remote, rest=fitted)

    def placed(self, place: Callable[[Remote], Remote]) -> PluginTransform:
        """Return it with the place where it is served."""
        return replace(self, remote=place(self.remote))


def plugin_transform(path: str, config: Mapping[str, str]) -> PluginTransform:
    """Return the transform of a member's keys."""
    own = sorted((key, value) for key, value in config.items() if key not in OURS)
    version = config.get("plugin.version", "").strip()
    return PluginTransform(Remote(config["type"].strip(), tuple(own), path, version=version))
