"""`/`, `/openapi.json` and `/health`: the version, the document, the health of the cluster."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from penstock.gateway.bodies import responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.routes import bodies
from penstock.model.errors import PenstockError
from penstock.rpc.deadlines import deadline

router = APIRouter(tags=["cluster"])

HEALTH_TIMEOUT_S: Final = 8.0
"""Seconds for all checks. Probes time out after 10 s by default."""


API_VERSION: Final = "4.3.1"
"""The version of Kafka Connect whose REST API this is. Clients choose by it what they may call."""


@router.get("/", responses=responses(200, bodies.ServerInfo))
async def get_server_info(request: Request) -> Response:
    """Return the version of Kafka Connect's API that is served, and the name of the cluster.
    `commit` has the version of Penstock. A browser is led to the page.
    """
    if "text/html" in request.headers.get("accept", ""):  # no client of the API accepts that
        return RedirectResponse("ui")
    info = bodies.ServerInfo(
        version=API_VERSION,
        commit=f"penstock-{version('penstock')}",
        kafka_cluster_id=request.app.state.cluster,
    )
    return info.respond()


@router.get("/openapi.json", include_in_schema=False)
async def get_openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return JSONResponse(request.app.openapi())


@router.get(
    "/health",
    responses=responses(200, bodies.Health)
    | responses(503, bodies.Health)
    | responses(500, bodies.Health),
)
async def get_health(request: Request, clients: Clients) -> Response:
    """Return whether connectors can be created and run: services answer, a worker is present."""
    try:
        async with deadline("gateway.health", HEALTH_TIMEOUT_S):
            problem = await _find_problem(clients)
    except PenstockError as error:
        problem = error.diagnostic.message
    if not problem:
        request.app.state.was_healthy = True
        return bodies.Health(status="healthy", message="All services answer.").respond()
    if request.app.state.was_healthy:
        return bodies.Health(status="unhealthy", message=problem).respond(status=500)
    return bodies.Health(status="starting", message=problem).respond(status=503)


async def _find_problem(clients: ServiceClients) -> str:
    _, cluster = await asyncio.gather(
        clients.config.list_log_levels(), clients.scheduler.get_cluster()
    )
    if any(worker.connected for worker in cluster.workers):
        return ""
    return "The cluster has no worker."
