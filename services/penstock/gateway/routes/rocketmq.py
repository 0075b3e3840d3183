"""RocketMQ Connect's calls that do not clash with Kafka Connect's.

The `router` has the two calls of its documentation, with Kafka Connect's bodies. `information` is
about workers, tasks and plugins, in its own bodies; `listeners.rocketmq` has it, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from penstock.gateway.access.guard import Caller, view_configs
from penstock.gateway.bodies import request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import JsonBody, PathName
from penstock.gateway.routes import bodies, connectors, plugins
from penstock.model.status import ConnectorStatus, RunState

router = APIRouter(tags=["rocketmq"])
information = APIRouter(tags=["rocketmq"])

_GROUPS: Final = {
    "pendingTasks": {RunState.UNASSIGNED, RunState.UNSPECIFIED, RunState.RESTARTING},
    "runningTasks": {RunState.RUNNING, RunState.PAUSED},
    "stoppingTasks": frozenset[RunState](),
    "stoppedTasks": {RunState.STOPPED, RunState.COMPLETED},
    "errorTasks": {RunState.FAILED},
}


@router.post(
    "/connectors/{connector}",
    responses=responses(200, bodies.ConnectorInfo, 201),
    openapi_extra=request_body(bodies.Config),
)
async def create_or_update_connector(
    request: Request, clients: Clients, connector: PathName, body: JsonBody
) -> Response:
    """Create a connector, or replace its configuration. The body is the configuration."""
    return await connectors.put_config(request, clients, connector, body)


@router.post("/connectors/{connector}/stop", status_code=204, response_class=Response)
async def stop_connector(clients: Clients, connector: PathName) -> Response:
    """Stop a connector and release its resources. Configuration and offsets are kept."""
    return await connectors.stop_connector(clients, connector)


@information.get("/getClusterInfo", responses=responses(200, bodies.Enveloped))
async def list_workers(clients: Clients) -> Response:
    """Return the ids of the workers."""
    found = await clients.scheduler.get_cluster()
    return envelop([worker.id for worker in found.workers])


@information.get("/allocated/connectors", responses=responses(200, bodies.Enveloped))
async def allocated_connectors(request: Request, clients: Clients, caller: Caller) -> Response:
    """Return all connectors with their configurations."""
    found = caller.filter_visible((await clients.config.list()).connectors)
    view = view_configs(request, found)
    return envelop({one.name: view.show(one) for one in found})


@information.get("/allocated/tasks", responses=responses(200, bodies.Enveloped))
async def allocated_tasks(request: Request, clients: Clients, caller: Caller) -> Response:
    """Return the tasks, grouped by state."""
    stored = (await clients.config.list()).connectors
    found = caller.filter_visible(await clients.scheduler.list_statuses())
    view = view_configs(request, stored)
    return envelop(group_tasks(found, {one.generation: view.show(one) for one in stored}))


@information.get("/plugin/list", responses=responses(200, bodies.Enveloped))
async def list_plugins(clients: Clients) -> Response:
    """Return the plugins of all workers."""
    return envelop(await _list_installed(clients, connectors_only=False))


@information.get("/plugin/list/connectors", responses=responses(200, bodies.Enveloped))
async def list_connectors(clients: Clients) -> Response:
    """Return the connectors of the plugins of all workers."""
    return envelop(await _list_installed(clients, connectors_only=True))


@information.get("/plugin/reload", responses=responses(200, bodies.Enveloped))
async def reload(clients: Clients) -> Response:
    """Have all workers scan their plugin folders now. They also do it regularly."""
    await clients.workers.call_all(lambda worker: worker.reload_plugins())
    return envelop("Plugin reload succeeded")


def envelop(body: Any) -> Response:
    """Return the answer of a call that succeeded."""
    return bodies.Enveloped(status=200, body=body).respond()


def group_tasks(
    statuses: Iterable[ConnectorStatus], configs_: dict[str, dict[str, str]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the tasks grouped by state, each with its connector's configuration, which `configs_`
    has by generation.
    """
    found: dict[str, list[dict[str, Any]]] = {group: [] for group in _GROUPS}
    for status in statuses:
        for task in status.tasks:
            group = next(name for name, states in _GROUPS.items() if task.state in states)
            found[group].append(
                {
                    "connectorName": status.name,
                    "config": configs_.get(status.generation, {}),
                    "taskState": group.removesuffix("Tasks").upper(),
                }
            )
    return found


async def _list_installed(clients: ServiceClients, *, connectors_only: bool) -> list[Any]:
    answers = await clients.workers.call_all(lambda worker: worker.list_plugins())
    found = (plugin for installed in answers for plugin in installed)
    listed = [one.to_json() for one in plugins.list_bodies(found, connectors_only=connectors_only)]
    return [
        {"className": one["class"], "type": one["type"].upper(), "version": one.get("version")}
        for one in listed
    ]
