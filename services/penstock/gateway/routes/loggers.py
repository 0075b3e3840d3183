"""`/admin/loggers`: how much is logged, by all workers or as configuration of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents
from penstock.gateway.clients import Asks, Services
from penstock.gateway.paths import Name
from penstock.gateway.request_body import Json, objects
from penstock.model.errors import ConfigError
from penstock.telemetry.levels import ROOT, check_logger, level_named

routes = APIRouter(tags=["loggers"])

SERVICE: Final = "worker"
"""Whose loggers they are: workers run connectors."""

_KAFKAS: Final[Mapping[str, str]] = {
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARNING": "WARN",
    "ERROR": "ERROR",
    "CRITICAL": "FATAL",
}
"""Levels by Kafka Connect's names; what a library has set above them logs nothing."""


@routes.get("/admin/loggers", responses=documents.answers(200, documents.Loggers))
async def get_all(asks: Services) -> Response:
    """Return the loggers that have a level; the others follow the one above them."""
    return JSONResponse(await _levels(asks))


@routes.get("/admin/loggers/{logger}", responses=documents.answers(200, documents.Logger))
async def get(asks: Services, logger: Name) -> Response:
    """Return the level of a logger."""
    check_logger(logger)
    levels = await _levels(asks)
    return JSONResponse(levels[nearest_above(logger, levels)])


@routes.put(
    "/admin/loggers/{logger}",
    responses=documents.answers(200, documents.Names) | documents.answers(204),
    openapi_extra=documents.takes(documents.Level),
)
async def put(
    asks: Services, logger: Name, body: Json, scope: Annotated[str, Query()] = "worker"
) -> Response:
    """Set the level of a logger and of those below it, in all workers that there are; with
    `scope=cluster` also in those that come.
    """
    check_logger(logger)
    level = objects(body, "the level").get("level")
    if not isinstance(level, str) or not level:
        raise ConfigError(
            "http.no_level",
            "Desired 'level' parameter was not specified in request.",
            fix='Send {"level": "DEBUG"}.',
        )
    name = level_named(level.upper())
    if scope == "cluster":
        await asks.config.set_log_level(SERVICE, logger, name)
        # what was said to single workers would count more there
        await asks.workers.each(lambda worker: worker.set_log_level(logger, ""))
        return Response(status_code=204)
    await asks.workers.each(lambda worker: worker.set_log_level(logger, name))
    affected = sorted({logger, *(one for one in await _levels(asks) if below(one, logger))})
    return JSONResponse(affected)


def below(logger: str, other: str) -> bool:
    """Tell whether a logger follows another one."""
    return other == ROOT or logger.startswith(f"{other}.")


def nearest_above(logger: str, levels: Mapping[str, Any]) -> str:
    """Return the logger whose level counts for another one."""
    while logger not in levels and logger:
        logger = logger.rpartition(".")[0]
    return logger or ROOT


async def _levels(asks: Asks) -> dict[str, dict[str, Any]]:
    answers = await asks.workers.each(lambda worker: worker.log_levels())
    set_at = {one.logger: one.modified_at for one in await asks.config.log_levels(SERVICE)}
    found: dict[str, dict[str, Any]] = {}
    for one in (level for levels in answers for level in levels):
        modified = None if one.own else set_at.get(one.logger)
        found[one.logger] = {
            "level": _KAFKAS.get(one.level, "OFF"),
            "last_modified": None if modified is None else round(modified * 1000),
        }
    return dict(sorted(found.items()))
