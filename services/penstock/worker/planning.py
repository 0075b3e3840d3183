"""Validation, and splitting a connector into tasks: what only a machine with the plugins can do."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from penstock.client import PlannedConnector
from penstock.model.config_def import did_you_mean
from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Partition,
    Target,
    TaskPlan,
)
from penstock.model.errors import (
    ConfigError,
    Diagnostic,
    InternalError,
    PenstockError,
    Severity,
)
from penstock.plugin import CheckStep, ConnectorEntry, Kind, PluginHost
from penstock.transform import Outside, build_chain
from penstock.worker.plugging import refused_by, served_by
from penstock.worker.sections import (
    FRAMEWORK,
    PLUGIN_KEYS,
    Sections,
    plugin_class,
    plugin_version,
    sections,
)
from penstock.worker.settings import ConnectorSettings, read_settings

_KINDS: Mapping[Kind, ConnectorKind] = {
    Kind.SOURCE: ConnectorKind.SOURCE,
    Kind.SINK: ConnectorKind.SINK,
}


class TopicPartitions(Protocol):
    """What planning needs to know of topics."""

    async def count(self, topic: str) -> int | None:
        """Return how many partitions a topic has; None when there is no such topic yet."""

    async def names(self) -> list[str]:
        """Return all topics."""


@dataclass(frozen=True, slots=True)
class Design:
    """A connector taken apart: its kind, whose keys are whose, its settings, what was found."""

    connector: Connector
    kind: ConnectorKind
    parts: Sections
    settings: ConnectorSettings
    findings: tuple[Diagnostic, ...]

    def source_target(self) -> Target:
        """Return the source plugin's configuration."""
        return self._target(self.parts.source, "source")

    def sink_target(self) -> Target:
        """Return the sink plugin's configuration."""
        return self._target(self.parts.sink, "sink")

    def _target(self, section: Mapping[str, str], end: str) -> Target:
        config = {key: value for key, value in section.items() if key not in PLUGIN_KEYS}
        name = plugin_class(section, self.parts.framework, end)
        version = plugin_version(section, self.parts.framework)
        return Target(name, self.connector.name, config, version=version)


def design_of(host: PluginHost, connector: Connector) -> Design:
    """Take a connector apart. Cheap: no plugin is started.

    Raises:
        ConfigError: its class is missing, or not installed.
    """
    kind = connector.kind
    if kind is ConnectorKind.UNSPECIFIED:
        name = plugin_class({}, connector.config, "connector")
        _, entry = host.find(name, plugin_version({}, connector.config))
        kind = _kind_of(entry)
    parts = sections(connector.config, kind)
    settings, findings = read_settings({"name": connector.name, **parts.framework}, parts.not_yet)
    return Design(replace(connector, kind=kind), kind, parts, settings, tuple(findings))


def _kind_of(entry: ConnectorEntry) -> ConnectorKind:
    kind = _KINDS.get(entry.kind)
    if kind is None:
        raise ConfigError(
            "plugin.wrong_kind",
            f"`{entry.name}` is a {entry.kind}, and no source or sink",
            fix="Name it in `transforms.<name>.type`, and a source or a sink here.",
            config_path="connector.class",
        )
    return kind


class Planner:
    """Validates connectors and splits them."""

    def __init__(
        self, host: PluginHost, topics: TopicPartitions, functions: Sequence[Path] = ()
    ) -> None:
        self._host, self._topics, self._functions = host, topics, functions

    async def validate(self, connector: Connector) -> tuple[list[Diagnostic], ConnectorKind]:
        """Return all findings about a configuration, and the kind of the connector."""
        try:
            design = design_of(self._host, connector)
        except ConfigError as error:
            return [error.diagnostic], connector.kind
        findings = list(design.findings)
        try:
            outside = Outside(self._functions, served_by(self._host))
            chain = build_chain(design.parts.chain, outside)
            findings += await refused_by(self._host, chain, connector.name)
        except PenstockError as error:
            findings.append(error.diagnostic)
        if design.kind is ConnectorKind.SINK and not design.settings.topics:
            findings.append(_no_topics())
        for target, end in _targets(design):
            findings += await self._validated(target, end, design.kind)
        return findings, design.kind

    async def check(self, connector: Connector) -> AsyncGenerator[tuple[str, CheckStep], None]:
        """Iterate over the steps by which the plugins reach what they are configured for, each with
        its end: `source` or `sink`.

        Raises:
            PenstockError: the class is missing or not installed, or the plugin fails.
        """
        for target, end in _targets(design_of(self._host, connector)):
            process = await self._host.acquire(target.connector, target.version)
            async with aclosing(process.check(target)) as steps:
                async for step in steps:
                    yield end, step

    async def plan(self, connector: Connector) -> PlannedConnector:
        """Return the tasks of a valid connector. The same input gives the same tasks."""
        design = design_of(self._host, connector)
        settings = design.settings
        if design.kind in {ConnectorKind.SINK, ConnectorKind.MIRROR}:
            # a topic that is not there yet may be made with any number of partitions
            partitions, monitor = await topic_partitions(self._topics, settings), True
        else:
            target = design.source_target()
            process = await self._host.acquire(target.connector, target.version)
            planned = await process.plan(target, settings.tasks_max)
            if planned.tasks:
                return numbered(connector, planned.tasks, monitor=planned.monitor)
            partitions, monitor = list(planned.partitions), planned.monitor
        # 100,000 take seconds, in which the loop must keep the worker a member
        parts = await asyncio.to_thread(spread, partitions, settings.tasks_max)
        plans = (TaskPlan("", tuple(part)) for part in parts)
        return numbered(connector, plans, monitor=monitor)

    async def _validated(self, target: Target, end: str, kind: ConnectorKind) -> list[Diagnostic]:
        process = await self._host.acquire(target.connector, target.version)
        validation = await process.validate(target)
        prefix = f"{end}." if kind is ConnectorKind.PIPELINE else ""
        found = [d for value in validation.values for d in value.diagnostics]
        return [
            replace(_with_framework(d, kind), config_path=f"{prefix}{d.config_path}")
            for d in (*found, *validation.diagnostics)
        ]


