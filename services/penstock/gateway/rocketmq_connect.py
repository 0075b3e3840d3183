"""RocketMQ Connect's REST API as its clients know it, on listeners of its own
(`listeners.rocketmq`; its worker file's `httpPort`).

Its paths are partly Kafka Connect's, with other bodies and other meanings: `GET` makes a connector,
and stopping one deletes it. Two things differ. An error has the status of an error, not 200. `POST
…/stop`, which only its documentation has, keeps the configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway.access.audit import READ_METHODS
from penstock.gateway.access.guard import Caller, Guard, access_denied, authorize, view_configs
from penstock.gateway.access.users import ROCKETMQ_LEVELS, Level, Principal
from penstock.gateway.clients import Clients, ServiceClients
from penstock.gateway.configs import ConfigView
from penstock.gateway.errors import install_error_handlers
from penstock.gateway.request_input import JsonBody, PathName, PathNumber, parse_json
from penstock.gateway.routes import bodies, connectors, rocketmq
from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, PenstockError
from penstock.model.status import ConnectorStatus

router = APIRouter(tags=["rocketmq"])

_CHANGES: Final = re.compile(
    r"/plugin/reload|/connectors/[^/]+(/stop|/pause|/resume)?|/connectors/(stop|pause|resume)/all"
)


def is_change(method: str, path: str) -> bool:
    """Return whether a request changes something: many a GET does here. A path with a line break at
    its end has the same route.
    """
    path = path.removesuffix("\n")
    listed = path == "/connectors/list"
    return method not in READ_METHODS or (bool(_CHANGES.fullmatch(path)) and not listed)


@router.get("/connectors/list")
async def list_connectors(request: Request, clients: Clients, caller: Caller) -> Response:
    """Return all connectors with their states and configurations."""
    found = caller.filter_visible((await clients.config.list()).connectors)
    statuses = {one.generation: one for one in await clients.scheduler.list_statuses()}
    view = view_configs(request, found)
    return rocketmq.envelop(
        {
            one.name: {
                "status": _state(one, statuses.get(one.generation)),
                "info": _info(one, statuses.get(one.generation), view),
            }
            for one in found
        }
    )


@router.get("/connectors/stop/all")
async def delete_all(request: Request, clients: Clients, caller: Caller) -> Response:
    """Delete all connectors."""
    found = await _all_of(request, clients, caller, Level.EDITOR)
    for one in found:
        keep = request.app.state.rules.keeps_offsets
        await _unless_gone(clients.config.delete(one.name, 0, keep_offsets=keep))
    names = ", ".join(one.name for one in found)
    return rocketmq.envelop(f"[{names}] connectors are deleted" if found else _none("deleted"))


@router.get("/connectors/pause/all")
async def pause_all(request: Request, clients: Clients, caller: Caller) -> Response:
    """Pause all connectors."""
    found = await _set_all(request, clients, caller, TargetState.PAUSED)
    return rocketmq.envelop(f"{found} connectors are suspended" if found else _none("paused"))


@router.get("/connectors/resume/all")
async def resume_all(request: Request, clients: Clients, caller: Caller) -> Response:
    """Resume all connectors."""
    found = await _set_all(request, clients, caller, TargetState.RUNNING)
    return rocketmq.envelop(f"{found} connectors are resumed" if found else _none("resumed"))


@router.get("/connectors/{connector}/config")
async def get_config(request: Request, clients: Clients, connector: PathName) -> Response:
    """Return a connector with its configuration."""
    stored = await clients.config.get(connector)
    status = await connectors.find_status(clients, stored)
    return rocketmq.envelop(_info(stored, status, view_configs(request, [stored])))


@router.get("/connectors/{connector}/status")
async def get_status(clients: Clients, connector: PathName) -> Response:
    """Return the states of a connector and its tasks."""
    stored = await clients.config.get(connector)
    return rocketmq.envelop(_state(stored, await connectors.find_status(clients, stored)))


@router.get("/connectors/{connector}/tasks")
async def get_tasks(request: Request, clients: Clients, connector: PathName) -> Response:
    """Return the tasks of a connector with their configurations."""
    return _enveloped(await connectors.get_tasks(request, clients, connector))


@router.get("/connectors/{connector}/tasks/{task}/status")
async def get_task_status(clients: Clients, connector: PathName, task: PathNumber) -> Response:
    """Return the state of a task."""
    found = json.loads(bytes((await connectors.get_task_status(clients, connector, task)).body))
    return rocketmq.envelop({"id": found["id"], **_run_state(found)})


@router.get("/connectors/{connector}")
async def create_from_query(
    request: Request, clients: Clients, connector: PathName, config: str | None = None
) -> Response:
    """Create a connector, or replace its configuration: the JSON text of the parameter `config`."""
    if not (config or "").strip():
        raise ConfigError(
            "http.parameter",
            "the query parameter `config` is not set",
            fix="Send `?config={…}`, or POST the configuration.",
        )
    return await create(request, clients, connector, parse_json((config or "").encode()))


@router.post("/connectors/{connector}")
async def create(
    request: Request, clients: Clients, connector: PathName, body: JsonBody
) -> Response:
    """Create a connector, or replace its configuration: the body."""
    answer = await connectors.put_config(request, clients, connector, body)
    return rocketmq.envelop(json.loads(bytes(answer.body))["config"])


@router.get("/connectors/{connector}/stop")
async def delete(request: Request, clients: Clients, connector: PathName) -> Response:
    """Delete a connector. Its offsets are kept where the gateway says so."""
    await connectors.delete_connector(request, clients, connector)
    return rocketmq.envelop(f"Connector [{connector}] deleted successfully")


@router.post("/connectors/{connector}/stop")
async def stop(clients: Clients, connector: PathName) -> Response:
    """Stop a connector, and keep its configuration."""
    await clients.config.set_target_state(connector, TargetState.STOPPED)
    return rocketmq.envelop(f"Connector [{connector}] stopped successfully")


@router.get("/connectors/{connector}/pause")
async def pause(clients: Clients, connector: PathName) -> Response:
    """Pause a connector."""
    await clients.config.set_target_state(connector, TargetState.PAUSED)
    return rocketmq.envelop(f"Connector [{connector}] paused successfully")


@router.get("/connectors/{connector}/resume")
async def resume(clients: Clients, connector: PathName) -> Response:
    """Resume a connector."""
    await clients.config.set_target_state(connector, TargetState.RUNNING)
    return rocketmq.envelop(f"Connector [{connector}] resumed successfully")


def _none(done: str) -> str:
    return f"No connector needs to be {done}, please add connector first"


async def _all_of(
    request: Request, clients: ServiceClients, caller: Principal, level: Level
) -> list[Connector]:
    """Return all connectors that the caller sees. The audit log has their names.

    Raises:
        AuthError: `access.denied`: one of them is not the caller's to change.
    """
    found = list(caller.filter_visible((await clients.config.list()).connectors))
    request.state.connector = ", ".join(one.name for one in found)
    for one in found:
        if caller.level(one.name) < level:
            raise access_denied(caller, one.name)
    return found


async def _set_all(
    request: Request, clients: ServiceClients, caller: Principal, state: TargetState
) -> int:
    found = await _all_of(request, clients, caller, Level.OPERATOR)
    for one in found:
        await _unless_gone(clients.config.set_target_state(one.name, state))
    return len(found)


async def _unless_gone(change: Awaitable[Any]) -> None:
    """Make a change, unless its connector was deleted meanwhile."""
    try:
        await change
    except PenstockError as error:
        if error.code != "config.not_found":
            raise


def _enveloped(answer: Response) -> Response:
    return rocketmq.envelop(json.loads(bytes(answer.body)))


def _info(connector: Connector, status: ConnectorStatus | None, view: ConfigView) -> dict[str, Any]:
    found = bodies.ConnectorInfo.of(connector, status, view).to_json()
    return {**found, "type": found["type"].upper()}


def _state(connector: Connector, status: ConnectorStatus | None) -> dict[str, Any]:
    found = bodies.ConnectorState.of(connector, status).to_json()
    return {
        "name": found["name"],
        "connector": _run_state(found["connector"]),
        "tasks": [{"id": task["id"], **_run_state(task)} for task in found["tasks"]],
        "type": found["type"].upper(),
    }


def _run_state(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "state": found["state"],
        "trace": found.get("trace"),
        "workerId": found["worker_id"],
    }


def build_rocketmq_api(
    clients: ServiceClients, guard: Guard, rules: connectors.ConnectorRules | None = None
) -> FastAPI:
    """Return the application of these listeners."""
    app = FastAPI(
        title="Penstock",
        summary="RocketMQ Connect's REST API.",
        version=version("penstock"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        openapi_url=None,
        dependencies=[Depends(authorize)],
    )
    app.state.clients, app.state.guard = clients, guard
    app.state.rules = rules or connectors.ConnectorRules()
    app.state.levels, app.state.is_change = ROCKETMQ_LEVELS, is_change
    install_error_handlers(app)
    for kind, handler in list(app.exception_handlers.items()):
        app.add_exception_handler(kind, _with_its_name(handler))
    app.include_router(rocketmq.information)
    app.include_router(router)
    return app


_OTHER_DOCUMENT: Final = "See /openapi.json for the paths."
_NO_DOCUMENT: Final = "The README of the gateway lists the calls of RocketMQ Connect."

_Handler = Callable[[Request, Exception], Response | Awaitable[Response]]


def _with_its_name(handler: _Handler) -> _Handler:
    """Return a handler of errors whose body has `errorCode`, as RocketMQ Connect calls it."""

    def handle(request: Request, error: Exception) -> Response:
        answer = handler(request, error)
        assert isinstance(answer, JSONResponse)  # noqa: S101 - ours are plain functions
        body = json.loads(bytes(answer.body))
        named = {"errorCode": body.pop("error_code", answer.status_code), **body}
        if named.get("fix") == _OTHER_DOCUMENT:
            named["message"] = named["message"].replace(_OTHER_DOCUMENT, _NO_DOCUMENT)
            named["fix"] = _NO_DOCUMENT
        headers = {k: v for k, v in answer.headers.items() if not k.startswith("content-")}
        return JSONResponse(named, answer.status_code, headers)

    return handle
