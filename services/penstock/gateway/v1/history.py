"""`/v1/connectors/{connector}`: versions of a configuration and of offsets; rollback and rewind."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from penstock.gateway import configs
from penstock.gateway.bodies import line_responses, request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.request_input import (
    MAX_NUMBER,
    JsonBody,
    PathName,
    PathNumber,
    parse_json,
    require_object,
)
from penstock.gateway.routes import offsets
from penstock.gateway.routes.connectors import IfMatch, parse_if_match
from penstock.gateway.routes.offsets import parse_fields
from penstock.gateway.v1.bodies import (
    ConnectorDetails,
    Difference,
    Differences,
    OffsetHistory,
    OffsetVersion,
    Revisions,
    Rewind,
    Rollback,
    Version,
    offset_value,
    parse_time,
)
from penstock.gateway.v1.ndjson import stream_lines
from penstock.model.connector import Connector
from penstock.model.offset import OffsetChange, RewindProgress
from penstock_values.identity import partition_id

router = APIRouter(prefix="/v1/connectors", tags=["v1"])


@router.get("/{connector}", responses=responses(200, ConnectorDetails))
async def get_connector_details(clients: Clients, connector: PathName) -> Response:
    """Return everything that is stored of a connector."""
    return _details_response(await clients.config.get(connector))


@router.get("/{connector}/revisions", responses=responses(200, Revisions))
async def list_revisions(clients: Clients, connector: PathName) -> Response:
    """Return the versions of a configuration, newest first, without the configurations."""
    found = await clients.config.list_revisions(connector)
    return Revisions(revisions=[Version.of(one) for one in found]).respond()


@router.get("/{connector}/revisions/{version}", responses=responses(200, Version))
async def get_revision(clients: Clients, connector: PathName, version: PathNumber) -> Response:
    """Return one version, with its configuration."""
    stored = await clients.config.get(connector)
    found = await clients.config.get_revision(connector, version)
    config = configs.redact_config(found.config, stored.secret_keys)
    return Version.of(found, config).respond()


@router.get("/{connector}/diff", responses=responses(200, Differences))
async def diff_revisions(
    clients: Clients,
    connector: PathName,
    before: Annotated[int, Query(alias="from", ge=1, le=MAX_NUMBER)],
    after: Annotated[int, Query(alias="to", ge=0, le=MAX_NUMBER)] = 0,
) -> Response:
    """Return the keys that differ between two versions; `to=0` is the newest. Secrets are `***`."""
    found = await clients.config.diff_revisions(connector, before, after)
    return Differences(differences=Difference.all_of(found)).respond()


@router.post(
    "/{connector}/rollback",
    responses=responses(200, ConnectorDetails),
    openapi_extra=request_body(Rollback),
)
async def rollback_connector(
    clients: Clients, connector: PathName, body: JsonBody, if_match: IfMatch = "*"
) -> Response:
    """Store an earlier version as a new one."""
    version = Rollback.read(body).version
    stored, _ = await clients.config.rollback(connector, version, parse_if_match(if_match))
    return _details_response(stored)


def _details_response(stored: Connector) -> Response:
    return ConnectorDetails.of(stored).respond({"ETag": f'"{stored.revision}"'})


@router.get("/{connector}/offsets/history", responses=responses(200, OffsetHistory))
async def list_offset_history(
    clients: Clients,
    connector: PathName,
    partition: Annotated[str, Query(description="The partition, a JSON object.")],
) -> Response:
    """Return the offsets that a partition had, newest first; null: the offset was removed."""
    stored = await clients.config.get(connector)
    key = require_object(parse_json(partition.encode(errors="replace")), "`partition`")
    id_ = partition_id(parse_fields(key, "partition"))
    found = await clients.offset.list_history(stored.generation, id_)
    return OffsetHistory(versions=[OffsetVersion.of(one) for one in found]).respond()


@router.post(
    "/{connector}/offsets/rewind",
    responses=line_responses(),
    openapi_extra=request_body(Rewind),
)
async def rewind_offsets(
    request: Request, clients: Clients, connector: PathName, body: JsonBody
) -> Response:
    """Set partitions to the offsets that they had at a time. The connector must be STOPPED and its
    plugin must agree. Each line has the progress; the last one has a `revision`. With `dry_run` the
    lines have the changes, and nothing is stored.
    """
    stored = await clients.config.get(connector)
    return await stream_lines(request, _rewind(clients, stored, Rewind.read(body)))


async def _rewind(
    clients: ServiceClients, stored: Connector, requested: Rewind
) -> AsyncGenerator[Mapping[str, Any], None]:
    to, is_dry_run = parse_time(requested.to), requested.dry_run

    def run(*, dry_run: bool) -> AsyncGenerator[RewindProgress, None]:
        name, generation = stored.name, stored.generation
        return clients.offset.rewind(name, generation, to, dry_run=dry_run, prefix=requested.prefix)

    async def changes() -> AsyncIterator[tuple[str, Mapping[str, Any] | None]]:
        async with aclosing(run(dry_run=True)) as steps:
            async for step in steps:
                for change in step.changes:
                    yield change.partition_id, change.after

    if not is_dry_run:
        await clients.offset.check_alterable(stored.name, stored.generation)
    await offsets.confirm_with_plugin(clients, stored, changes, dry_run=is_dry_run)
    async with aclosing(run(dry_run=is_dry_run)) as steps:
        async for step in steps:
            yield _progress_body(step)


def _progress_body(step: RewindProgress) -> dict[str, Any]:
    body: dict[str, Any] = {
        "seen": step.seen,
        "changed": step.changed,
        "removed": step.removed,
    }
    if step.changes:
        body["changes"] = [_change_body(one) for one in step.changes]
    return body | ({"revision": step.revision} if step.revision else {})


def _change_body(change: OffsetChange) -> dict[str, Any]:
    return {
        "partition": json.loads(change.partition_id),
        "before": offset_value(change.before),
        "after": offset_value(change.after),
    }