async def topic_partitions(topics: TopicPartitions, settings: ConnectorSettings) -> list[Partition]:
    """Return the partitions of a sink's topics."""
    partitions = []
    existing = await topics.names() if settings.topics.pattern else ()
    for topic in settings.topics.among(existing):
        count = await topics.count(topic) or settings.topic_partitions
        partitions += [Partition({"topic": topic, "partition": n}) for n in range(count)]
    return partitions


def numbered(connector: Connector, plans: Iterable[TaskPlan], *, monitor: bool) -> PlannedConnector:
    """Return a connector's plan with the ids of its tasks, in their order.

    Raises InternalError (plan.finds_others) when one of several tasks finds partitions by itself.
    """
    # generations, not names, are keys: a namesake made later never meets this plan (invariant 10)
    named = tuple(
        replace(plan, task_id=f"{connector.generation}-{n}") for n, plan in enumerate(plans)
    )
    if len(named) > 1 and any(plan.finds_others for plan in named):
        raise InternalError(
            "plan.finds_others",
            f"the plan of {connector.name} has {len(named)} tasks, and one that finds partitions "
            "by itself: nobody could tell whose they are",
            fix="A connector that is planned with several tasks names all partitions, and watches "
            "for others in Monitor.",
        )
    return PlannedConnector(named, monitor=monitor)


def spread(partitions: Sequence[Partition], most: int) -> list[list[Partition]]:
    """Return the partitions of each task: by weight, heaviest first, always to the lightest task,
    the first of several.

    At least one task, even when there is no partition yet: it waits for some.
    """
    tasks: list[list[Partition]] = [[] for _ in range(max(1, min(most, len(partitions))))]
    loads = [(0.0, number) for number in range(len(tasks))]  # a heap: the lightest is the first
    for partition in sorted(partitions, key=lambda p: (-p.weight, p.id)):
        load, lightest = loads[0]
        tasks[lightest].append(partition)
        heapq.heapreplace(loads, (load + partition.weight, lightest))
    return tasks


def refuse_errors(findings: Sequence[Diagnostic]) -> None:
    """Raise the first error among findings, with all of them as its detail."""
    errors = [d for d in findings if d.severity is not Severity.WARNING]
    if not errors:
        return
    first = errors[0]
    raise ConfigError(
        first.code,
        first.message if len(errors) == 1 else f"{first.message} (and {len(errors) - 1} more)",
        fix=first.fix,
        config_path=first.config_path,
        suggestion=first.suggestion,
        detail="\n".join(str(error) for error in errors),
    )


def _targets(design: Design) -> list[tuple[Target, str]]:
    targets = []
    if design.kind in {ConnectorKind.SOURCE, ConnectorKind.PIPELINE}:
        targets.append((design.source_target(), "source"))
    if design.kind in {ConnectorKind.SINK, ConnectorKind.PIPELINE}:
        targets.append((design.sink_target(), "sink"))
    return targets


def _with_framework(found: Diagnostic, kind: ConnectorKind) -> Diagnostic:
    """An unknown key of a flat configuration may be a misspelt one of the framework."""
    if found.code != "config.unknown_key" or kind is ConnectorKind.PIPELINE:
        return found
    near = did_you_mean(found.config_path, FRAMEWORK)
    return replace(found, fix=near) if near.startswith("Did") else found


def _no_topics() -> Diagnostic:
    return ConfigError(
        "config.missing",
        "a sink reads topics, and `topics` names none",
        fix="Set `topics` to one or more names, separated by commas, or `topics.regex`.",
        config_path="topics",
    ).diagnostic
