"""`/v1/logs`, `/v1/connectors/{connector}/logs`: lines of the logs of all workers, as they come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from penstock.gateway import documents
from penstock.gateway.clients import WORKER_TIMEOUT_S, Asks, Services
from penstock.gateway.paths import Name
from penstock.gateway.v1.lines import following, lines
from penstock.model.errors import PenstockError
from penstock.model.log_lines import MOST_KEPT, Logged, LogRules
from penstock.telemetry.levels import level_named

log = logging.getLogger(__name__)

routes = APIRouter(prefix="/v1", tags=["v1"])

AGAIN: Final = 2.0
"""Seconds between looks at which workers there are. Longer misses the beginning of one that came;
the lines of that are kept there."""

WAITING: Final = 100
"""Messages of workers that wait for the reader: then the workers' own bounds count."""

Level = Annotated[str, Query(description="The lowest: DEBUG, INFO, WARN, ERROR.")]
Tail = Annotated[int, Query(ge=0, le=MOST_KEPT, description="Lines that there are already.")]
Follow = Annotated[bool, Query(description="Go on with lines that come.")]


@routes.get("/logs", responses=documents.answers_lines())
async def everything(
    request: Request,
    asks: Services,
    level: Level = "DEBUG",
    tail: Tail = 100,
    follow: Follow = False,
) -> Response:
    """Show the logs of all workers: a line for each line, secrets masked."""
    return await _shown(request, asks, LogRules("", _number(level), tail, follow))


@routes.get("/connectors/{connector}/logs", responses=documents.answers_lines())
async def of_connector(
    request: Request,
    asks: Services,
    connector: Name,
    level: Level = "DEBUG",
    tail: Tail = 100,
    follow: Follow = False,
) -> Response:
    """Show what workers log about a connector and its tasks."""
    stored = await asks.config.get(connector)
    return await _shown(request, asks, LogRules(stored.name, _number(level), tail, follow))


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level_named(level, "level")]


async def _shown(request: Request, asks: Asks, rules: LogRules) -> Response:
    return (
        following(_merged(asks, rules))
        if rules.follow
        else await lines(request, _there(asks, rules))
    )


async def _there(asks: Asks, rules: LogRules) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield what workers have, in the order of time, the last `tail` of all."""
    found: list[tuple[int, Mapping[str, Any]]] = []

    async def read(worker: str, address: str) -> None:
        with suppress(PenstockError, TimeoutError):  # what the others have is told all the same
            async with (
                asyncio.timeout(WORKER_TIMEOUT_S),
                aclosing(asks.workers.at(address).logs(rules)) as answers,
            ):
                async for logged in answers:
                    found.extend((line["at_us"], line) for line in _lines(worker, logged))

    await asyncio.gather(*(read(*one) for one in (await _workers(asks)).items()))
    for _, line in sorted(found, key=lambda one: one[0])[-rules.tail or len(found) :]:
        yield line


async def _merged(asks: Asks, rules: LogRules) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield lines of all workers as they come; workers that come are read, too."""
    arrived: asyncio.Queue[tuple[str, Logged]] = asyncio.Queue(WAITING)
    reading: dict[str, asyncio.Task[None]] = {}

    async def read(worker: str, address: str) -> None:
        with suppress(PenstockError):  # it has gone; when it is back, it is read again
            async with aclosing(asks.workers.at(address).logs(rules)) as answers:
                async for logged in answers:
                    await arrived.put((worker, logged))

    async def look() -> None:
        while True:
            for worker, address in (await _workers(asks)).items():
                if worker not in reading or reading[worker].done():
                    reading[worker] = asyncio.create_task(read(worker, address))
            await asyncio.sleep(AGAIN)

    looking = asyncio.create_task(look())
    try:
        while not looking.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN):
                    worker, logged = await arrived.get()
                for line in _lines(worker, logged):
                    yield line
        looking.result()
    finally:
        for task in (looking, *reading.values()):
            task.cancel()
        await asyncio.gather(looking, *reading.values(), return_exceptions=True)


async def _workers(asks: Asks) -> dict[str, str]:
    cluster = await asks.scheduler.cluster()
    return {worker.id: worker.address for worker in cluster.workers if worker.connected}


def _lines(worker: str, logged: Logged) -> list[dict[str, Any]]:
    missed = [{"worker": worker, "at_us": 0, "missed": logged.missed}] if logged.missed else []
    return missed + [
        {
            "worker": worker,
            "time": datetime.fromtimestamp(line.at_us / 1_000_000, UTC).isoformat(),
            "at_us": line.at_us,
            "level": logging.getLevelName(line.level),
            "logger": line.logger,
            "message": line.message,
            **line.attributes,
        }
        for line in logged.lines
    ]
