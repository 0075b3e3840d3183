"""Plugins as a worker lists them: the installed ones, and what is part of Penstock."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.errors import Diagnostic


@dataclass(frozen=True, slots=True)
class InstalledConnector:
    """A connector of a plugin. `kind` is source, sink, transform or converter."""

    name: str
    kind: str
    title: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin that is installed on a worker, with its connectors."""

    name: str
    version: str
    connectors: tuple[InstalledConnector, ...] = ()


@dataclass(frozen=True, slots=True)
class BuiltInPlugin:
    """A transform, predicate or converter that is part of Penstock.

    `type` is the word of Kafka Connect: transformation, predicate, converter, header_converter.
    """

    name: str
    type: str
    version: str


@dataclass(frozen=True, slots=True)
class ReloadedPlugins:
    """The installed plugins, whether they changed, and the problems of skipped plugins."""

    plugins: tuple[InstalledPlugin, ...]
    changed: bool
    problems: tuple[Diagnostic, ...] = ()
