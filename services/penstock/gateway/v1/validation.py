"""`/v1/connectors/validate`, `compare`, `check`, `rehearse`: try a configuration before storing it.

`rehearse` is the preview of rows.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from penstock.gateway import configs, openapi_models
from penstock.gateway.access.guard import require_level
from penstock.gateway.access.users import Level
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import JsonBody, require_object, to_plain
from penstock.gateway.routes.connectors import find_connector
from penstock.gateway.v1.bodies import (
    Comparison,
    Difference,
    Findings,
    PreviewBody,
    PreviewResult,
    SeverityFinding,
)
from penstock.gateway.v1.ndjson import stream_lines
from penstock.model.config_redaction import compare_configs
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError
from penstock.model.inspection import MAX_PREVIEW_ROWS, PreviewRequest
from penstock.wire.worker import CheckedStep

router = APIRouter(prefix="/v1/connectors", tags=["v1"])


@router.post(
    "/validate",
    responses=openapi_models.responses(200, Findings),
    openapi_extra=openapi_models.request_body(openapi_models.CreateConnector),
)
async def validate_connector(request: Request, clients: Clients, body: JsonBody) -> Response:
    """Validate a configuration. Returns the kind of connector and all findings."""
    found = await clients.config.validate(await requested_connector(request, clients, body))
    findings = SeverityFinding.all_of(found.diagnostics)
    return Findings(kind=found.kind.name.lower(), findings=findings).respond()


@router.post(
    "/compare",
    responses=openapi_models.responses(200, Comparison),
    openapi_extra=openapi_models.request_body(openapi_models.CreateConnector),
)
async def compare_connector(request: Request, clients: Clients, body: JsonBody) -> Response:
    """Compare a configuration with the stored one and validate it. Nothing is stored. Redacted
    secrets of the request mean the stored ones; secrets of the response are `***`.
    """
    wanted = configs.parse_connector(body)
    require_level(request, wanted.name, Level.EDITOR)
    stored = await find_connector(clients, wanted.name)
    before, known = (stored.config, stored.secret_keys) if stored else ({}, ())
    wanted = replace(wanted, config=configs.restore_secrets(wanted.config, before, known))
    found = await clients.config.validate(wanted)
    changes = compare_configs(before, wanted.config, {*known, *found.secret_keys})
    return Comparison(
        revision=stored.revision if stored else 0,
        target_state=stored.target_state.name if stored else "",
        differences=Difference.all_of(changes),
        findings=SeverityFinding.all_of(found.diagnostics),
    ).respond()


@router.post(
    "/check",
    responses=openapi_models.line_responses(),
    openapi_extra=openapi_models.request_body(openapi_models.CreateConnector),
)
async def check_connector(request: Request, clients: Clients, body: JsonBody) -> Response:
    """Check the connections of a configuration. Each line is a step."""
    wanted = await requested_connector(request, clients, body)
    found = await clients.config.validate(wanted)
    configs.refuse_errors(found.diagnostics)
    connector = Connector(wanted.name, wanted.config, found.kind)
    return await stream_lines(request, _steps(clients, connector))


async def requested_connector(request: Request, clients: ServiceClients, body: Any) -> Connector:
    """Return the connector of a body. Redacted secrets are replaced by the stored ones."""
    wanted = configs.parse_connector(body)
    require_level(request, wanted.name, Level.EDITOR)
    stored = await find_connector(clients, wanted.name)
    if stored is None:
        return wanted
    config = configs.restore_secrets(wanted.config, stored.config, stored.secret_keys)
    return replace(wanted, config=config)


async def _steps(
    clients: ServiceClients, connector: Connector
) -> AsyncGenerator[Mapping[str, Any], None]:
    worker = await clients.workers.get_any()
    async with aclosing(worker.check_connection(connector)) as steps:
        async for step in steps:
            yield _step(step)


def _step(step: CheckedStep) -> Mapping[str, Any]:
    findings = [SeverityFinding.of(one).to_dict() for one in step.diagnostics]
    seconds = round(step.took, 3)
    return {
        "end": step.end, "step": step.step, "ok": step.ok, "seconds": seconds, "findings": findings,
    }  # fmt: skip


@router.post(
    "/rehearse",
    responses=openapi_models.responses(200, PreviewResult),
    openapi_extra=openapi_models.request_body(PreviewBody),
)
async def preview_rows(request: Request, clients: Clients, body: JsonBody) -> Response:
    """Preview rows: return what the transforms make of them. Neither source nor sink is opened for
    writing, and nothing is stored.
    """
    fields = dict(require_object(body, "the request"))
    preview = _preview_request(
        {key: fields.pop(key, None) for key in ("dataset", "columns", "rows", "sample")}
    )
    wanted = await requested_connector(request, clients, fields)
    worker = await clients.workers.get_any()
    return PreviewResult.of(await worker.preview_rows(wanted, preview)).respond()


def _preview_request(fields: Mapping[str, Any]) -> PreviewRequest:
    dataset, columns, rows = fields["dataset"] or "", fields["columns"] or {}, fields["rows"]
    sample = to_plain(fields["sample"])
    if (
        sample is not None
        and rows is None
        and isinstance(sample, int)
        and 1 <= sample <= MAX_PREVIEW_ROWS
    ):
        return PreviewRequest((), sample=sample)
    if sample is not None or not isinstance(dataset, str) or not isinstance(rows, list):
        raise ConfigError(
            "http.parameter",
            "`rows` is not a list of objects, `dataset` is not a string, or `sample` is invalid or "
            "sent besides `rows`",
            fix='Send for example {"name": "x", "config": {…}, "rows": [{"id": 1}]}.',
        )
    texts = tuple(json.dumps(to_plain(require_object(row, "a row"))) for row in rows)
    types = {key: str(to_plain(one)) for key, one in require_object(columns, "`columns`").items()}
    return PreviewRequest(texts, dataset, types)
