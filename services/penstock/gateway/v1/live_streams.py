"""Streams: live rows of a task (`/v1/connectors/{connector}/tasks/{task}/rows`), and log lines of
workers (`/v1/logs`, `/v1/connectors/{connector}/logs`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Container, Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from penstock.aio import cancel_and_wait
from penstock.gateway.bodies import line_responses
from penstock.gateway.clients import WORKER_TIMEOUT_S, Clients, ServiceClients
from penstock.gateway.request_input import PathName, PathNumber
from penstock.gateway.routes.connectors import find_status, require_task
from penstock.gateway.v1.ndjson import stream_later, stream_lines
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.inspection import (
    MAX_INSPECT_S,
    MAX_INSPECTED_ROWS,
    InspectedRows,
    InspectRules,
    parse_stage,
)
from penstock.model.logs import MAX_KEPT_LINES, LogFilter, LogLine, LogLines
from penstock.model.status import RunStatus
from penstock.telemetry.log_levels import parse_level

STAGE_DOC: Final = (
    "`read`, `transformed`, or the name of a transform, for rows after it. Write `transforms.read` "
    "for a transform that is called `read`."
)

WORKER_CHECK_INTERVAL_S: Final = 2.0
"""Seconds between two lists of the workers. A new worker keeps its first lines until they are read.
"""

MAX_WAITING_MESSAGES: Final = 100
"""Messages of workers that wait for the client. Beyond, the bounds of the workers apply."""

LevelQuery = Annotated[str, Query(description="Minimum level: DEBUG, INFO, WARN, ERROR.")]
TailQuery = Annotated[
    int, Query(ge=0, le=MAX_KEPT_LINES, description="Number of last lines to start with.")
]
FollowQuery = Annotated[bool, Query(description="Continue with new lines.")]

router = APIRouter(prefix="/v1", tags=["v1"])


@router.get("/connectors/{connector}/tasks/{task}/rows", responses=line_responses())
async def inspect_rows(
    request: Request,
    clients: Clients,
    connector: PathName,
    task: PathNumber,
    stage: Annotated[str, Query(description=STAGE_DOC, min_length=1)] = "transformed",
    limit: Annotated[int, Query(alias="rows", ge=1, le=MAX_INSPECTED_ROWS)] = 100,
    seconds: Annotated[float, Query(gt=0, le=MAX_INSPECT_S)] = 60.0,
) -> Response:
    """Stream live rows of a task: before the transforms, after one of them, or after all. Each line
    is a row, or has the number of rows that were missed. Ends after `rows` rows or `seconds`.
    """
    stored = await clients.config.get(connector)
    found = require_task(await find_status(clients, stored), stored, task)
    rules = InspectRules(parse_stage(stage), limit, seconds=seconds)
    return await stream_lines(request, _inspect(clients, found, rules))


async def _inspect(
    clients: ServiceClients, task: RunStatus, rules: InspectRules
) -> AsyncGenerator[Mapping[str, Any], None]:
    cluster = await clients.scheduler.get_cluster()
    address = next((w.address for w in cluster.workers if w.id == task.worker), "")
    if not address:
        raise ConfigError(
            "task.nowhere",
            "no worker runs the task, so it has no live rows",
            fix="Check its status; resume or restart the connector.",
        )
    async with aclosing(
        clients.workers.client_at(address).inspect_rows(task.task_id, rules)
    ) as answers:
        async for answer in answers:
            for line in _row_lines(answer):
                yield line


def _row_lines(inspected: InspectedRows) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"missed": inspected.missed}] if inspected.missed else []
    for row in inspected.rows:
        line: dict[str, Any] = {
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
            "timestamp_us": row.ts_us,
        }
        # a row that was cut is not valid JSON
        line |= {"cut": row.json} if row.cut else {"row": json.loads(row.json)}
        found.append(line)
    return found


@router.get("/logs", responses=line_responses())
async def watch_all_logs(
    request: Request,
    clients: Clients,
    level: LevelQuery = "DEBUG",
    tail: TailQuery = 100,
    follow: FollowQuery = False,
) -> Response:
    """Stream the logs of all workers. Secrets are redacted."""
    return await _respond(request, clients, LogFilter("", _level_number(level), tail, follow))


@router.get("/connectors/{connector}/logs", responses=line_responses())
async def watch_connector_logs(
    request: Request,
    clients: Clients,
    connector: PathName,
    level: LevelQuery = "DEBUG",
    tail: TailQuery = 100,
    follow: FollowQuery = False,
) -> Response:
    """Stream the log lines of workers about a connector and its tasks."""
    stored = await clients.config.get(connector)
    return await _respond(
        request,
        clients,
        LogFilter(stored.name, _level_number(level), tail, follow, stored.generation),
    )


def _level_number(level: str) -> int:
    return logging.getLevelNamesMapping()[parse_level(level, "level")]


async def _respond(request: Request, clients: ServiceClients, log_filter: LogFilter) -> Response:
    if log_filter.follow:
        return stream_later(_new_lines(clients, log_filter))
    return await stream_lines(request, _recent_lines(clients, log_filter))


async def _recent_lines(
    clients: ServiceClients, log_filter: LogFilter
) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield the last `tail` lines of all workers, ordered by time. Of workers that are gone, or do
    not answer, these are the warnings that the scheduler stores.
    """
    found: list[tuple[int, Mapping[str, Any]]] = []
    answered: set[str] = set()

    async def read(worker: str, address: str) -> None:
        with suppress(PenstockError, TimeoutError):  # the lines of the other workers are returned
            async with (
                asyncio.timeout(WORKER_TIMEOUT_S),
                aclosing(clients.workers.client_at(address).watch_logs(log_filter)) as answers,
            ):
                async for lines in answers:
                    found.extend((line["at_us"], line) for line in _log_line_bodies(worker, lines))
            answered.add(worker)

    await asyncio.gather(*(read(*one) for one in (await _worker_addresses(clients)).items()))
    stored = await _stored_lines(clients, log_filter, answered)
    found.extend((line["at_us"], line) for line in stored)
    for _, line in sorted(found, key=lambda one: one[0])[-log_filter.tail or len(found) :]:
        yield line


