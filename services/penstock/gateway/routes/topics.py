"""`/connectors/{connector}/topics`: which topics it has rows of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents
from penstock.gateway.clients import Services
from penstock.gateway.paths import Name
from penstock.model.errors import ConfigError

routes = APIRouter(tags=["connectors"])


@dataclass(frozen=True, slots=True)
class Tracking:
    """Whether topics are told, and may be forgotten. They are noted all the same, so that other
    gateways, and this one later, know them.
    """

    told: bool = True
    resets: bool = True


def tracking_of(values: Mapping[str, Any]) -> Tracking:
    """Return what a gateway's keys say."""
    return Tracking(values["topic.tracking.enable"], values["topic.tracking.allow.reset"])


@routes.get("/connectors/{connector}/topics", responses=documents.answers(200, documents.Topics))
async def get(request: Request, asks: Services, connector: Name) -> Response:
    """Return the topics that it has rows of, since it was made or they were reset."""
    _check_told(request.app.state.tracking)
    return JSONResponse({connector: {"topics": await asks.config.topics(connector)}})


@routes.put("/connectors/{connector}/topics/reset", status_code=202, response_class=Response)
async def reset(request: Request, asks: Services, connector: Name) -> Response:
    """Forget them; those that rows go on to move of are back within a minute."""
    tracking: Tracking = request.app.state.tracking
    _check_told(tracking)
    if not tracking.resets:
        raise _off("topics.no_reset", "Topic tracking reset is disabled.", "allow.reset")
    await asks.config.reset_topics(connector)
    return Response(status_code=202)


def _check_told(tracking: Tracking) -> None:
    if not tracking.told:
        raise _off("topics.not_told", "Topic tracking is disabled.", "enable")


def _off(code: str, message: str, key: str) -> ConfigError:
    fix = f"Set `topic.tracking.{key}=true` of the gateway."
    return ConfigError(code, message, fix=fix, config_path=f"topic.tracking.{key}")
