"""`/admin/loggers`: log levels of all workers, or of the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response

from penstock.gateway.bodies import request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import JsonBody, PathName, require_object
from penstock.gateway.routes import bodies
from penstock.model.errors import ConfigError
from penstock.telemetry.log_levels import ROOT, check_logger, parse_level

router = APIRouter(tags=["loggers"])

SERVICE: Final = "worker"
"""The service whose loggers these are: workers run connectors."""

_KAFKA_LEVELS: Final[Mapping[str, str]] = {
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARNING": "WARN",
    "ERROR": "ERROR",
    "CRITICAL": "FATAL",
}
"""Kafka Connect's names of levels. Any other level of a library logs nothing (OFF)."""


@router.get("/admin/loggers", responses=responses(200, bodies.Loggers))
async def list_loggers(clients: Clients) -> Response:
    """Return the loggers that have a level. Others inherit the level of their parent."""
    return bodies.Loggers(await _levels(clients)).respond()


@router.get("/admin/loggers/{logger}", responses=responses(200, bodies.Logger))
async def get_logger(clients: Clients, logger: PathName) -> Response:
    """Return the level of a logger, which it may inherit; 404 where only the root logger has one of
    all loggers above and below it.
    """
    check_logger(logger)
    levels = await _levels(clients)
    found = nearest_above(logger, levels)
    if found == ROOT != logger and not any(is_below(other, logger) for other in levels):
        raise _unknown_logger(logger)
    return levels[found].respond()


@router.put(
    "/admin/loggers/{logger}",
    responses=responses(200, bodies.Names) | responses(204),
    openapi_extra=request_body(bodies.Level),
)
async def set_logger_level(
    clients: Clients, logger: PathName, body: JsonBody, scope: Annotated[str, Query()] = "worker"
) -> Response:
    """Set the level of a logger and its children in all present workers. With `scope=cluster`, new
    workers get it too.
    """
    check_logger(logger)
    level = require_object(body, "the level").get("level")
    if not isinstance(level, str) or not level:
        raise ConfigError(
            "http.no_level",
            "Desired 'level' parameter was not specified in request.",
            fix='Send {"level": "DEBUG"}.',
        )
    name = parse_level(level.upper())
    if scope == "cluster":
        await clients.config.set_log_level(SERVICE, logger, name)
        # a level that was set on a single worker has precedence there
        await clients.workers.call_all(lambda worker: worker.set_log_level(logger, ""))
        return Response(status_code=204)
    await clients.workers.call_all(lambda worker: worker.set_log_level(logger, name))
    affected = sorted({logger, *(one for one in await _levels(clients) if is_below(one, logger))})
    return bodies.Names(affected).respond()


def is_below(logger: str, other: str) -> bool:
    """Return whether a logger inherits from another one."""
    return other == ROOT or logger.startswith(f"{other}.")


def _unknown_logger(logger: str) -> ConfigError:
    return ConfigError(
        "config.log_logger",
        f"Logger {logger[:200]} not found.",
        fix="`GET /admin/loggers` lists those that have a level.",
    )


def nearest_above(logger: str, levels: Mapping[str, Any]) -> str:
    """Return the logger whose level another logger inherits."""
    while logger not in levels and logger:
        logger = logger.rpartition(".")[0]
    return logger or ROOT


async def _levels(clients: ServiceClients) -> dict[str, bodies.Logger]:
    answers = await clients.workers.call_all(lambda worker: worker.list_log_levels())
    set_at = {one.logger: one.modified_at for one in await clients.config.list_log_levels(SERVICE)}
    found: dict[str, bodies.Logger] = {}
    for one in (level for levels in answers for level in levels):
        modified = None if one.own else set_at.get(one.logger)
        found[one.logger] = bodies.Logger(
            level=_KAFKA_LEVELS.get(one.level, "OFF"),
            last_modified=None if modified is None else round(modified * 1000),
        )
    return dict(sorted(found.items()))
