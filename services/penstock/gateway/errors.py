"""Errors as statuses and bodies: Kafka Connect's `{error_code, message}`, and what ours know more.

The status follows from the gRPC status of an error, which follows from its class and code. Kafka
Connect's own: 409 while nobody leads or a revision is another one, 500 for a time-out whose message
names the stage, 400 for offsets of what is not stopped.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import grpc
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from penstock.gateway.access.users import Level, Person
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, error_of
from penstock.rpc.status import status_code

log = logging.getLogger(__name__)


_STATUS: Final[Mapping[grpc.StatusCode, int]] = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.DEADLINE_EXCEEDED: 500,
    grpc.StatusCode.INTERNAL: 500,
}
_BY_CODE: Final[Mapping[str, int]] = {
    "scheduler.not_leader": 409,
    "scheduler.starting": 409,
    "config.contended": 409,
    "letters.replay_runs": 409,
    "offset.contended": 409,
    "config.too_large": 413,
    "http.too_large": 413,
    "access.denied": 403,
    "access.other_site": 403,
    "access.other_name": 403,
    "topics.not_told": 403,
    "topics.no_reset": 403,
    "http.content_type": 415,
    "http.slow": 408,
    "http.other_listener": 404,
    "config.too_many_restarts": 429,
    "http.too_many": 429,
    "config.log_logger": 404,
    "config.revision_not_found": 404,
    "config.log_level": 404,
    "plugin.deadline": 500,
    "plugin.handshake_timeout": 500,
    "plugin.not_installed": 404,
    "plugin.no_such_version": 404,
}
"""Codes whose class says less: Kafka Connect answers 404 for a level or a plugin that is not."""

_NEAR: Final = frozenset({"config.not_found", "scheduler.not_found"})
"""Codes of errors that tell names which are like the one that was asked for."""

_TIMED_OUT: Final = frozenset({"deadline.exceeded", "plugin.deadline", "plugin.handshake_timeout"})


class InvalidConfigError(ConfigError):
    """All that is wrong with a configuration, in the words of Kafka Connect."""

    def __init__(self, findings: Sequence[Diagnostic]) -> None:
        """`findings` are errors, at least one."""
        lines = "\n".join(str(finding) for finding in findings)
        super().__init__(
            "config.invalid",
            "Connector configuration is invalid and contains the following "
            f"{len(findings)} error(s):\n{lines}\nYou can also find the above list of errors at "
            "the endpoint `/connector-plugins/{connectorType}/config/validate`",
            config_path=findings[0].config_path,
            suggestion=findings[0].suggestion,
        )
        self.findings = tuple(findings)


def status_of(diagnostic: Diagnostic) -> int:
    """Return the HTTP status of an error: 503 for what may be better soon."""
    return _BY_CODE.get(diagnostic.code) or _STATUS.get(status_code(diagnostic), 503)


def body_of(diagnostic: Diagnostic, status: int) -> dict[str, Any]:
    """Return the body of an error."""
    begin = "Request timed out: " if diagnostic.code in _TIMED_OUT else ""
    said = f"{begin}{diagnostic.message.rstrip('.')}. {diagnostic.fix}".strip()
    body = {"error_code": status, "message": said}
    return body | _fields(diagnostic)


def refused(status: int, code: str, message: str, fix: str = "") -> JSONResponse:
    """Return the answer to a request that no service is asked about."""
    return JSONResponse(body_of(Diagnostic(code, message, fix=fix), status), status)


def answer_of(error: PenstockError) -> JSONResponse:
    """Return the answer to a request that failed."""
    status, headers = status_of(error.diagnostic), {}
    if status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
        headers["Retry-After"] = str(max(1, round(error.diagnostic.retry_after)))
    if error.code == "config.revision_changed":
        headers["ETag"] = f'"{error.diagnostic.suggestion}"'
    body = body_of(error.diagnostic, status)
    if isinstance(error, InvalidConfigError):
        body["errors"] = [{"message": d.message, **_fields(d)} for d in error.findings]
    return JSONResponse(body, status, headers)


def answer_failures(app: FastAPI) -> None:
    """Have an application answer every error so."""
    app.add_exception_handler(PenstockError, _ours)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _parameters)
    app.add_exception_handler(Exception, _unexpected)


def _fields(diagnostic: Diagnostic) -> dict[str, str]:
    """Return what else is known, but for what is empty."""
    fields = {
        "code": diagnostic.code,
        "config_path": diagnostic.config_path,
        "fix": diagnostic.fix,
        "suggestion": diagnostic.suggestion,
        "detail": diagnostic.detail,
    }
    return {key: value for key, value in fields.items() if value}


def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PenstockError)  # noqa: S101 - it is registered for these alone
    answer = answer_of(_without_names(request, error))
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = request.app.state.guard.schemes()
    return answer


def _without_names(request: Request, error: PenstockError) -> PenstockError:
    """Return an error without the names of connectors that whoever asked may not see."""
    person: Person | None = getattr(request.state, "person", None)
    if error.code not in _NEAR or (person is not None and person.level() >= Level.VIEWER):
        return error
    told = replace(error.diagnostic, fix="List the connectors that you may see.", suggestion="")
    return error_of(told)


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    word = HTTPStatus(error.status_code).phrase
    said = {404: f"there is nothing at {request.url.path[:200]}"}.get(error.status_code, word)
    code = f"http.{word.lower().replace(' ', '_')}"
    fix = {404: "See /openapi.json for the paths.", 405: "See Allow for the methods."}
    answer = refused(error.status_code, code, said, fix.get(error.status_code, ""))
    answer.headers.update(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(_methods(request))
    return answer


def _methods(request: Request) -> list[str]:
    """Return the methods that there are for a path: several routes may share it. One that names the
    path counts more than those that have a connector's name there.
    """
    named = request.app.openapi()["paths"].get(request.scope["path"])
    if named is not None:
        return sorted(method.upper() for method in named)
    routes = request.app.router.routes
    return [
        method
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        if any(one.matches({**request.scope, "method": method})[0] is Match.FULL for one in routes)
    ]


def _parameters(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    where, name = first["loc"][0], first["loc"][-1]
    # a path whose number is none is the path of nothing, as Kafka Connect has it
    status = 404 if where == "path" else 400
    what = f"{where} parameter `{name}`: {first['msg']}"
    return refused(status, "http.parameter", what, "See /openapi.json for what it may be.")


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    # its text may hold anything, a secret too: it goes to the log alone (invariant 9)
    number = secrets.token_hex(4)
    what = f"{request.method} {request.url.path[:200]}"
    log.error("unexpected error %s in %s", number, what, exc_info=error)
    return refused(
        500,
        "internal.unexpected",
        f"{what} failed unexpectedly ({type(error).__name__}, number {number})",
        f"Look for {number} in the log of the gateway, and report it.",
    )
