"""`/` and `/health`: what this is, and whether it can do what it is for."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents
from penstock.gateway.clients import Asks, Services
from penstock.model.errors import PenstockError
from penstock.rpc.deadlines import deadline

routes = APIRouter(tags=["cluster"])

HEALTH_WITHIN: Final = 8.0
"""Seconds for all that is asked: probes give up after 10 by default."""


@routes.get("/", responses=documents.answers(200, documents.ServerInfo))
async def root(request: Request) -> Response:
    """Tell the version, and the name of the cluster."""
    cluster = request.app.state.cluster
    return JSONResponse(
        {"version": version("penstock"), "commit": "unknown", "kafka_cluster_id": cluster}
    )


@routes.get("/openapi.json", include_in_schema=False)
async def document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return JSONResponse(request.app.openapi())


@routes.get(
    "/health",
    responses=documents.answers(200, documents.Health)
    | documents.answers(503, documents.Health)
    | documents.answers(500, documents.Health),
)
async def health(request: Request, asks: Services) -> Response:
    """Tell whether connectors can be made and run: the services answer, and a worker takes part."""
    try:
        async with deadline("gateway.health", HEALTH_WITHIN):
            wrong = await _wrong(asks)
    except PenstockError as error:
        wrong = error.diagnostic.message
    if not wrong:
        request.app.state.was_healthy = True
        return JSONResponse({"status": "healthy", "message": "Everything answers."})
    if request.app.state.was_healthy:
        return JSONResponse({"status": "unhealthy", "message": wrong}, 500)
    return JSONResponse({"status": "starting", "message": wrong}, 503)


async def _wrong(asks: Asks) -> str:
    _, cluster = await asyncio.gather(asks.config.log_levels(), asks.scheduler.cluster())
    if any(worker.connected for worker in cluster.workers):
        return ""
    return "No worker takes part in the cluster."
