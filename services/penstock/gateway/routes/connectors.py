"""`/connectors`: configurations, statuses, target states, restarts and topics of connectors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response

from penstock.connector_config.validation import validate_connector
from penstock.gateway import configs
from penstock.gateway.access.guard import Caller, require_level, view_configs
from penstock.gateway.access.users import Level
from penstock.gateway.bodies import ResponseBody, request_body, responses
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.errors import InvalidConfigError
from penstock.gateway.request_input import JsonBody, PathName, PathNumber, require_object
from penstock.gateway.routes import bodies
from penstock.gateway.routes.offsets import clear_offsets
from penstock.model.config_def import check_key_count
from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.status import ConnectorStatus, RunState

router = APIRouter(tags=["connectors"])

_REVISION: Final = {"pattern": r'^(\*|"[0-9]{1,18}")$'}

IfMatch = Annotated[
    str,
    Header(
        alias="If-Match",
        description="The revision that is changed; *: any.",
        json_schema_extra=_REVISION,
    ),
]

NOT_STARTED: Final = "scheduler.not_found"
"""Code of the scheduler for a connector that it has not seen yet, such as one just created."""


@router.get("/connectors", responses=responses(200, bodies.ListedConnectors))
async def list_connectors(
    request: Request,
    clients: Clients,
    caller: Caller,
    expand: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """Return the names of all connectors; with `expand=status`, `expand=info` their details."""
    if not expand:
        seen = caller.filter_visible((await clients.config.list()).connectors)
        return bodies.ListedConnectors([connector.name for connector in seen]).respond()
    found, statuses = await asyncio.gather(clients.config.list(), clients.scheduler.list_statuses())
    by_generation = {status.generation: status for status in statuses}
    visible = caller.filter_visible(found.connectors)
    view = view_configs(request, visible)
    return bodies.ListedConnectors.expanded(visible, by_generation, expand, view).respond()


@router.post(
    "/connectors",
    responses=responses(201, bodies.ConnectorInfo),
    openapi_extra=request_body(bodies.CreateConnector),
)
async def create_connector(request: Request, clients: Clients, body: JsonBody) -> Response:
    """Create a connector."""
    requested = configs.parse_connector(body)
    require_level(request, requested.name, Level.EDITOR)
    configs.refuse_redacted(requested.config)
    wanted = await require_valid(clients, requested)
    state = wanted.target_state or TargetState.RUNNING
    stored = await clients.config.create(replace(wanted, target_state=state))
    view = view_configs(request, [stored])
    return _response(stored, bodies.ConnectorInfo.of(stored, None, view), created=True)


@router.get("/connectors/{connector}", responses=responses(200, bodies.ConnectorInfo))
async def get_connector(request: Request, clients: Clients, connector: PathName) -> Response:
    """Return a connector."""
    stored = await clients.config.get(connector)
    status = await find_status(clients, stored)
    view = view_configs(request, [stored])
    return _response(stored, bodies.ConnectorInfo.of(stored, status, view))


@router.delete("/connectors/{connector}", status_code=204, response_class=Response)
async def delete_connector(
    request: Request,
    clients: Clients,
    connector: PathName,
    offsets: Literal["keep", "delete"] | None = None,
    if_match: IfMatch = "*",
) -> Response:
    """Delete a connector. A new connector of the same name does not use its offsets, unless
    `offsets=keep` keeps them for it. With `offsets=delete` they are deleted first: the connector
    must be STOPPED, and its plugin must agree.
    """
    expected = parse_if_match(if_match)
    rules: ConnectorRules = request.app.state.rules
    keeps = offsets == "keep" or (offsets is None and rules.keeps_offsets)
    if offsets == "delete":
        stored = await clients.config.get(connector)
        expected = expected or stored.revision
        if expected == stored.revision:  # another revision: the config service refuses it
            await clear_offsets(clients, stored, forget=True)
    await clients.config.delete(connector, expected, keep_offsets=keeps)
    return Response(status_code=204)


@router.get("/connectors/{connector}/config", responses=responses(200, bodies.Config))
async def get_config(request: Request, clients: Clients, connector: PathName) -> Response:
    """Return the configuration of a connector. Secrets are `***`, unless the gateway shows them."""
    stored = await clients.config.get(connector)
    config = view_configs(request, [stored]).show(stored)
    return _response(stored, bodies.Config(dict(config)))


@router.put(
    "/connectors/{connector}/config",
    responses=responses(200, bodies.ConnectorInfo, 201),
    openapi_extra=request_body(bodies.Config),
)
async def put_config(
    request: Request,
    clients: Clients,
    connector: PathName,
    body: JsonBody,
    if_match: IfMatch = "*",
) -> Response:
    """Create a connector, or replace its configuration."""
    given, before = configs.parse_config(body), await find_connector(clients, connector)
    secret_keys = before.secret_keys if before else ()
    config = configs.restore_secrets(given, before.config if before else {}, secret_keys)
    configs.refuse_redacted(config, secret_keys)
    wanted = await require_valid(clients, configs.make_connector(connector, config))
    expected = parse_if_match(if_match)
    if before is not None and config != given:
        # a secret was restored from this revision: a newer one may have another
        expected = expected or before.revision
    stored, _ = await clients.config.put(wanted, expected)
    status = await find_status(clients, stored) if before else None
    view = view_configs(request, [stored])
    return _response(stored, bodies.ConnectorInfo.of(stored, status, view), created=before is None)


@router.patch(
    "/connectors/{connector}/config",
    responses=responses(200, bodies.ConnectorInfo),
    openapi_extra=request_body(bodies.ConfigPatch),
)
async def patch_config(
    request: Request,
    clients: Clients,
    connector: PathName,
    body: JsonBody,
    if_match: IfMatch = "*",
) -> Response:
    """Change keys of a configuration; null removes a key."""
    before = await clients.config.get(connector)
    given_changes = require_object(body, "the changes")
    check_key_count("these changes", len(given_changes))
    changes = {key: configs.parse_value(key, value) for key, value in given_changes.items()}
    kept = {key: value for key, value in before.config.items() if key not in changes}
    given = {key: value for key, value in changes.items() if value is not None}
    restore_secrets = configs.restore_secrets(given, before.config, before.secret_keys)
    configs.refuse_redacted(restore_secrets, before.secret_keys)
    config = kept | restore_secrets
    wanted = await require_valid(clients, configs.make_connector(connector, config))
    # store exactly what was validated: a change in between is a conflict
    expected = parse_if_match(if_match) or before.revision
    stored, _ = await clients.config.put(wanted, expected)
    status = await find_status(clients, stored)
    view = view_configs(request, [stored])
    return _response(stored, bodies.ConnectorInfo.of(stored, status, view))


@router.get(
    "/connectors/{connector}/status",
    responses=responses(200, bodies.ConnectorState),
)
async def get_connector_status(clients: Clients, connector: PathName) -> Response:
    """Return the states of a connector and its tasks."""
    stored = await clients.config.get(connector)
    return bodies.ConnectorState.of(stored, await find_status(clients, stored)).respond()


@router.get("/connectors/{connector}/tasks", responses=responses(200, bodies.Tasks))
async def get_tasks(request: Request, clients: Clients, connector: PathName) -> Response:
    """Return the tasks of a connector with their configurations. A STOPPED one has none, as in
    Kafka Connect, although its plans are kept for its next start.
    """
    stored = await clients.config.get(connector)
    if stored.target_state is TargetState.STOPPED:
        return bodies.Tasks([]).respond()
    plans = await clients.scheduler.list_plans(stored.generation)
    tasks = ((int(plan.task_id.rpartition("-")[2]), plan) for plan in plans)
    view = view_configs(request, [stored])
    found = [bodies.Task.of(stored, number, plan, view) for number, plan in tasks]
    return bodies.Tasks(found).respond()


@router.get(
    "/connectors/{connector}/tasks/{task}/status",
    responses=responses(200, bodies.TaskState),
)
async def get_task_status(clients: Clients, connector: PathName, task: PathNumber) -> Response:
    """Return the state of a task."""
    stored = await clients.config.get(connector)
    found = require_task(await find_status(clients, stored), stored, task)
    return bodies.TaskState.of(found, stored.target_state).respond()


async def find_status(clients: ServiceClients, connector: Connector) -> ConnectorStatus | None:
    """Return the status of a connector; None while the scheduler has not seen it.

    A status of another generation is that of a deleted connector of the same name (invariant 10).
    """
    try:
        found = await clients.scheduler.list_statuses(connector.name)
    except PenstockError as error:
        if error.code == NOT_STARTED:
            return None
        raise
    return next((one for one in found if one.generation == connector.generation), None)


def require_task(status: ConnectorStatus | None, connector: Connector, number: int) -> Any:
    """Return the status of a task.

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
        fix=f"It has {count} tasks, numbered from 0." if count else "It has no tasks yet.",
    )


