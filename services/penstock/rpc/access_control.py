"""Who may call what, by a table of every method (default deny), and a line for every change."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import grpc
import grpc.aio

from penstock.model.errors import AuthError, PenstockError

CONFIG, OFFSET, SCHEDULER, WORKER, GATEWAY = "config", "offset", "scheduler", "worker", "gateway"
OPERATOR, VIEWER = "operator", "viewer"

ROLES: Final = frozenset({CONFIG, OFFSET, SCHEDULER, WORKER, GATEWAY, OPERATOR, VIEWER})

_SUFFIX: Final = ".penstock"

_CHANGE: Final = frozenset({GATEWAY, OPERATOR})
_LOOK: Final = _CHANGE | {VIEWER}
_CONFIGURED: Final = _CHANGE
"""Who sees configurations as they are stored, with what somebody wrote into them (invariant 9). The
gateway masks them for those who look."""
_SERVICES: Final = frozenset({CONFIG, OFFSET, SCHEDULER, WORKER, GATEWAY})

_METHODS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "penstock.api.config.v1.ConfigService": {
        "CreateConnector": _CHANGE,
        "PutConnector": _CHANGE,
        "PatchConnector": _CHANGE,
        "DeleteConnector": _CHANGE,
        "SetTargetState": _CHANGE,
        "RequestRestart": _CHANGE,
        "RollbackConnector": _CHANGE,
        "ValidateConnector": _CONFIGURED,
        "GetConnector": _CONFIGURED | _SERVICES,
        "ListConnectors": _CONFIGURED | _SERVICES,
        "WatchConnectors": _CONFIGURED | _SERVICES,
        "ListRevisions": _LOOK,
        "GetRevision": _CONFIGURED | {SCHEDULER},
        "DiffRevisions": _LOOK,
        "UploadTaskPlans": frozenset({SCHEDULER}),
        "StreamTaskPlans": _CONFIGURED | {SCHEDULER, WORKER},
        "NoteTopics": frozenset({WORKER}),
        "ListTopics": _LOOK,
        "ResetTopics": _CHANGE,
        "SetLogLevel": _CHANGE,
        "ListLogLevels": _LOOK | _SERVICES,
        "WatchLogLevels": _LOOK | _SERVICES,
    },
    "penstock.api.offset.v1.OffsetService": {
        "ClaimTask": frozenset({WORKER}),
        "CommitOffsets": frozenset({WORKER}),
        "GetOffsets": _LOOK | {WORKER},
        "ListOffsets": _LOOK | {WORKER},
        "GetOffsetHistory": _LOOK,
        "CheckAlterable": _CHANGE,
        "AlterOffsets": _CHANGE,
        "ResetOffsets": _CHANGE,
        "RewindOffsets": _CHANGE,
    },
    "penstock.api.scheduler.v1.SchedulerService": {
        "Session": frozenset({WORKER}),
        "GetCluster": _LOOK,
        "ListStatus": _LOOK,
        "WatchStatus": _LOOK,
        "ListHeldTasks": _LOOK | {OFFSET},
        "DrainWorker": _CHANGE,
    },
    "penstock.api.worker.v1.WorkerService": {
        "ListPlugins": _LOOK,
        "ReloadPlugins": _CHANGE,
        "DescribeConnector": _LOOK,
        "ValidateConnector": _CONFIGURED | {CONFIG},
        "CheckConnection": _CHANGE,  # it reaches out with the credentials of a configuration
        "RehearseRows": _CHANGE,  # it runs what a configuration says
        "AlterOffsets": _CHANGE,
        "ApplyConnector": _CHANGE | {CONFIG, SCHEDULER},  # resets come from those who may change
        "PlanConnector": frozenset({SCHEDULER}),
        "ListTasks": _LOOK,
        "WatchTasks": _LOOK,
        "InspectRows": _CHANGE,  # rows are data, which who looks at states need not see
        "WatchLogs": _CHANGE,  # lines may tell of any connector
        "ReadLetters": _CHANGE,  # as above
        "SetLogLevel": _CHANGE,
        "ListLogLevels": _LOOK,
    },
    "penstock.api.process.v1.ProcessService": {
        "ListNumbers": _LOOK,
    },
}

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    f"/{service}/{method}": roles
    for service, methods in _METHODS.items()
    for method, roles in methods.items()
}
"""The roles that may call a method, by its full name."""


def may_call(method: str, roles: Iterable[str]) -> bool:
    """Tell whether somebody of these roles may call a method. Health and reflection are everybody's
    who has a role at all: they name methods, and no connector.
    """
    held = ROLES.intersection(roles)
    if method.startswith("/grpc."):
        return bool(held)
    return not held.isdisjoint(ALLOWED.get(method, frozenset()))


def roles_of(names: Iterable[bytes | str]) -> list[str]:
    """Return the roles that the names of a certificate say."""
    texts = (name.decode(errors="replace") if isinstance(name, bytes) else name for name in names)
    return [text.removesuffix(_SUFFIX) for text in texts if text.endswith(_SUFFIX)]


def name_of(role: str) -> str:
    """Return the name that a certificate of a role has."""
    return f"{role}{_SUFFIX}"


log = logging.getLogger("penstock.audit")

NAMES: Final = "x509_subject_alternative_name"
_COMMON_NAME: Final = "x509_common_name"

READING: Final = (
    *("Get", "List", "Watch", "Stream", "Diff", "Describe", "Validate", "Inspect", "Read"),
    *("Check", "Rehearse"),
)
"""How methods begin that change nothing. One that begins otherwise is told."""

_PEOPLE: Final = frozenset({OPERATOR, VIEWER})
_AUDITED: Final = ROLES - _PEOPLE


@contextmanager
def audited(context: Any, method: str, request: Any) -> Iterator[None]:
    """Tell of a call when it has ended, if it is a person's and may have changed something."""
    shown = context.auth_context()
    told = by_a_person(roles_of(shown.get(NAMES, ()))) and not reads(method)
    status = "OK"
    try:
        yield
    except PenstockError as error:
        status = error.code
        raise
    except BaseException as error:
        status = type(error).__name__
        raise
    finally:
        if told:
            line = {
                "who": _text(shown.get(_COMMON_NAME, ())) or _text(shown.get(NAMES, ())),
                "from": context.peer(),
                "method": method.lstrip("/"),
                "connector": connector_of(request),
                "status": status,
            }
            # JSON: a name can neither end the line nor forge another one
            log.info("%s", json.dumps(line))


