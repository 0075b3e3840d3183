"""`/connectors`: what should run, and how it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import configs, documents, response_bodies
from penstock.gateway.access.guard import Sender, require
from penstock.gateway.access.users import Level
from penstock.gateway.clients import Asks, Services
from penstock.gateway.offset_changes import reset
from penstock.gateway.paths import Name, Number
from penstock.gateway.request_body import Json, objects
from penstock.model.config_size import check_keys
from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.status import ConnectorStatus

routes = APIRouter(tags=["connectors"])

_REVISION: Final = {"pattern": r'^(\*|"[0-9]{1,18}")$'}

IfMatch = Annotated[
    str,
    Header(
        alias="If-Match", description="The revision it is for, any: *.", json_schema_extra=_REVISION
    ),
]

UNKNOWN: Final = "scheduler.not_found"
"""The scheduler has not begun with a connector that has just been made."""


@routes.get("/connectors", responses=documents.answers(200, documents.ListedConnectors))
async def list_connectors(
    asks: Services, sender: Sender, expand: Annotated[list[str] | None, Query()] = None
) -> Response:
    """Return the names of all connectors, or with `expand=status`, `expand=info` what they are."""
    if not expand:
        seen = sender.sees((await asks.config.list()).connectors)
        return JSONResponse([connector.name for connector in seen])
    found, statuses = await asyncio.gather(asks.config.list(), asks.scheduler.statuses())
    by_generation = {status.generation: status for status in statuses}
    return JSONResponse(
        response_bodies.expanded(sender.sees(found.connectors), by_generation, set(expand))
    )


@routes.post(
    "/connectors",
    responses=documents.answers(201, documents.ConnectorInfo),
    openapi_extra=documents.takes(documents.CreateConnector),
)
async def create(request: Request, asks: Services, body: Json) -> Response:
    """Make a connector."""
    asked = configs.requested(body)
    require(request, asked.name, Level.EDITOR)
    configs.refuse_masks(asked.config)
    wanted = await _checked(asks, asked)
    state = wanted.target_state or TargetState.RUNNING
    stored = await asks.config.create(replace(wanted, target_state=state))
    return _shown(stored, response_bodies.info(stored, []), created=True)


@routes.get("/connectors/{connector}", responses=documents.answers(200, documents.ConnectorInfo))
async def get(asks: Services, connector: Name) -> Response:
    """Return a connector."""
    stored = await asks.config.get(connector)
    return _shown(
        stored, response_bodies.info(stored, response_bodies.numbers(await status_of(asks, stored)))
    )


@routes.delete("/connectors/{connector}", status_code=204, response_class=Response)
async def delete(
    asks: Services,
    connector: Name,
    offsets: Literal["keep", "delete"] = "keep",
    if_match: IfMatch = "*",
) -> Response:
    """Delete a connector. Its offsets are kept for a while, of no use to a namesake; or they are
    deleted before it, which is refused unless it is STOPPED and its plugin agrees.
    """
    expected = revision_of(if_match)
    if offsets == "delete":
        stored = await asks.config.get(connector)
        expected = expected or stored.revision
        if expected == stored.revision:  # else it is the config service that refuses
            await reset(asks, stored, forget=True)
    await asks.config.delete(connector, expected)
    return Response(status_code=204)


@routes.get("/connectors/{connector}/config", responses=documents.answers(200, documents.Config))
async def get_config(asks: Services, connector: Name) -> Response:
    """Return the configuration of a connector; secrets in it are ***."""
    stored = await asks.config.get(connector)
    return _shown(stored, configs.masked(stored.config, stored.secret_keys))


@routes.put(
    "/connectors/{connector}/config",
    responses=documents.answers(200, documents.ConnectorInfo, 201),
    openapi_extra=documents.takes(documents.Config),
)
async def put_config(
    asks: Services, connector: Name, body: Json, if_match: IfMatch = "*"
) -> Response:
    """Give a connector another configuration, or make it."""
    given, before = configs.texts(body), await found_or_none(asks, connector)
    secret_keys = before.secret_keys if before else ()
    config = configs.unmasked(given, before.config if before else {}, secret_keys)
    configs.refuse_masks(config, secret_keys)
    wanted = await _checked(asks, configs.named(connector, config))
    expected = revision_of(if_match)
    if before is not None and config != given:
        # a secret that was put back must not be older than what is stored by now
        expected = expected or before.revision
    stored, _ = await asks.config.put(wanted, expected)
    tasks = response_bodies.numbers(await status_of(asks, stored)) if before else []
    return _shown(stored, response_bodies.info(stored, tasks), created=before is None)


@routes.patch(
    "/connectors/{connector}/config",
    responses=documents.answers(200, documents.ConnectorInfo),
    openapi_extra=documents.takes(documents.ConfigPatch),
)
async def patch_config(
    asks: Services, connector: Name, body: Json, if_match: IfMatch = "*"
) -> Response:
    """Change single keys of a configuration; null takes a key away."""
    before = await asks.config.get(connector)
    given_changes = objects(body, "the changes")
    check_keys("these changes", len(given_changes))
    changes = {key: configs.text(key, value) for key, value in given_changes.items()}
    kept = {key: value for key, value in before.config.items() if key not in changes}
    given = {key: value for key, value in changes.items() if value is not None}
    unmasked = configs.unmasked(given, before.config, before.secret_keys)
    configs.refuse_masks(unmasked, before.secret_keys)
    config = kept | unmasked
    wanted = await _checked(asks, configs.named(connector, config))
    # what was checked is what is stored: another change in between is a conflict
    expected = revision_of(if_match) or before.revision
    stored, _ = await asks.config.put(wanted, expected)
    return _shown(
        stored, response_bodies.info(stored, response_bodies.numbers(await status_of(asks, stored)))
    )


@routes.get(
    "/connectors/{connector}/status", responses=documents.answers(200, documents.ConnectorState)
)
async def get_status(asks: Services, connector: Name) -> Response:
    """Tell how a connector and its tasks are."""
    stored = await asks.config.get(connector)
    return JSONResponse(response_bodies.state_info(stored, await status_of(asks, stored)))


@routes.get("/connectors/{connector}/tasks", responses=documents.answers(200, documents.Tasks))
async def get_tasks(asks: Services, connector: Name) -> Response:
    """Return the tasks of a connector with what each one does."""
    stored = await asks.config.get(connector)
    plans = [one.plan for one in await asks.config.list_plans(stored.name, stored.generation)]
    tasks = ((int(plan.task_id.rpartition("-")[2]), plan) for plan in plans)
    return JSONResponse([response_bodies.task_info(stored, number, plan) for number, plan in tasks])


@routes.get(
    "/connectors/{connector}/tasks/{task}/status",
    responses=documents.answers(200, documents.TaskState),
)
async def get_task_status(asks: Services, connector: Name, task: Number) -> Response:
    """Tell how a task is."""
    stored = await asks.config.get(connector)
    found = task_of(await status_of(asks, stored), stored, task)
    return JSONResponse(response_bodies.task_state(found, stored.target_state))


async def status_of(asks: Asks, connector: Connector) -> ConnectorStatus | None:
    """Return how a connector is; None while the scheduler has not begun with it (invariant 10: a
    namesake that is gone is another one).
    """
    try:
        found = await asks.scheduler.statuses(connector.name)
    except PenstockError as error:
        if error.code == UNKNOWN:
            return None
        raise
    return next((one for one in found if one.generation == connector.generation), None)


def task_of(status: ConnectorStatus | None, connector: Connector, number: int) -> Any:
    """Return how a task is.

    Raises:
        ConfigError: `task.not_found`.
    """
    for task in status.tasks if status else ():
        if task.number == number:
            return task
    count = len(status.tasks) if status else 0
    raise ConfigError(
        "task.not_found",
        f"{connector.name} has no task {number}",
        fix=f"It has {count} tasks; their numbers begin with 0." if count else "It has none yet.",
    )


def revision_of(if_match: str) -> int:
    """Return the revision that a change is for; 0 for any.

    Raises:
        ConfigError: `http.if_match`.
    """
    text = if_match.strip()
    if text == "*":
        return 0
    number = text.removeprefix("W/").strip('"')
    if not number.isdecimal() or not number.isascii() or len(number) > 18:
        raise ConfigError(
            "http.if_match",
            "If-Match names no revision",
            fix="Send the ETag of the answer that the change was made from.",
        )
    return int(number)


async def found_or_none(asks: Asks, name: str) -> Connector | None:
    """Return a connector; None when there is none of this name."""
    try:
        return await asks.config.get(name)
    except PenstockError as error:
        if error.code == "config.not_found":
            return None
        raise


async def _checked(asks: Asks, wanted: Connector) -> Connector:
    """Return a connector with its kind, when its configuration is valid."""
    found = await asks.config.validate(wanted)
    configs.check_findings(found.diagnostics)
    return replace(wanted, kind=found.kind, secret_keys=tuple(found.secret_keys))


def _shown(stored: Connector, body: Any, *, created: bool = False) -> JSONResponse:
    headers = {"ETag": f'"{stored.revision}"'}
    if created:
        headers["Location"] = f"/connectors/{quote(stored.name, safe='')}"
    return JSONResponse(body, 201 if created else 200, headers)
