"""`/v1/connectors/rehearse`: what the transforms of a configuration make of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents
from penstock.gateway.asks import Services
from penstock.gateway.body import Json, objects, plain
from penstock.gateway.v1.checking import asked
from penstock.gateway.v1.documents import Rehearse, Rehearsed
from penstock.gateway.v1.findings import finding
from penstock.model.errors import ConfigError
from penstock.model.rehearsal import MOST_ROWS, Given

routes = APIRouter(prefix="/v1/connectors", tags=["v1"])


@routes.post(
    "/rehearse",
    responses=documents.answers(200, Rehearsed),
    openapi_extra=documents.takes(Rehearse),
)
async def rehearse(request: Request, asks: Services, body: Json) -> Response:
    """Tell what its transforms make of rows; its ends stay closed, and nothing is changed."""
    fields = dict(objects(body, "the request"))
    given = _given({key: fields.pop(key, None) for key in ("dataset", "columns", "rows", "sample")})
    wanted = await asked(request, asks, fields)
    worker = await asks.workers.any()
    found = await worker.rehearse(wanted, given)
    failed = [{"row": row, "finding": finding(reason)} for row, reason in found.failed]
    rows = [json.loads(row) for row in found.rows]
    return JSONResponse({"dataset": found.dataset, "rows": rows, "failed": failed})


def _given(fields: Mapping[str, Any]) -> Given:
    dataset, columns, rows = fields["dataset"] or "", fields["columns"] or {}, fields["rows"]
    sample = plain(fields["sample"])
    if sample is not None and rows is None and isinstance(sample, int) and 1 <= sample <= MOST_ROWS:
        return Given((), sample=sample)
    if sample is not None or not isinstance(dataset, str) or not isinstance(rows, list):
        raise ConfigError(
            "http.parameter",
            "`rows` is a list of objects and `dataset` a text, or `sample` a number in their place",
            fix='Send {"name": "x", "config": {…}, "rows": [{"id": 1}]}.',
        )
    texts = tuple(json.dumps(plain(objects(row, "a row"))) for row in rows)
    types = {key: str(plain(one)) for key, one in objects(columns, "`columns`").items()}
    return Given(texts, dataset, types)
