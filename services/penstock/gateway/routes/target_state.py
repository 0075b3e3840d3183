"""`/connectors/{connector}/pause`, `resume`, `stop`, `restart`: whether it runs."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents, response_bodies
from penstock.gateway.clients import Services
from penstock.gateway.paths import Name, Number
from penstock.gateway.routes.connectors import status_of, task_of
from penstock.model.connector import TargetState
from penstock.model.status import ConnectorStatus

routes = APIRouter(tags=["connectors"])


@routes.put("/connectors/{connector}/pause", status_code=202, response_class=Response)
async def pause(asks: Services, connector: Name) -> Response:
    """Have it move no more rows; its ends stay open."""
    await asks.config.set_target_state(connector, TargetState.PAUSED)
    return Response(status_code=202)


@routes.put("/connectors/{connector}/resume", status_code=202, response_class=Response)
async def resume(asks: Services, connector: Name) -> Response:
    """Have it run."""
    await asks.config.set_target_state(connector, TargetState.RUNNING)
    return Response(status_code=202)


@routes.put("/connectors/{connector}/stop", status_code=204, response_class=Response)
async def stop(asks: Services, connector: Name) -> Response:
    """Have it let go of everything; configuration and offsets are kept."""
    await asks.config.set_target_state(connector, TargetState.STOPPED)
    return Response(status_code=204)


@routes.post(
    "/connectors/{connector}/restart",
    status_code=204,
    response_class=Response,
    responses=documents.answers(202, documents.ConnectorState),
)
async def restart(
    asks: Services,
    connector: Name,
    includeTasks: bool = False,  # noqa: N803 - Kafka Connect's name
    onlyFailed: bool = False,  # noqa: N803
) -> Response:
    """Start it anew: the connector alone, or with its tasks, or what has failed of it."""
    stored = await asks.config.get(connector)
    await asks.config.restart(connector, include_tasks=includeTasks, only_failed=onlyFailed)
    if not includeTasks and not onlyFailed:
        return Response(status_code=204)
    now = await status_of(asks, stored) or ConnectorStatus(stored.name, stored.generation)
    soon = response_bodies.restarting(now, include_tasks=includeTasks, only_failed=onlyFailed)
    return JSONResponse(response_bodies.state_info(stored, soon), 202)


@routes.post(
    "/connectors/{connector}/tasks/{task}/restart", status_code=204, response_class=Response
)
async def restart_task(asks: Services, connector: Name, task: Number) -> Response:
    """Start one task anew."""
    stored = await asks.config.get(connector)
    found = task_of(await status_of(asks, stored), stored, task)
    await asks.config.restart(connector, task_id=found.task_id)
    return Response(status_code=204)
