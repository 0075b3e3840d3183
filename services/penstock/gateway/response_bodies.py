"""What Kafka Connect's REST API shows, made of what the services say. Pure.

Connectors there are sources or sinks. A pipeline reads by a plugin, as a source does, and so shows
as one; `/v1` tells what it is. A completed task shows as RUNNING: Kafka Connect's never end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.gateway.configs import masked
from penstock.model.connector import Connector, ConnectorKind, TargetState, TaskPlan
from penstock.model.errors import Diagnostic
from penstock.model.identity import canonical_json
from penstock.model.status import ConnectorStatus, RunState, RunStatus

_TYPES: Final[Mapping[ConnectorKind, str]] = {
    ConnectorKind.UNSPECIFIED: "unknown",
    ConnectorKind.SOURCE: "source",
    ConnectorKind.PIPELINE: "source",
    ConnectorKind.SINK: "sink",
    ConnectorKind.MIRROR: "sink",
}
_STATES: Final[Mapping[RunState, str]] = {
    RunState.UNSPECIFIED: "UNASSIGNED",
    RunState.COMPLETED: "RUNNING",
}
FROM_TOPICS: Final = frozenset({ConnectorKind.SINK, ConnectorKind.MIRROR})
"""Kinds whose partitions are those of topics."""

MOST_PARTITIONS: Final = 100
"""Partitions that are shown of a task: a source may have millions."""


def info(connector: Connector, tasks: Iterable[int]) -> dict[str, Any]:
    """Return a ConnectorInfo; `tasks` are numbers."""
    return {
        "name": connector.name,
        "config": masked(connector.config, connector.secret_keys),
        "tasks": [task_id(connector, number) for number in tasks],
        "type": _TYPES[connector.kind],
    }


def state_info(connector: Connector, status: ConnectorStatus | None) -> dict[str, Any]:
    """Return a ConnectorStateInfo; without a status nobody has begun with it."""
    found = status or ConnectorStatus(connector.name, connector.generation)
    version = next(filter(None, map(_version, found.tasks)), {})  # it has none of its own
    own = {"state": _state(found.state), "worker_id": found.worker}
    own |= version | _trace(found.diagnostic)
    return {
        "name": connector.name,
        "connector": own,
        "tasks": [task_state(task, connector.target_state) for task in found.tasks],
        "type": _TYPES[connector.kind],
    }


def task_state(task: RunStatus, target: TargetState = TargetState.RUNNING) -> dict[str, Any]:
    """Return a TaskState. A task that has nothing more to do is as its connector is to be."""
    rests = task.state is RunState.COMPLETED and target is TargetState.PAUSED
    state = "PAUSED" if rests else _state(task.state)
    own = {"id": task.number, "state": state, "worker_id": task.worker}
    return own | _version(task) | _trace(task.diagnostic)


def task_id(connector: Connector, number: int) -> dict[str, Any]:
    """Return a ConnectorTaskId."""
    return {"connector": connector.name, "task": number}


def task_info(connector: Connector, number: int, plan: TaskPlan) -> dict[str, Any]:
    """Return a TaskInfo. What a task gets is its partitions."""
    keys = [dict(partition.key) for partition in plan.partitions[:MOST_PARTITIONS]]
    config = {**masked(plan.config, connector.secret_keys), "partitions": canonical_json(keys)}
    return {"id": task_id(connector, number), "config": config}


def restarting(
    status: ConnectorStatus, *, include_tasks: bool, only_failed: bool
) -> ConnectorStatus:
    """Return how a connector is once it was asked to restart."""

    def meant(state: RunState) -> bool:
        return not only_failed or state is RunState.FAILED

    tasks = tuple(
        replace(task, state=RunState.RESTARTING, diagnostic=None)
        if include_tasks and meant(task.state)
        else task
        for task in status.tasks
    )
    if not meant(status.state):
        return replace(status, tasks=tasks)
    return replace(status, tasks=tasks, state=RunState.RESTARTING, diagnostic=None)


def numbers(status: ConnectorStatus | None) -> list[int]:
    """Return the numbers of the tasks that there are."""
    return [task.number for task in status.tasks] if status else []


def expanded(
    connectors: Sequence[Connector],
    statuses: Mapping[str, ConnectorStatus],
    expansions: Collection[str],
) -> dict[str, dict[str, Any]]:
    """Return all connectors, each with what was asked for; `statuses` by generation."""
    found: dict[str, dict[str, Any]] = {}
    for connector in connectors:
        status = statuses.get(connector.generation)
        one = found[connector.name] = {}
        if "status" in expansions:
            one["status"] = state_info(connector, status)
        if "info" in expansions:
            one["info"] = info(connector, numbers(status))
    return found


def _state(state: RunState) -> str:
    return _STATES.get(state, state.name)


def _version(task: RunStatus) -> dict[str, str]:
    """Return which version of its plugin a task runs with, once it was opened."""
    return {"version": task.task.plugin_version} if task.task and task.task.plugin_version else {}


def _trace(diagnostic: Diagnostic | None) -> dict[str, str]:
    if diagnostic is None:
        return {}
    return {"trace": f"{diagnostic}\n{diagnostic.detail}".strip()}
