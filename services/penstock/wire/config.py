"""penstock.api.config.v1 ↔ connectors, their history, and log levels."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.model.connector import (
    ConfigDifference,
    Connector,
    ConnectorKind,
    RestartRequest,
    Revision,
    RevisionCause,
    TargetState,
)
from penstock.model.logs import LogLevel

_STATES = frozenset(map(int, TargetState))
_E = TypeVar("_E", bound=IntEnum)


def connector_to_proto(connector: Connector) -> pb.Connector:
    """Return the message for a connector."""
    return pb.Connector(
        name=connector.name,
        kind=int(connector.kind),  # type: ignore[arg-type] # enums share numbers
        config=connector.config,
        target_state=int(connector.target_state),  # type: ignore[arg-type] # enums share numbers
        generation=connector.generation,
        revision=connector.revision,
        version=connector.version,
        restarts=map(restart_to_proto, connector.restarts),
        secret_keys=connector.secret_keys,
    )


def connector_from_proto(message: pb.Connector) -> Connector:
    """Return the connector of a message. A kind of a newer version reads as unset."""
    return Connector(
        name=message.name,
        config=dict(message.config),
        kind=_enum_or_unset(ConnectorKind, message.kind),
        target_state=state_from_proto(message.target_state),
        generation=message.generation,
        revision=message.revision,
        version=message.version,
        restarts=tuple(map(restart_from_proto, message.restarts)),
        secret_keys=tuple(message.secret_keys),
    )


def state_from_proto(number: int) -> TargetState:
    """Return a target state. Unset, and a state of a newer version, mean RUNNING."""
    known = number in _STATES
    return (TargetState(number) if known else None) or TargetState.RUNNING


def restart_to_proto(restart: RestartRequest) -> pb.Restart:
    """Return the message for a restart request."""
    return pb.Restart(
        marker=restart.marker,
        include_tasks=restart.include_tasks,
        only_failed=restart.only_failed,
        task_id=restart.task_id,
        requested_at=_timestamp(restart.requested_at),
    )


def restart_from_proto(message: pb.Restart) -> RestartRequest:
    """Return the restart request of a message."""
    return RestartRequest(
        message.marker,
        message.include_tasks,
        message.only_failed,
        message.task_id,
        _seconds(message.requested_at),
    )


def revision_to_proto(revision: Revision) -> pb.Revision:
    """Return the message for a revision of a configuration."""
    return pb.Revision(
        version=revision.version,
        revision=revision.revision,
        written_at=_timestamp(revision.written_at),
        cause=int(revision.cause),  # type: ignore[arg-type] # enums share numbers
        restored_version=revision.restored,
        kind=int(revision.kind),  # type: ignore[arg-type] # enums share numbers
        config=revision.config,
    )


def revision_from_proto(message: pb.Revision) -> Revision:
    """Return the revision of a message."""
    return Revision(
        message.version,
        message.revision,
        _seconds(message.written_at),
        _enum_or_unset(RevisionCause, message.cause),
        message.restored_version,
        _enum_or_unset(ConnectorKind, message.kind),
        dict(message.config),
    )


def difference_to_proto(difference: ConfigDifference) -> pb.Difference:
    """Return the message for a difference."""
    return pb.Difference(
        key=difference.key,
        before=difference.before,
        after=difference.after,
        redacted=difference.redacted,
    )


def difference_from_proto(message: pb.Difference) -> ConfigDifference:
    """Return the difference of a message."""
    return ConfigDifference(
        message.key,
        message.before if message.HasField("before") else None,
        message.after if message.HasField("after") else None,
        message.redacted,
    )


def log_level_to_proto(level: LogLevel) -> pb.LogLevel:
    """Return the message for a log level."""
    return pb.LogLevel(
        service=level.service,
        logger=level.logger,
        level=level.level,
        modified_at=_timestamp(level.modified_at),
    )


def log_level_from_proto(message: pb.LogLevel) -> LogLevel:
    """Return the log level of a message."""
    return LogLevel(message.service, message.logger, message.level, _seconds(message.modified_at))


def _enum_or_unset(kind: type[_E], number: int) -> _E:
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def _timestamp(seconds: float) -> Timestamp | None:
    if not seconds:
        return None
    whole, part = divmod(
        round(seconds * 1e6), 1_000_000
    )  # microseconds: the precision of the clock
    return Timestamp(seconds=whole, nanos=part * 1000)


def _seconds(message: Timestamp) -> float:
    return message.ToNanoseconds() / 1e9
