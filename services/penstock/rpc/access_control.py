"""Access control: the roles that may call each method (default deny), and the audit log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from penstock.model.errors import AuthError, PenstockError

log = logging.getLogger("penstock.audit")

CONFIG, OFFSET, SCHEDULER, WORKER, GATEWAY = "config", "offset", "scheduler", "worker", "gateway"
OPERATOR, VIEWER = "operator", "viewer"

ROLES: Final = frozenset({CONFIG, OFFSET, SCHEDULER, WORKER, GATEWAY, OPERATOR, VIEWER})

_SUFFIX: Final = ".penstock"

_WRITE: Final = frozenset({GATEWAY, OPERATOR})
_READ: Final = _WRITE | {VIEWER}
_READ_CONFIG: Final = _WRITE
"""Roles that see configurations as they are stored, which may contain secrets (invariant 9). The
gateway redacts them for viewers."""
_SERVICES: Final = frozenset({CONFIG, OFFSET, SCHEDULER, WORKER, GATEWAY})

_METHODS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "penstock.api.config.v1.ConfigService": {
        "CreateConnector": _WRITE,
        "PutConnector": _WRITE,
        "PatchConnector": _WRITE,
        "DeleteConnector": _WRITE,
        "ListKeptOffsets": _READ,
        "PurgeKeptOffsets": _WRITE,
        "SetTargetState": _WRITE,
        "RequestRestart": _WRITE,
        "RollbackConnector": _WRITE,
        "ValidateConnector": _READ_CONFIG,
        "GetConnector": _READ_CONFIG | _SERVICES,
        "ListConnectors": _READ_CONFIG | _SERVICES,
        "WatchConnectors": _READ_CONFIG | _SERVICES,
        "ListRevisions": _READ,
        "GetRevision": _READ_CONFIG | {SCHEDULER},
        "DiffRevisions": _READ,
        "TrackTopics": frozenset({WORKER}),
        "ListTopics": _READ,
        "ResetTopics": _WRITE,
        "SetLogLevel": _WRITE,
        "ListLogLevels": _READ | _SERVICES,
        "WatchLogLevels": _READ | _SERVICES,
    },
    "penstock.api.offset.v1.OffsetService": {
        "ClaimTask": frozenset({WORKER}),
        "CommitOffsets": frozenset({WORKER}),
        "GetOffsets": _READ | {WORKER},
        "ListOffsets": _READ | {WORKER},
        "GetOffsetHistory": _READ,
        "CheckAlterable": _WRITE,
        "AlterOffsets": _WRITE,
        "ResetOffsets": _WRITE,
        "RewindOffsets": _WRITE,
    },
    "penstock.api.scheduler.v1.SchedulerService": {
        "Session": frozenset({WORKER}),
        "GetCluster": _READ,
        "ListStatus": _READ,
        "ListEvents": _READ,
        "ListLogLines": _WRITE,  # lines may concern any connector
        "ListHeldTasks": _READ | {OFFSET},
        "ListTaskPlans": _READ_CONFIG | {WORKER},
        "DrainWorker": _WRITE,
    },
    "penstock.api.worker.v1.WorkerService": {
        "ListPlugins": _READ,
        "ReloadPlugins": _WRITE,
        "DescribeConnector": _READ,
        "ValidateConnector": _READ_CONFIG | {CONFIG},
        "CheckConnection": _WRITE,  # it connects with the credentials of a configuration
        "ListDatasets": _WRITE,  # as above
        "SignalConnector": _WRITE,
        "PreviewRows": _WRITE,  # it runs the transforms of a configuration
        "AlterOffsets": _WRITE,
        "ApplyConnector": _WRITE | {CONFIG, SCHEDULER},  # a reset calls it for a user who may write
        "PlanConnector": frozenset({SCHEDULER}),
        "WatchTasks": _READ,
        "InspectRows": _WRITE,  # rows are data, which a viewer of states does not need
        "WatchLogs": _WRITE | {SCHEDULER},  # lines may concern any connector
        "ReadDeadLetters": _WRITE,  # as above
        "SetLogLevel": _WRITE,
        "ListLogLevels": _READ,
    },
    "penstock.api.process.v1.ProcessService": {
        "ListMetrics": _READ,
    },
}

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    f"/{service}/{method}": roles
    for service, methods in _METHODS.items()
    for method, roles in methods.items()
}
"""The roles that may call a method, by its full name."""


def may_call(method: str, roles: Iterable[str]) -> bool:
    """Return whether a caller with these roles may call a method.

    Every role may call health and reflection, which name methods but not connectors.
    """
    known = ROLES.intersection(roles)
    if method.startswith("/grpc."):
        return bool(known)
    return not known.isdisjoint(ALLOWED.get(method, frozenset()))


def roles_from_names(names: Iterable[bytes | str]) -> list[str]:
    """Return the roles in the names of a certificate."""
    texts = (name.decode(errors="replace") if isinstance(name, bytes) else name for name in names)
    return [text.removesuffix(_SUFFIX) for text in texts if text.endswith(_SUFFIX)]


def certificate_name(role: str) -> str:
    """Return the name in the certificate of a role."""
    return f"{role}{_SUFFIX}"


SUBJECT_NAMES: Final = "x509_subject_alternative_name"
_COMMON_NAME: Final = "x509_common_name"

READ_ONLY_PREFIXES: Final = (
    *("Get", "List", "Watch", "Stream", "Diff", "Describe", "Validate", "Inspect", "Read"),
    *("Check", "Preview"),
)
"""Prefixes of methods that change nothing. Calls of all other methods are audited."""

_USER_ROLES: Final = frozenset({OPERATOR, VIEWER})
_SERVICE_ROLES: Final = ROLES - _USER_ROLES


@contextmanager
def audit_call(context: Any, method: str, request: Any) -> Iterator[None]:
    """Log a call after its end if a user made it and it may have changed something."""
    auth_context = context.auth_context()
    is_audited = is_user(
        roles_from_names(auth_context.get(SUBJECT_NAMES, ()))
    ) and not is_read_only(method)
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
        if is_audited:
            line = {
                "who": _text(auth_context.get(_COMMON_NAME, ()))
                or _text(auth_context.get(SUBJECT_NAMES, ())),
                "from": context.peer(),
                "method": method.lstrip("/"),
                "connector": connector_name(request),
                "status": status,
            }
            # JSON: a name cannot end the line or forge another one
            log.info("%s", json.dumps(line))


def is_user(roles: Iterable[str]) -> bool:
    """Return whether a certificate belongs to a user or a tool, not to a service."""
    return not _USER_ROLES.isdisjoint(roles) and _SERVICE_ROLES.isdisjoint(roles)


def is_read_only(method: str) -> bool:
    """Return whether the name of a method promises that it changes nothing."""
    return method.startswith("/grpc.") or method.rpartition("/")[2].startswith(READ_ONLY_PREFIXES)


def connector_name(request: Any) -> str | None:
    """Return the connector of a request, which has it as a message, or its name."""
    named = getattr(request, "connector", None)
    named = named or getattr(request, "name", None)
    return str(getattr(named, "name", named)) if named else None


def _text(values: Iterable[bytes]) -> str | None:
    return next((value.decode(errors="replace") for value in values), None)


def check_access(context: Any, method: str) -> None:
    """Refuse a call that no role of the caller's certificate may make.

    Raises:
        AuthError: `rpc.denied`.
    """
    roles = roles_from_names(context.auth_context().get(SUBJECT_NAMES, ()))
    if may_call(method, roles):
        return
    name = method.rpartition("/")[2]
    raise AuthError(
        "rpc.denied",
        f"{', '.join(roles) or 'a caller without a role'} may not call {name}",
        fix=f"Use a certificate of one of: {', '.join(sorted(ALLOWED.get(method, ())))}.",
    )