def parse_if_match(if_match: str) -> int:
    """Return the revision that `If-Match` names; 0 for any.

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
            "If-Match is not a revision",
            fix="Send the ETag of the response that the change is based on.",
        )
    return int(number)


async def find_connector(clients: ServiceClients, name: str) -> Connector | None:
    """Return a connector; None for an unknown name."""
    try:
        return await clients.config.get(name)
    except PenstockError as error:
        if error.code == "config.not_found":
            return None
        raise


async def require_valid(clients: ServiceClients, wanted: Connector) -> Connector:
    """Return a connector as it is to be stored.

    Raises:
        InvalidConfigError: the configuration has errors.
    """
    validated, _ = await validate_connector(clients.config, wanted, InvalidConfigError)
    return validated


def _response(stored: Connector, body: ResponseBody, *, created: bool = False) -> JSONResponse:
    headers = {"ETag": f'"{stored.revision}"'}
    if created:
        headers["Location"] = f"/connectors/{quote(stored.name, safe='')}"
    return body.respond(headers, status=201 if created else 200)


@router.put("/connectors/{connector}/pause", status_code=202, response_class=Response)
async def pause_connector(clients: Clients, connector: PathName) -> Response:
    """Pause a connector: it processes no rows, and keeps its source and sink open."""
    await clients.config.set_target_state(connector, TargetState.PAUSED)
    return Response(status_code=202)


@router.put("/connectors/{connector}/resume", status_code=202, response_class=Response)
async def resume_connector(clients: Clients, connector: PathName) -> Response:
    """Resume a connector."""
    await clients.config.set_target_state(connector, TargetState.RUNNING)
    return Response(status_code=202)


@router.put("/connectors/{connector}/stop", status_code=204, response_class=Response)
async def stop_connector(clients: Clients, connector: PathName) -> Response:
    """Stop a connector and release its resources. Configuration and offsets are kept."""
    await clients.config.set_target_state(connector, TargetState.STOPPED)
    return Response(status_code=204)


@router.post(
    "/connectors/{connector}/restart",
    status_code=204,
    response_class=Response,
    responses=responses(202, bodies.ConnectorState),
)
async def restart_connector(
    clients: Clients,
    connector: PathName,
    includeTasks: bool = False,  # noqa: N803 - Kafka Connect's name
    onlyFailed: bool = False,  # noqa: N803
) -> Response:
    """Restart a connector: only itself, or also its tasks, or only what has failed."""
    stored = await clients.config.get(connector)
    await clients.config.request_restart(
        connector, include_tasks=includeTasks, only_failed=onlyFailed
    )
    if not includeTasks and not onlyFailed:
        return Response(status_code=204)
    now = await find_status(clients, stored) or ConnectorStatus(stored.name, stored.generation)
    soon = mark_restarting(now, include_tasks=includeTasks, only_failed=onlyFailed)
    return bodies.ConnectorState.of(stored, soon).respond(status=202)


def mark_restarting(
    status: ConnectorStatus, *, include_tasks: bool, only_failed: bool
) -> ConnectorStatus:
    """Return the status of a connector right after a restart request."""

    def restarts(state: RunState) -> bool:
        return not only_failed or state is RunState.FAILED

    tasks = tuple(
        replace(task, state=RunState.RESTARTING, diagnostic=None)
        if include_tasks and restarts(task.state)
        else task
        for task in status.tasks
    )
    if not restarts(status.state):
        return replace(status, tasks=tasks)
    return replace(status, tasks=tasks, state=RunState.RESTARTING, diagnostic=None)


@router.post(
    "/connectors/{connector}/tasks/{task}/restart", status_code=204, response_class=Response
)
async def restart_task(clients: Clients, connector: PathName, task: PathNumber) -> Response:
    """Restart a task."""
    stored = await clients.config.get(connector)
    found = require_task(await find_status(clients, stored), stored, task)
    await clients.config.request_restart(connector, task_id=found.task_id)
    return Response(status_code=204)


@dataclass(frozen=True, slots=True)
class ConnectorRules:
    """What the keys of a gateway say of its connectors: whether their topics are shown, and may be
    reset; whether a deletion that does not say it keeps their offsets.

    Topics are recorded in any case, for other gateways and for a later change of these keys.
    """

    shows_topics: bool = True
    resets_topics: bool = True
    keeps_offsets: bool = False


def connector_rules_from_settings(values: Mapping[str, Any]) -> ConnectorRules:
    """Return the rules that the keys of a gateway describe."""
    return ConnectorRules(
        values["topic.tracking.enable"],
        values["topic.tracking.allow.reset"],
        values["delete.keeps.offsets"],
    )


@router.get("/connectors/{connector}/topics", responses=responses(200, bodies.Topics))
async def list_connector_topics(
    request: Request, clients: Clients, connector: PathName
) -> Response:
    """Return the topics that a connector had rows of since its creation or the last reset."""
    _require_tracking(request.app.state.rules)
    topics = await clients.config.list_topics(connector)
    return bodies.Topics({connector: bodies.OwnTopics(topics=list(topics))}).respond()


@router.put("/connectors/{connector}/topics/reset", status_code=202, response_class=Response)
async def reset_connector_topics(
    request: Request, clients: Clients, connector: PathName
) -> Response:
    """Reset the topics of a connector. Topics that it still uses are back within a minute."""
    rules: ConnectorRules = request.app.state.rules
    _require_tracking(rules)
    if not rules.resets_topics:
        raise _disabled("topics.no_reset", "Topic tracking reset is disabled.", "allow.reset")
    await clients.config.reset_topics(connector)
    return Response(status_code=202)


def _require_tracking(rules: ConnectorRules) -> None:
    if not rules.shows_topics:
        raise _disabled("topics.not_told", "Topic tracking is disabled.", "enable")


def _disabled(code: str, message: str, key: str) -> ConfigError:
    fix = f"Set `topic.tracking.{key}=true` in the configuration of the gateway."
    return ConfigError(code, message, fix=fix, config_path=f"topic.tracking.{key}")
