"""`/connectors/{connector}/topics`: which topics it has rows of."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents
from penstock.gateway.asks import Services
from penstock.gateway.paths import Name

routes = APIRouter(tags=["connectors"])


@routes.get("/connectors/{connector}/topics", responses=documents.answers(200, documents.Topics))
async def get(asks: Services, connector: Name) -> Response:
    """Return the topics that it has rows of, since it was made or they were reset."""
    return JSONResponse({connector: {"topics": await asks.config.topics(connector)}})


@routes.put("/connectors/{connector}/topics/reset", status_code=202, response_class=Response)
async def reset(asks: Services, connector: Name) -> Response:
    """Forget them; those that rows go on to move of are back within a minute."""
    await asks.config.reset_topics(connector)
    return Response(status_code=202)
