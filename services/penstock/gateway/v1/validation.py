"""`/v1/connectors/validate`, `compare`, `check`, `datasets`, `rehearse`: try a configuration before
storing it.

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

from penstock.gateway import configs
from penstock.gateway.access.guard import require_level
from penstock.gateway.access.users import Level
from penstock.gateway.bodies import line_responses, request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import JsonBody, require_object, to_plain
from penstock.gateway.routes.bodies import CreateConnector
from penstock.gateway.routes.connectors import find_connector, require_valid
from penstock.gateway.v1.bodies import (
    Comparison,
    DatasetsBody,
    Difference,
    Findings,
    ListedDataset,
    PreviewBody,
    PreviewResult,
    SeverityFinding,
)
from penstock.gateway.v1.ndjson import stream_lines
from penstock.model.admin import CheckedStep
from penstock.model.config_redaction import compare_configs
from penstock.model.connector import Connector
from penstock.model.datasets import DEFAULT_DATASETS, MAX_DATASETS
from penstock.model.errors import ConfigError
from penstock.model.inspection import MAX_PREVIEW_ROWS, PreviewRequest

router = APIRouter(prefix="/v1/connectors", tags=["v1"])


@router.post(
    "/validate",
    responses=responses(200, Findings),
    openapi_extra=request_body(CreateConnector),
)
async def validate_connector(request: Request, clients: Clients, body: JsonBody) -> Response:
    """Validate a configuration. Returns the kind of connector and all findings."""
    found = await clients.config.validate(await requested_connector(request, clients, body))
    findings = SeverityFinding.all_of(found.diagnostics)
    return Findings(kind=found.kind.name.lower(), findings=findings).respond()


@router.post(
    "/compare",
    responses=responses(200, Comparison),
    openapi_extra=request_body(CreateConnector),
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
    responses=line_responses(),
    openapi_extra=request_body(CreateConnector),
)
async def check_connector(request: Request, clients: Clients, body: JsonBody) -> Response:
    """Check the connections of a configuration. Each line is a step."""
    wanted = await requested_connector(request, clients, body)
    return await stream_lines(request, _steps(clients, await require_valid(clients, wanted)))


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
    findings = [SeverityFinding.of(one).to_json() for one in step.diagnostics]
    seconds = round(step.took, 3)
    return {
        "end": step.end, "step": step.step, "ok": step.ok, "seconds": seconds, "findings": findings,
    }  # fmt: skip


@router.post(
    "/datasets",
    responses=line_responses(),
    openapi_extra=request_body(DatasetsBody),
)
async def list_datasets(request: Request, clients: Clients, body: JsonBody) -> Response:
    """List the datasets that the source of a configuration can read, with their columns. Each line
    is a dataset; a last line `{"more": true}` means that there are more than `limit`.
    """
    fields = dict(require_object(body, "the request"))
    limit = _dataset_limit(to_plain(fields.pop("limit", None)))
    wanted = await requested_connector(request, clients, fields)
    return await stream_lines(request, _datasets(clients, wanted, limit))


def _dataset_limit(value: Any) -> int:
    if value is None:
        return DEFAULT_DATASETS
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and 1 <= value <= MAX_DATASETS:
        return int(value)
    raise ConfigError(
        "http.parameter",
        f"`limit` is {str(value)[:100]}, not a whole number from 1 to {MAX_DATASETS}",
        fix=f"Leave it out for {DEFAULT_DATASETS} datasets.",
        config_path="limit",
    )


async def _datasets(
    clients: ServiceClients, connector: Connector, limit: int
) -> AsyncGenerator[Mapping[str, Any], None]:
    worker = await clients.workers.get_any()
    async with aclosing(worker.list_datasets(connector, limit)) as parts:
        async for part in parts:
            if part.dataset is not None:
                yield ListedDataset.of(part.dataset).to_json()
            if part.more:
                yield {"more": True}


@router.post(
    "/rehearse",
    responses=responses(200, PreviewResult),
    openapi_extra=request_body(PreviewBody),
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
