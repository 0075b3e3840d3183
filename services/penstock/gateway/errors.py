"""Errors as HTTP statuses and bodies: Kafka Connect's `{error_code, message}`, and more fields.

The HTTP status follows from the gRPC status of an error, which follows from its class and code. As
in Kafka Connect: 409 while no scheduler leads and for another revision, 500 for a timeout (the
message names the stage), 400 for offsets of a connector that is not STOPPED.
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
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from penstock.gateway.access.users import Level, Principal
from penstock.gateway.bodies import Failure, Finding
from penstock.model.errors import ConfigError, Diagnostic, PenstockError, error_from_diagnostic
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
_STATUS_BY_CODE: Final[Mapping[str, int]] = {
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
    "config.nothing_kept": 404,
    "config.log_logger": 404,
    "config.revision_not_found": 404,
    "config.log_level": 404,
    "plugin.deadline": 500,
    "plugin.handshake_timeout": 500,
    "plugin.not_installed": 404,
    "plugin.no_such_version": 404,
}
"""Codes whose HTTP status does not follow from their class. For example, Kafka Connect returns 404
for an unknown level or plugin."""

_CODES_WITH_NAMES: Final = frozenset(
    {"config.not_found", "config.nothing_kept", "scheduler.not_found"}
)
"""Codes of errors whose fix suggests names of other connectors."""

_TIMEOUT_CODES: Final = frozenset(
    {"deadline.exceeded", "plugin.deadline", "plugin.handshake_timeout"}
)


class InvalidConfigError(ConfigError):
    """All errors in a configuration. The message has the words of Kafka Connect."""

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


def http_status(diagnostic: Diagnostic) -> int:
    """Return the HTTP status of an error; 503 for an error that may soon be over."""
    return _STATUS_BY_CODE.get(diagnostic.code) or _STATUS.get(status_code(diagnostic), 503)


def error_body(diagnostic: Diagnostic, status: int) -> Failure:
    """Return the response body of an error."""
    fields = finding_fields(diagnostic)
    return Failure(error_code=status, message=error_message(diagnostic), **fields)


def error_message(diagnostic: Diagnostic) -> str:
    """Return the message of an error with its fix, in the words of Kafka Connect."""
    prefix = "Request timed out: " if diagnostic.code in _TIMEOUT_CODES else ""
    return f"{prefix}{diagnostic.message.rstrip('.')}. {diagnostic.fix}".strip()


def finding_fields(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return the fields of a finding besides its message: its code, and what else has a value."""
    fields = {
        "config_path": diagnostic.config_path,
        "fix": diagnostic.fix,
        "suggestion": diagnostic.suggestion,
        "detail": diagnostic.detail,
    }
    return {"code": diagnostic.code} | {key: value for key, value in fields.items() if value}


def refusal_response(status: int, code: str, message: str, fix: str = "") -> JSONResponse:
    """Return the response to a request that the gateway itself refuses."""
    return error_body(Diagnostic(code, message, fix=fix), status).respond(status=status)


def error_response(error: PenstockError) -> JSONResponse:
    """Return the response to a request that failed."""
    status, headers = http_status(error.diagnostic), {}
    if status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
        headers["Retry-After"] = str(max(1, round(error.diagnostic.retry_after_s)))
    if error.code == "config.revision_changed":
        headers["ETag"] = f'"{error.diagnostic.suggestion}"'
    body = error_body(error.diagnostic, status)
    if isinstance(error, InvalidConfigError):
        body.errors = [
            Finding(message=one.message, **finding_fields(one)) for one in error.findings
        ]
    return body.respond(headers, status=status)


def install_error_handlers(app: FastAPI) -> None:
    """Have an application answer all errors with these bodies."""
    app.add_exception_handler(PenstockError, _handle_penstock_error)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_exception_handler(RequestValidationError, _handle_parameter_error)
    app.add_exception_handler(Exception, _handle_unexpected_error)


def _handle_penstock_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PenstockError)  # noqa: S101 - it is registered for this type only
    answer = error_response(_hide_names(request, error))
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = request.app.state.guard.schemes()
    return answer


def _hide_names(request: Request, error: PenstockError) -> PenstockError:
    """Remove suggested names of connectors unless the caller may see all connectors."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if error.code not in _CODES_WITH_NAMES or (
        principal is not None and principal.level() >= Level.VIEWER
    ):
        return error
    hidden = replace(error.diagnostic, fix="List the connectors that you may see.", suggestion="")
    return error_from_diagnostic(hidden)


def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    word = HTTPStatus(error.status_code).phrase
    message = {404: f"no route has the path {request.url.path[:200]}"}.get(error.status_code, word)
    code = f"http.{word.lower().replace(' ', '_')}"
    fix = {404: "See /openapi.json for the paths.", 405: "The header Allow lists the methods."}
    answer = refusal_response(error.status_code, code, message, fix.get(error.status_code, ""))
    answer.headers.update(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = {"Allow": ", ".join(_allowed_methods(request))}
        if request.method == "OPTIONS":
            return Response(headers=allowed)
        answer.headers.update(allowed)
    return answer


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of a path."""
    found = {*_routed_methods(request), "OPTIONS"}
    if "GET" in found and not request.app.state.is_change("GET", request.scope["path"]):
        found.add("HEAD")
    return sorted(found)


def _routed_methods(request: Request) -> list[str]:
    """Return the methods of the routes of a path, of which there may be several.

    A route with exactly this path has precedence over routes with a parameter there.
    """
    named = request.app.openapi()["paths"].get(request.scope["path"])
    if named is not None:
        return [method.upper() for method in named]
    routes = request.app.router.routes
    return [
        method
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        if any(one.matches({**request.scope, "method": method})[0] is Match.FULL for one in routes)
    ]


def _handle_parameter_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    where, name = first["loc"][0], first["loc"][-1]
    # an invalid number in a path is an unknown path, as in Kafka Connect
    status = 404 if where == "path" else 400
    what = f"{where} parameter `{name}`: {first['msg']}"
    return refusal_response(
        status, "http.parameter", what, "See /openapi.json for the valid values."
    )


def _handle_unexpected_error(request: Request, error: Exception) -> JSONResponse:
    # its text may contain a secret, so it is only logged (invariant 9)
    number = secrets.token_hex(4)
    what = f"{request.method} {request.url.path[:200]}"
    log.error("unexpected error %s in %s", number, what, exc_info=error)
    return refusal_response(
        500,
        "internal.unexpected",
        f"{what} failed unexpectedly ({type(error).__name__}, number {number})",
        f"Find {number} in the log of the gateway, and report the error.",
    )
