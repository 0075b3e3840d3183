"""Who may call what: a table of every method, and nothing beside it (default deny).

A role is what a certificate says: `<role>.penstock` among its DNS names. Services have the role of
their service; people and their tools are `operator`, or `viewer`, who changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

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
