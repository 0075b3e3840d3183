"""What happened: `/v1/events`, and `/v1/connectors/{connector}/events` for one connector."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from penstock.gateway.bodies import line_responses
from penstock.gateway.clients import Clients
from penstock.gateway.request_input import PathName
from penstock.gateway.v1.ndjson import stream_later, stream_lines
from penstock.model.errors import RetriableError
from penstock.model.events import MAX_EVENTS, Event

POLL_INTERVAL_S: Final = 1.0
"""Seconds between two questions for new events."""

TailQuery = Annotated[
    int, Query(ge=0, le=MAX_EVENTS, description="Number of latest events to start with.")
]
FollowQuery = Annotated[bool, Query(description="Continue with new events.")]

ReadEvents = Callable[[int, int], Awaitable[list[Event]]]
"""Returns the latest events behind a number, at most so many."""

router = APIRouter(prefix="/v1", tags=["v1"])


@router.get("/events", responses=line_responses())
async def watch_all_events(
    request: Request, clients: Clients, tail: TailQuery = 100, follow: FollowQuery = False
) -> Response:
    """Stream the latest events of the cluster, one on each line, oldest first."""
    return await _respond(request, partial(clients.scheduler.list_events, ""), tail, follow)


@router.get("/connectors/{connector}/events", responses=line_responses())
async def watch_connector_events(
    request: Request,
    clients: Clients,
    connector: PathName,
    tail: TailQuery = 100,
    follow: FollowQuery = False,
) -> Response:
    """Stream the latest events of a connector, one on each line, oldest first."""
    stored = await clients.config.get(connector)
    read = partial(clients.scheduler.list_events, stored.name, generation=stored.generation)
    return await _respond(request, read, tail, follow)


async def _respond(request: Request, read: ReadEvents, tail: int, follow: bool) -> Response:
    if follow:
        return stream_later(_follow(read, tail))
    return await stream_lines(request, _latest(read, tail))


async def _latest(read: ReadEvents, tail: int) -> AsyncGenerator[Mapping[str, Any], None]:
    for event in await read(0, tail):
        yield _body(event)


async def _follow(read: ReadEvents, tail: int) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield the latest events and then new ones, also across a change of the leader."""
    found = await read(0, max(tail, 1))
    last = found[-1].number if found else 0
    for event in found[-tail:] if tail else []:
        yield _body(event)
    while True:
        await asyncio.sleep(POLL_INTERVAL_S)
        try:
            found = await read(last, MAX_EVENTS)
        except RetriableError:  # no leader at the moment: the next one has the events
            continue
        for event in found:
            last = event.number
            yield _body(event)


def _body(event: Event) -> dict[str, Any]:
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"time": at, **asdict(event)}
