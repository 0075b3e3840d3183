"""`/v1/connectors`: what a connector is, its versions, what differs, the way back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from penstock.gateway import configs, documents
from penstock.gateway.clients import Services
from penstock.gateway.paths import MOST, Name, Number
from penstock.gateway.request_body import Json, objects, plain
from penstock.gateway.routes.connectors import IfMatch, revision_of
from penstock.gateway.v1.documents import Differences, Revisions, Rollback, Version, Whole
from penstock.model.connector import Connector, Revision
from penstock.model.errors import ConfigError

routes = APIRouter(prefix="/v1/connectors", tags=["v1"])


@routes.get("/{connector}", responses=documents.answers(200, Whole))
async def get(asks: Services, connector: Name) -> Response:
    """Return all that is stored of a connector."""
    return _whole(await asks.config.get(connector))


@routes.get("/{connector}/revisions", responses=documents.answers(200, Revisions))
async def revisions(asks: Services, connector: Name) -> Response:
    """Return the versions of its configuration, newest first, without the configurations."""
    found = await asks.config.revisions(connector)
    return JSONResponse({"revisions": [_revision(one) for one in found]})


@routes.get("/{connector}/revisions/{version}", responses=documents.answers(200, Version))
async def revision(asks: Services, connector: Name, version: Number) -> Response:
    """Return one version, with its configuration."""
    stored = await asks.config.get(connector)
    found = await asks.config.revision(connector, version)
    config = configs.masked(found.config, stored.secret_keys)
    return JSONResponse({**_revision(found), "config": config})


@routes.get("/{connector}/diff", responses=documents.answers(200, Differences))
async def diff(
    asks: Services,
    connector: Name,
    before: Annotated[int, Query(alias="from", ge=1, le=MOST)],
    after: Annotated[int, Query(alias="to", ge=0, le=MOST)] = 0,
) -> Response:
    """Tell what differs between two versions; `to=0` is the newest. Secrets are ***."""
    found = await asks.config.diff(connector, before, after)
    differences = [{"key": one.key, "before": one.before, "after": one.after} for one in found]
    return JSONResponse({"differences": differences})


@routes.post(
    "/{connector}/rollback",
    responses=documents.answers(200, Whole),
    openapi_extra=documents.takes(Rollback),
)
async def rollback(
    asks: Services, connector: Name, body: Json, if_match: IfMatch = "*"
) -> Response:
    """Make a new version out of an earlier one."""
    version = plain(objects(body, "the request").get("version"))
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= MOST:
        raise ConfigError("http.parameter", "`version` is no version", fix='Send {"version": 3}.')
    stored, _ = await asks.config.rollback(connector, version, revision_of(if_match))
    return _whole(stored)


def _whole(stored: Connector) -> JSONResponse:
    body = {
        "name": stored.name,
        "kind": stored.kind.name.lower(),
        "target_state": stored.target_state.name,
        "generation": stored.generation,
        "revision": stored.revision,
        "version": stored.version,
        "config": configs.masked(stored.config, stored.secret_keys),
    }
    return JSONResponse(body, headers={"ETag": f'"{stored.revision}"'})


def _revision(found: Revision) -> dict[str, Any]:
    at = datetime.fromtimestamp(found.written_at, UTC).isoformat()
    body = {"version": found.version, "written_at": at, "cause": found.cause.name.lower()}
    return body | ({"restored": found.restored} if found.restored else {})
