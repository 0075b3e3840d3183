"""Response bodies of Kafka Connect's REST API, built from values of the services. Pure functions.

Kafka Connect has only sources and sinks. A pipeline reads with a plugin, so its type is `source`;
`/v1` returns its kind. A completed task is RUNNING, because tasks of Kafka Connect never complete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.gateway.configs import redact_config
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
TOPIC_KINDS: Final = frozenset({ConnectorKind.SINK, ConnectorKind.MIRROR})
"""Kinds of connectors whose partitions are partitions of topics."""

MAX_PARTITIONS: Final = 100
"""Partitions of a task in a response: a source may have millions."""


def connector_info(connector: Connector, tasks: Iterable[int]) -> dict[str, Any]:
    """Return a ConnectorInfo; `tasks` are task numbers."""
    return {
        "name": connector.name,
        "config": redact_config(connector.config, connector.secret_keys),
        "tasks": [task_id(connector, number) for number in tasks],
        "type": _TYPES[connector.kind],
    }


def connector_state_info(connector: Connector, status: ConnectorStatus | None) -> dict[str, Any]:
    """Return a ConnectorStateInfo. Without a status, no worker has the connector yet."""
    found = status or ConnectorStatus(connector.name, connector.generation)
    version = next(filter(None, map(_version, found.tasks)), {})  # the version of its first task
    own = {"state": _state(found.state), "worker_id": found.worker}
    own |= version | _trace(found.diagnostic)
    return {
        "name": connector.name,
        "connector": own,
        "tasks": [task_state(task, connector.target_state) for task in found.tasks],
        "type": _TYPES[connector.kind],
    }


def task_state(task: RunStatus, target: TargetState = TargetState.RUNNING) -> dict[str, Any]:
    """Return a TaskState. A completed task of a connector that should be PAUSED is PAUSED."""
    paused = task.state is RunState.COMPLETED and target is TargetState.PAUSED
    state = "PAUSED" if paused else _state(task.state)
    own = {"id": task.number, "state": state, "worker_id": task.worker}
    return own | _version(task) | _trace(task.diagnostic)


def task_id(connector: Connector, number: int) -> dict[str, Any]:
    """Return a ConnectorTaskId."""
    return {"connector": connector.name, "task": number}


def task_info(connector: Connector, number: int, plan: TaskPlan) -> dict[str, Any]:
    """Return a TaskInfo. Its configuration has the partitions of the task."""
    keys = [dict(partition.key) for partition in plan.partitions[:MAX_PARTITIONS]]
    config = {
        **redact_config(plan.config, connector.secret_keys),
        "partitions": canonical_json(keys),
    }
    return {"id": task_id(connector, number), "config": config}


def mark_restarting(
    status: ConnectorStatus, *, include_tasks: bool, only_failed: bool
) -> ConnectorStatus:
    """Return the status of a connector right after a restart request."""

    def restarts(state: RunState) -> bool:
        return not only_failed or state is RunState.FAILED

    tasks = tuple(
        replace(task, state=RunState.RESTARTING, diagnostic=None)
        if include_tasks and restarts(task.state)
        else task
        for task in status.tasks
    )
    if not restarts(status.state):
        return replace(status, tasks=tasks)
    return replace(status, tasks=tasks, state=RunState.RESTARTING, diagnostic=None)


def task_numbers(status: ConnectorStatus | None) -> list[int]:
    """Return the numbers of the tasks of a status; none without a status."""
    return [task.number for task in status.tasks] if status else []


def expand_connectors(
    connectors: Sequence[Connector],
    statuses: Mapping[str, ConnectorStatus],
    expansions: Collection[str],
) -> dict[str, dict[str, Any]]:
    """Return connectors by name, each with the requested expansions; `statuses` by generation."""
    found: dict[str, dict[str, Any]] = {}
    for connector in connectors:
        status = statuses.get(connector.generation)
        one = found[connector.name] = {}
        if "status" in expansions:
            one["status"] = connector_state_info(connector, status)
        if "info" in expansions:
            one["info"] = connector_info(connector, task_numbers(status))
    return found


def _state(state: RunState) -> str:
    return _STATES.get(state, state.name)


def _version(task: RunStatus) -> dict[str, str]:
    """Return the plugin version of a task that has been opened."""
    return {"version": task.task.plugin_version} if task.task and task.task.plugin_version else {}


def _trace(diagnostic: Diagnostic | None) -> dict[str, str]:
    if diagnostic is None:
        return {}
    return {"trace": f"{diagnostic}\n{diagnostic.detail}".strip()}