def by_a_person(roles: Iterable[str]) -> bool:
    """Tell whether a certificate is a person's, or a tool's, and no service's."""
    return not _PEOPLE.isdisjoint(roles) and _AUDITED.isdisjoint(roles)


def reads(method: str) -> bool:
    """Tell whether a method changes nothing, by its name."""
    return method.startswith("/grpc.") or method.rpartition("/")[2].startswith(READING)


def connector_of(request: Any) -> str | None:
    """Return the connector that a request names: one that is asked for alone, whole, or by name."""
    named = getattr(request, "connector", None)
    named = named or getattr(request, "name", None)
    return str(getattr(named, "name", named)) if named else None


def _text(values: Iterable[bytes]) -> str | None:
    return next((value.decode(errors="replace") for value in values), None)


class Admission(grpc.aio.ServerInterceptor):
    """Lets a call through when a role of the caller's certificate may make it."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the method that answers a call."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None:
            return None
        if handler.response_streaming:
            return _streaming(handler, method)
        return _single(handler, method)


def _single(handler: Any, method: str) -> Any:
    inner = handler.stream_unary if handler.request_streaming else handler.unary_unary

    async def call(request: Any, context: Any) -> Any:
        with audited(context, method, request):
            _admit(context, method)
            return await inner(request, context)

    make = (
        grpc.stream_unary_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return make(call, handler.request_deserializer, handler.response_serializer)


def _streaming(handler: Any, method: str) -> Any:
    inner = handler.stream_stream if handler.request_streaming else handler.unary_stream

    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        with audited(context, method, request):
            _admit(context, method)
            async for answer in inner(request, context):
                yield answer

    make = (
        grpc.stream_stream_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_stream_rpc_method_handler
    )
    return make(call, handler.request_deserializer, handler.response_serializer)


def _admit(context: Any, method: str) -> None:
    roles = roles_of(context.auth_context().get(NAMES, ()))
    if may_call(method, roles):
        return
    name = method.rpartition("/")[2]
    raise AuthError(
        "rpc.denied",
        f"{', '.join(roles) or 'a caller without a role'} may not call {name}",
        fix=f"Use a certificate of one of: {', '.join(sorted(ALLOWED.get(method, ())))}.",
    )
