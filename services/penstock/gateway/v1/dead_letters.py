"""`/v1/connectors/{connector}/letters`: the dead letters of a connector."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from penstock.connector_config.dead_letters import dead_letter_topic, replay_name
from penstock.gateway.bodies import line_responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import PathName
from penstock.gateway.routes.connectors import find_connector
from penstock.gateway.v1.bodies import parse_time
from penstock.gateway.v1.ndjson import stream_lines
from penstock.model.connector import Connector
from penstock.model.dead_letter_queue import (
    DEFAULT_DEAD_LETTERS,
    MAX_DEAD_LETTERS,
    DeadLetter,
    DeadLetterQuery,
    DeadLetterResult,
    parse_ids,
)

router = APIRouter(prefix="/v1/connectors/{connector}/letters", tags=["v1"])


@router.get("", responses=line_responses())
async def list_dead_letters(
    request: Request,
    clients: Clients,
    connector: PathName,
    *,
    stage: str = "",
    code: str = "",
    dataset: str = "",
    since: Annotated[str, Query(description="ISO 8601, with its zone.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_DEAD_LETTERS)] = DEFAULT_DEAD_LETTERS,
    ids: Annotated[str, Query(description="Only these: 0/3,0/17-20.")] = "",
    whole: bool = False,
    waiting: bool = False,
) -> Response:
    """Count and list the newest dead letters; with `waiting` the oldest that were not replayed. The
    first line has the counts, each further line one dead letter; with `whole` also its row or
    bytes. With `ids` there are no counts.
    """
    stored = await clients.config.get(connector)
    since_us = round(parse_time(since, "since").timestamp() * 1_000_000) if since else 0
    query = DeadLetterQuery(
        dead_letter_topic(stored),
        stored.name,
        tuple(parse_ids(ids)),
        stage,
        code,
        dataset,
        since_us,
        limit,
        waiting=waiting,
        whole=whole,
    )
    return await stream_lines(request, _lines(clients, await mark_replayed(clients, query, stored)))


async def mark_replayed(
    clients: ServiceClients, query: DeadLetterQuery, stored: Connector
) -> DeadLetterQuery:
    """Return a query whose result also has which dead letters were replayed."""
    found = await find_connector(clients, replay_name(stored))
    return query if found is None else replace(query, replays=found.generation)


async def read_dead_letters(
    clients: ServiceClients, query: DeadLetterQuery
) -> AsyncGenerator[DeadLetterResult, None]:
    """Read dead letters with any worker: each can read all topics."""
    worker = await clients.workers.get_any()
    async with aclosing(worker.read_dead_letters(query)) as answers:
        async for part in answers:
            yield part


async def _lines(
    clients: ServiceClients, query: DeadLetterQuery
) -> AsyncGenerator[Mapping[str, Any], None]:
    async with aclosing(read_dead_letters(clients, query)) as answers:
        first = True
        async for part in answers:
            if first and not query.ids:
                yield {"topic": query.topic, "counts": _count_bodies(part), "more": part.more}
            first = False
            for letter in part.letters:
                yield _dead_letter_body(letter, whole=query.whole)


def _count_bodies(part: DeadLetterResult) -> list[dict[str, Any]]:
    return [
        {
            "stage": one.stage,
            "code": one.code,
            "dataset": one.dataset,
            "letters": one.letters,
            "replayed": one.replayed,
        }
        for one in part.counts
    ]


def _dead_letter_body(letter: DeadLetter, *, whole: bool) -> dict[str, Any]:
    at = datetime.fromtimestamp(letter.failed_at_us / 1_000_000, UTC)
    body: dict[str, Any] = {
        "id": str(letter.id),
        "failed_at": at.isoformat(),
        "stage": letter.stage,
        "code": letter.reason.code,
        "dataset": letter.dataset,
        "partition": letter.partition,
        "offset": letter.offset or None,
        "message": letter.reason.message,
        "replayed": letter.replayed,
    }
    if not whole:
        return body
    return body | {
        "fix": letter.reason.fix,
        "config_path": letter.reason.config_path,
        "connector": letter.connector,
        "task": letter.task,
        "epoch": letter.epoch,
        "transaction": letter.transaction,
        "attempt": letter.attempt,
        "row": json.loads(letter.row) if letter.row else None,
        **raw_body(letter.raw),
        "headers": {
            name: value.decode(errors="backslashreplace") for name, value in letter.headers.items()
        },
    }


def raw_body(raw: bytes) -> dict[str, str | None]:
    """Return bytes as fields of a response: as text where they are UTF-8, else in base64."""
    try:
        return {"raw": raw.decode() or None, "raw_base64": None}
    except UnicodeDecodeError:
        return {"raw": None, "raw_base64": base64.b64encode(raw).decode()}
