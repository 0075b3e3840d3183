"""`/v1/connectors/{connector}/offsets/…`: offsets that were, and the way back to a time."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from penstock.client.offset import OffsetChange, Rewound
from penstock.gateway import documents, offset_changes
from penstock.gateway.clients import Asks, Services
from penstock.gateway.paths import Name
from penstock.gateway.request_body import Json, objects, parsed
from penstock.gateway.routes.offsets import fields_of
from penstock.gateway.v1.documents import OffsetHistory, Rewind
from penstock.gateway.v1.lines import lines
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError
from penstock.model.identity import canonical_json, partition_id

routes = APIRouter(prefix="/v1/connectors/{connector}/offsets", tags=["v1"])


@routes.get("/history", responses=documents.answers(200, OffsetHistory))
async def history(
    asks: Services,
    connector: Name,
    partition: Annotated[str, Query(description="The partition, a JSON object.")],
) -> Response:
    """Return the offsets that a partition had, newest first; null where it had none."""
    stored = await asks.config.get(connector)
    key = objects(parsed(partition.encode(errors="replace")), "`partition`")
    id_ = partition_id(fields_of(key, "partition"))
    versions = [
        {"offset": _plain(one.offset), "epoch": one.epoch, "written_at": one.written_at.isoformat()}
        for one in await asks.offset.history(stored.generation, id_)
    ]
    return JSONResponse({"versions": versions})


@routes.post(
    "/rewind",
    responses=documents.answers_lines(),
    openapi_extra=documents.takes(Rewind),
)
async def rewind(request: Request, asks: Services, connector: Name, body: Json) -> Response:
    """Give partitions the offsets that they had at a time; refused unless it is STOPPED, and where
    its plugin refuses. Lines tell how far it is; the last one has a `revision`. With `dry_run` they
    tell what would change.
    """
    stored = await asks.config.get(connector)
    fields = objects(body, "the request")
    return await lines(request, _rewound(asks, stored, fields))


async def _rewound(
    asks: Asks, stored: Connector, fields: Mapping[str, Any]
) -> AsyncGenerator[Mapping[str, Any], None]:
    dry, prefix = fields.get("dry_run", False), fields.get("prefix", "")
    if not isinstance(dry, bool) or not isinstance(prefix, str):
        raise ConfigError(
            "http.parameter",
            "`dry_run` is true or false, and `prefix` a text",
            fix='Send {"to": "2026-01-31T08:00:00Z", "dry_run": true}.',
        )
    to = moment(fields.get("to"))

    def run(*, dry_run: bool) -> AsyncGenerator[Rewound, None]:
        name, generation = stored.name, stored.generation
        return asks.offset.rewind(name, generation, to, dry_run=dry_run, prefix=prefix)

    async def changes() -> AsyncIterator[tuple[str, Mapping[str, Any] | None]]:
        async with aclosing(run(dry_run=True)) as steps:
            async for step in steps:
                for change in step.changes:
                    yield change.partition_id, change.after

    if not dry:
        await asks.offset.check_alterable(stored.name, stored.generation)
    await offset_changes.agreed(asks, stored, changes, dry_run=dry)
    async with aclosing(run(dry_run=dry)) as steps:
        async for step in steps:
            yield _step(step)


def moment(value: Any, name: str = "to") -> datetime:
    """Return a time that a person wrote under a name, in ISO 8601 with its zone.

    Raises:
        ConfigError: `offset.no_time`.
    """
    try:
        found = datetime.fromisoformat(value)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):  # the last of a day before the first year
        pass
    raise ConfigError(
        "offset.no_time",
        f"`{name}` is no time with a zone",
        fix="Write it as 2026-01-31T08:00:00Z, or with +01:00.",
        config_path=name,
    )


def _step(step: Rewound) -> dict[str, Any]:
    body: dict[str, Any] = {
        "seen": step.seen,
        "changed": step.changed,
        "removed": step.removed,
    }
    if step.changes:
        body["changes"] = [_change(one) for one in step.changes]
    return body | ({"revision": step.revision} if step.revision else {})


def _change(change: OffsetChange) -> dict[str, Any]:
    return {
        "partition": json.loads(change.partition_id),
        "before": _plain(change.before),
        "after": _plain(change.after),
    }


def _plain(offset: Mapping[str, Any] | None) -> Any:
    return None if offset is None else json.loads(canonical_json(dict(offset)))