async def _new_lines(
    clients: ServiceClients, log_filter: LogFilter
) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield new lines of all workers as they arrive, also of workers that join later; before them
    the stored lines of workers that are gone.
    """
    connected = await _worker_addresses(clients)
    for line in await _stored_lines(clients, log_filter, connected):
        yield line
    arrived: asyncio.Queue[tuple[str, LogLines]] = asyncio.Queue(MAX_WAITING_MESSAGES)
    readers: dict[str, asyncio.Task[None]] = {}

    async def read(worker: str, address: str) -> None:
        with suppress(PenstockError):  # the worker is gone; it is read again when it is back
            async with aclosing(
                clients.workers.client_at(address).watch_logs(log_filter)
            ) as answers:
                async for lines in answers:
                    await arrived.put((worker, lines))

    async def start_readers() -> None:
        while True:
            for worker, address in (await _worker_addresses(clients)).items():
                if worker not in readers or readers[worker].done():
                    readers[worker] = asyncio.create_task(read(worker, address))
            await asyncio.sleep(WORKER_CHECK_INTERVAL_S)

    starter = asyncio.create_task(start_readers())
    try:
        while not starter.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(WORKER_CHECK_INTERVAL_S):
                    worker, lines = await arrived.get()
                for line in _log_line_bodies(worker, lines):
                    yield line
        starter.result()
    finally:
        await cancel_and_wait(starter, *readers.values())


async def _stored_lines(
    clients: ServiceClients, log_filter: LogFilter, others: Container[str]
) -> list[dict[str, Any]]:
    """Return the lines that the scheduler stores, without those of the `others`."""
    if not log_filter.tail:
        return []
    try:
        stored = await clients.scheduler.list_log_lines(log_filter)
    except PenstockError as error:
        if error.code != "rpc.unimplemented":
            raise
        return []  # an older version leads: it stores none
    return [_line_body(one.worker, one.line) for one in stored if one.worker not in others]


async def _worker_addresses(clients: ServiceClients) -> dict[str, str]:
    cluster = await clients.scheduler.get_cluster()
    return {worker.id: worker.address for worker in cluster.workers if worker.connected}


def _log_line_bodies(worker: str, lines: LogLines) -> list[dict[str, Any]]:
    missed = [{"worker": worker, "at_us": 0, "missed": lines.missed}] if lines.missed else []
    return missed + [_line_body(worker, line) for line in lines.lines]


def _line_body(worker: str, line: LogLine) -> dict[str, Any]:
    return {
        "worker": worker,
        "time": datetime.fromtimestamp(line.at_us / 1_000_000, UTC).isoformat(),
        "at_us": line.at_us,
        "level": logging.getLevelName(line.level),
        "logger": line.logger,
        "message": line.message,
        **line.attributes,
    }
