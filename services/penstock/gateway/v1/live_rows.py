"""`/v1/connectors/{connector}/tasks/{task}/rows`: some of the rows that move, as they do."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from penstock.gateway import documents
from penstock.gateway.clients import Asks, Services
from penstock.gateway.paths import Name, Number
from penstock.gateway.routes.connectors import status_of, task_of
from penstock.gateway.v1.lines import lines
from penstock.model.errors import ConfigError
from penstock.model.live_rows import MOST_ROWS, MOST_SECONDS, Looked, LookRules, read_stage
from penstock.model.status import RunStatus

STAGE: Final = (
    "`read`, `transformed`, or the name of a transform: rows as they are behind it. One that is "
    "called as one of the two is `transforms.read`."
)

routes = APIRouter(prefix="/v1/connectors/{connector}/tasks/{task}", tags=["v1"])


@routes.get("/rows", responses=documents.answers_lines())
async def rows(
    request: Request,
    asks: Services,
    connector: Name,
    task: Number,
    stage: Annotated[str, Query(description=STAGE, min_length=1)] = "transformed",
    most: Annotated[int, Query(alias="rows", ge=1, le=MOST_ROWS)] = 100,
    seconds: Annotated[float, Query(gt=0, le=MOST_SECONDS)] = 60.0,
) -> Response:
    """Show rows as they move, before the transforms, behind one of them or behind all: a line for
    each, and one that tells how many were not shown. Ends after so many rows or seconds.
    """
    stored = await asks.config.get(connector)
    found = task_of(await status_of(asks, stored), stored, task)
    rules = LookRules(read_stage(stage), most, seconds=seconds)
    return await lines(request, _looked(asks, found, rules))


async def _looked(
    asks: Asks, task: RunStatus, rules: LookRules
) -> AsyncGenerator[Mapping[str, Any], None]:
    cluster = await asks.scheduler.cluster()
    address = next((w.address for w in cluster.workers if w.id == task.worker), "")
    if not address:
        raise ConfigError(
            "task.nowhere",
            "no worker runs the task, so none of its rows move",
            fix="See its status; resume or restart the connector.",
        )
    async with aclosing(asks.workers.at(address).inspect(task.task_id, rules)) as answers:
        async for answer in answers:
            for line in _lines(answer):
                yield line


def _lines(looked: Looked) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"missed": looked.missed}] if looked.missed else []
    for row in looked.rows:
        line: dict[str, Any] = {
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
            "timestamp_us": row.ts_us,
        }
        # a row that was cut is no JSON any more
        line |= {"cut": row.json} if row.cut else {"row": json.loads(row.json)}
        found.append(line)
    return found
