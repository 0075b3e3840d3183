"""`/v1/connectors/validate`, `check`, `compare`: a configuration, before it is stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import configs, documents
from penstock.gateway.access.guard import require
from penstock.gateway.access.people import Level
from penstock.gateway.asks import Asks, Services
from penstock.gateway.body import Json
from penstock.gateway.connectors import found_or_none
from penstock.gateway.v1.documents import Comparison, Findings
from penstock.gateway.v1.findings import finding
from penstock.gateway.v1.lines import lines
from penstock.model.connector import Connector
from penstock.model.sensitive import differences
from penstock.wire.worker import CheckedStep

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
