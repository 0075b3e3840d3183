"""`/v1/connectors/{connector}/letters`: dead letters in a topic."""

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

from penstock.gateway import documents
from penstock.gateway.clients import Asks, Services
from penstock.gateway.paths import Name
from penstock.gateway.routes.connectors import found_or_none
from penstock.gateway.v1 import replay_config
from penstock.gateway.v1.lines import lines
from penstock.gateway.v1.offset_history import moment
from penstock.model.connector import Connector
from penstock.model.replay import (
    MOST_LETTERS,
    USUAL_LETTERS,
    LetterFound,
    LetterQuery,
    LettersTold,
    read_ids,
)

routes = APIRouter(prefix="/v1/connectors/{connector}/letters", tags=["v1"])


@routes.get("", responses=documents.answers_lines())
async def letters(
    request: Request,
    asks: Services,
    connector: Name,
    *,
    stage: str = "",
    code: str = "",
    dataset: str = "",
    since: Annotated[str, Query(description="ISO 8601, with its zone.")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_LETTERS)] = USUAL_LETTERS,
    ids: Annotated[str, Query(description="These alone: 0/3,0/17-20.")] = "",
    whole: bool = False,
) -> Response:
    """Count dead letters, and tell the newest: a line with the counts, then one for each letter;
    with `whole`, with its row or bytes. Letters that `ids` names are not counted.
    """
    stored = await asks.config.get(connector)
    since_us = round(moment(since, "since").timestamp() * 1_000_000) if since else 0
    query = LetterQuery(
        replay_config.letters_topic(stored),
        stored.name,
        tuple(read_ids(ids)),
        stage,
        code,
        dataset,
        since_us,
        limit,
        whole=whole,
    )
    return await lines(request, _told(asks, await marked(asks, query, stored)))


async def marked(asks: Asks, query: LetterQuery, stored: Connector) -> LetterQuery:
    """Return a question that also asks which letters were replayed."""
    found = await found_or_none(asks, replay_config.name_of(stored))
    return query if found is None else replace(query, replays=found.generation)


async def answered(asks: Asks, query: LetterQuery) -> AsyncGenerator[LettersTold, None]:
    """Ask a worker: any of them reads all topics."""
    worker = await asks.workers.any()
    async with aclosing(worker.letters(query)) as answers:
        async for told in answers:
            yield told


async def _told(asks: Asks, query: LetterQuery) -> AsyncGenerator[Mapping[str, Any], None]:
    async with aclosing(answered(asks, query)) as answers:
        first = True
        async for told in answers:
            if first and not query.ids:
                yield {"topic": query.topic, "counts": _counts(told), "more": told.more}
            first = False
            for letter in told.letters:
                yield _letter(letter, whole=query.whole)


def _counts(told: LettersTold) -> list[dict[str, Any]]:
    return [
        {
            "stage": one.stage,
            "code": one.code,
            "dataset": one.dataset,
            "letters": one.letters,
            "replayed": one.replayed,
        }
        for one in told.counts
    ]


def _letter(letter: LetterFound, *, whole: bool) -> dict[str, Any]:
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
        "raw": base64.b64encode(letter.raw).decode() if letter.raw else None,
        "headers": {
            name: value.decode(errors="backslashreplace") for name, value in letter.headers.items()
        },
    }
