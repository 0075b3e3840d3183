"""RocketMQ Connect's calls, as far as they do not clash with Kafka Connect's.

Its GETs that change something (`GET /connectors/{c}/stop`) are not here: whatever follows a link
would stop a connector. Its article's POSTs do the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from penstock.gateway import configs, documents
from penstock.gateway.access.guard import Sender
from penstock.gateway.clients import Asks, Services
from penstock.gateway.paths import Name
from penstock.gateway.request_body import Json
from penstock.gateway.routes import connectors, plugins, target_state
from penstock.model.status import ConnectorStatus, RunState

routes = APIRouter(tags=["rocketmq"])

_GROUPS = {
    "pending": {RunState.UNASSIGNED, RunState.UNSPECIFIED, RunState.RESTARTING},
    "running": {RunState.RUNNING, RunState.PAUSED},
    "stopped": {RunState.STOPPED, RunState.COMPLETED},
    "error": {RunState.FAILED},
}


@routes.post(
    "/connectors/{connector}",
    responses=documents.answers(200, documents.ConnectorInfo, 201),
    openapi_extra=documents.takes(documents.Config),
)
async def create(asks: Services, connector: Name, body: Json) -> Response:
    """Make a connector, or give it another configuration: the body is the configuration."""
    return await connectors.put_config(asks, connector, body)


@routes.post("/connectors/{connector}/stop", status_code=204, response_class=Response)
async def stop(asks: Services, connector: Name) -> Response:
    """Have it let go of everything; configuration and offsets are kept."""
    return await target_state.stop(asks, connector)


@routes.get("/getClusterInfo", responses=documents.answers(200, documents.Listed))
async def cluster(asks: Services) -> Response:
    """Return the workers."""
    found = await asks.scheduler.cluster()
    return _body([worker.id for worker in found.workers])


@routes.get("/allocated/connectors", responses=documents.answers(200, documents.ByName))
async def allocated_connectors(asks: Services, sender: Sender) -> Response:
    """Return all connectors with their configurations."""
    found = sender.sees((await asks.config.list()).connectors)
    return _body({one.name: configs.masked(one.config, one.secret_keys) for one in found})


@routes.get("/allocated/tasks", responses=documents.answers(200, documents.ByName))
async def allocated_tasks(asks: Services, sender: Sender) -> Response:
    """Return the tasks by how they are."""
    return _body(grouped(sender.sees(await asks.scheduler.statuses())))


@routes.get("/plugin/list", responses=documents.answers(200, documents.Listed))
async def list_plugins(asks: Services) -> Response:
    """Return what is installed on any worker."""
    return _body(await _installed(asks, connectors_only=False))


@routes.get("/plugin/list/connectors", responses=documents.answers(200, documents.Listed))
async def list_connectors(asks: Services) -> Response:
    """Return the connectors that are installed on any worker."""
    return _body(await _installed(asks, connectors_only=True))


@routes.get("/plugin/reload", responses=documents.answers(200, documents.Listed))
async def reload(asks: Services) -> Response:
    """Have all workers look again at what is installed, as they do by themselves."""
    answers = await asks.workers.each(lambda worker: worker.reload_plugins())
    found = (plugin for answer in answers for plugin in answer.plugins)
    return _body(plugins.listed(found, connectors_only=False))


def grouped(statuses: Iterable[ConnectorStatus]) -> dict[str, list[dict[str, Any]]]:
    """Return the tasks of connectors by how they are, each with its connector and its worker."""
    found: dict[str, list[dict[str, Any]]] = {group: [] for group in _GROUPS}
    for status in statuses:
        for task in status.tasks:
            group = next(name for name, states in _GROUPS.items() if task.state in states)
            one = {"connector": status.name, "task": task.number, "worker": task.worker}
            found[group].append(one)
    return found


async def _installed(asks: Asks, *, connectors_only: bool) -> list[dict[str, Any]]:
    answers = await asks.workers.each(lambda worker: worker.list_plugins())
    found = (plugin for installed in answers for plugin in installed)
    return plugins.listed(found, connectors_only=connectors_only)


def _body(body: Any) -> Response:
    return JSONResponse({"status": 200, "body": body})
