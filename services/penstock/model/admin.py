"""Results of a worker's admin operations on a connector: validation, plans, checks, changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.model.config_def import ConfigValue, KeyDefinition
from penstock.model.connector import ConnectorKind, TaskPlan
from penstock.model.errors import Diagnostic


@dataclass(frozen=True, slots=True)
class ValidatedConnector:
    """The findings about a configuration, and the kind of connector that its plugin makes of it.

    Only a worker fills `values`: what the plugins make of their keys, and `added_keys`: those that
    its transforms, predicates, converters and groups of topics have. `secret_keys` are the keys
    that the plugins declare as secrets.
    """

    diagnostics: tuple[Diagnostic, ...]
    kind: ConnectorKind
    values: tuple[ConfigValue, ...] = ()
    secret_keys: tuple[str, ...] = ()
    added_keys: tuple[KeyDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedConnector:
    """The task plans of a connector, with warnings, and whether it has a monitor."""

    plans: tuple[TaskPlan, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    monitor: bool = False


@dataclass(frozen=True, slots=True)
class AppliedConnector:
    """The warnings of plugins that changed what a connector owns in external systems."""

    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Signal:
    """What a user asks a running source for; `data` is a JSON object, or empty."""

    id: str
    type: str
    data: str = ""


@dataclass(frozen=True, slots=True)
class AlteredOffsets:
    """Offsets to store, by partition id; None removes one.

    `plugin_called`: the plugin has the capability `alter_offsets` and was called.
    """

    plugin_called: bool
    offsets: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """One step of a connection check. `end` is `source` or `sink`; `took` is in seconds."""

    end: str
    step: str
    ok: bool
    took: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()
