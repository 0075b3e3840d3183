"""RocketMQ Connect's routes that do not clash with Kafka Connect's.

GET routes that change something, such as `GET /connectors/{c}/stop`, are left out: a client that
follows a link would stop a connector. The POST routes of its documentation do the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from penstock.gateway import configs
from penstock.gateway.access.guard import Caller
from penstock.gateway.bodies import request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import JsonBody, PathName
from penstock.gateway.routes import bodies, connectors, plugins
from penstock.model.status import ConnectorStatus, RunState

router = APIRouter(tags=["rocketmq"])

_GROUPS = {
    "pending": {RunState.UNASSIGNED, RunState.UNSPECIFIED, RunState.RESTARTING},
    "running": {RunState.RUNNING, RunState.PAUSED},
    "stopped": {RunState.STOPPED, RunState.COMPLETED},
    "error": {RunState.FAILED},
}


@router.post(
    "/connectors/{connector}",
    responses=responses(200, bodies.ConnectorInfo, 201),
    openapi_extra=request_body(bodies.Config),
)
async def create_or_update_connector(
    clients: Clients, connector: PathName, body: JsonBody
) -> Response:
    """Create a connector, or replace its configuration. The body is the configuration."""
    return await connectors.put_config(clients, connector, body)


@router.post("/connectors/{connector}/stop", status_code=204, response_class=Response)
async def stop_connector(clients: Clients, connector: PathName) -> Response:
    """Stop a connector and release its resources. Configuration and offsets are kept."""
    return await connectors.stop_connector(clients, connector)


@router.get("/getClusterInfo", responses=responses(200, bodies.Listed))
async def list_workers(clients: Clients) -> Response:
    """Return the ids of the workers."""
    found = await clients.scheduler.get_cluster()
    return _list_response([worker.id for worker in found.workers])


@router.get("/allocated/connectors", responses=responses(200, bodies.ByName))
async def allocated_connectors(clients: Clients, caller: Caller) -> Response:
    """Return all connectors with their configurations."""
    found = caller.filter_visible((await clients.config.list()).connectors)
    shown = {one.name: configs.redact_config(one.config, one.secret_keys) for one in found}
    return bodies.ByName(status=200, body=shown).respond()


@router.get("/allocated/tasks", responses=responses(200, bodies.ByName))
async def allocated_tasks(clients: Clients, caller: Caller) -> Response:
    """Return the tasks, grouped by state."""
    found = caller.filter_visible(await clients.scheduler.list_statuses())
    return bodies.ByName(status=200, body=group_tasks(found)).respond()


@router.get("/plugin/list", responses=responses(200, bodies.Listed))
async def list_plugins(clients: Clients) -> Response:
    """Return the plugins of all workers."""
    return _list_response(await _list_installed(clients, connectors_only=False))


@router.get("/plugin/list/connectors", responses=responses(200, bodies.Listed))
async def list_connectors(clients: Clients) -> Response:
    """Return the connectors of the plugins of all workers."""
    return _list_response(await _list_installed(clients, connectors_only=True))


@router.get("/plugin/reload", responses=responses(200, bodies.Listed))
async def reload(clients: Clients) -> Response:
    """Have all workers scan their plugin folders now. They also do it regularly."""
    answers = await clients.workers.call_all(lambda worker: worker.reload_plugins())
    found = (plugin for answer in answers for plugin in answer.plugins)
    return _list_response(plugins.list_bodies(found, connectors_only=False))


def group_tasks(statuses: Iterable[ConnectorStatus]) -> dict[str, list[dict[str, Any]]]:
    """Return the tasks grouped by state, each with its connector and worker."""
    found: dict[str, list[dict[str, Any]]] = {group: [] for group in _GROUPS}
    for status in statuses:
        for task in status.tasks:
            group = next(name for name, states in _GROUPS.items() if task.state in states)
            one = {"connector": status.name, "task": task.number, "worker": task.worker}
            found[group].append(one)
    return found


async def _list_installed(clients: ServiceClients, *, connectors_only: bool) -> list[bodies.Plugin]:
    answers = await clients.workers.call_all(lambda worker: worker.list_plugins())
    found = (plugin for installed in answers for plugin in installed)
    return plugins.list_bodies(found, connectors_only=connectors_only)


def _list_response(body: list[Any]) -> Response:
    return bodies.Listed(status=200, body=body).respond()
