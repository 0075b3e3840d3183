"""`/v1/connectors/validate`, `check`, `compare`, `rehearse`: before a configuration is stored."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import configs, documents
from penstock.gateway.access.guard import require
from penstock.gateway.access.users import Level
from penstock.gateway.clients import Asks, Services
from penstock.gateway.errors import body_of
from penstock.gateway.request_body import Json, objects, plain
from penstock.gateway.routes.connectors import found_or_none
from penstock.gateway.v1.documents import Comparison, Findings, Rehearse, Rehearsed
from penstock.gateway.v1.lines import lines
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.preview_rows import MOST_ROWS, Given
from penstock.model.sensitive import differences
from penstock.wire.worker import CheckedStep


def finding(found: Diagnostic) -> dict[str, Any]:
    """Return a finding as answers have it."""
    body = body_of(found, 0)
    del body["error_code"]
    return {
        **body,
        "severity": found.severity.name.lower(),
        "class": found.error_class.name.lower(),
    }


routes = APIRouter(prefix="/v1/connectors", tags=["v1"])


@routes.post(
    "/validate",
    responses=documents.answers(200, Findings),
    openapi_extra=documents.takes(documents.CreateConnector),
)
async def validate(request: Request, asks: Services, body: Json) -> Response:
    """Tell everything that is wrong with a configuration, or worth knowing, and what it makes."""
    found = await asks.config.validate(await asked(request, asks, body))
    findings = [finding(one) for one in found.diagnostics]
    return JSONResponse({"kind": found.kind.name.lower(), "findings": findings})


@routes.post(
    "/compare",
    responses=documents.answers(200, Comparison),
    openapi_extra=documents.takes(documents.CreateConnector),
)
async def compare(request: Request, asks: Services, body: Json) -> Response:
    """Tell what a configuration would change, and what is wrong with it; nothing is changed. The
    secrets that are compared are those that are stored, those that are shown are ***.
    """
    wanted = configs.requested(body)
    require(request, wanted.name, Level.EDITOR)
    stored = await found_or_none(asks, wanted.name)
    before, known = (stored.config, stored.secret_keys) if stored else ({}, ())
    wanted = replace(wanted, config=configs.unmasked(wanted.config, before, known))
    found = await asks.config.validate(wanted)
    told = [
        {"key": one.key, "before": one.before, "after": one.after}
        for one in differences(before, wanted.config, {*known, *found.secret_keys})
    ]
    return JSONResponse(
        {
            "revision": stored.revision if stored else 0,
            "target_state": stored.target_state.name if stored else "",
            "differences": told,
            "findings": [finding(one) for one in found.diagnostics],
        }
    )


@routes.post(
    "/check",
    responses=documents.answers_lines(),
    openapi_extra=documents.takes(documents.CreateConnector),
)
async def check(request: Request, asks: Services, body: Json) -> Response:
    """Reach what a configuration names, step by step: a line for each step."""
    wanted = await asked(request, asks, body)
    found = await asks.config.validate(wanted)
    configs.check_findings(found.diagnostics)
    connector = Connector(wanted.name, wanted.config, found.kind)
    return await lines(request, _steps(asks, connector))


async def asked(request: Request, asks: Asks, body: Any) -> Connector:
    """Return what a body asks for; secrets that were read masked are those that are stored."""
    wanted = configs.requested(body)
    require(request, wanted.name, Level.EDITOR)
    stored = await found_or_none(asks, wanted.name)
    if stored is None:
        return wanted
    config = configs.unmasked(wanted.config, stored.config, stored.secret_keys)
    return replace(wanted, config=config)


async def _steps(asks: Asks, connector: Connector) -> AsyncGenerator[Mapping[str, Any], None]:
    worker = await asks.workers.any()
    async with aclosing(worker.check(connector)) as steps:
        async for step in steps:
            yield _step(step)


def _step(step: CheckedStep) -> Mapping[str, Any]:
    findings = [finding(one) for one in step.diagnostics]
    seconds = round(step.took, 3)
    return {
        "end": step.end, "step": step.step, "ok": step.ok, "seconds": seconds, "findings": findings,
    }  # fmt: skip


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
