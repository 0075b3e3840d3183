"""penstock.api.config.v1 ↔ connectors."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.model.connector import Connector, ConnectorKind, TargetState

_KINDS = frozenset(map(int, ConnectorKind))
_STATES = frozenset(map(int, TargetState))


def connector_to_proto(connector: Connector, updated_at: float = 0.0) -> pb.Connector:
    """Return the message for a connector; `updated_at` is seconds since the epoch, 0 for unset."""
    message = pb.Connector(
        name=connector.name,
        kind=int(connector.kind),  # type: ignore[arg-type] # enums share numbers
        config=connector.config,
        target_state=int(connector.target_state),  # type: ignore[arg-type] # enums share numbers
        generation=connector.generation,
        revision=connector.revision,
    )
    if updated_at:
        message.updated_at.FromDatetime(datetime.fromtimestamp(updated_at, UTC))
    return message


def connector_from_proto(message: pb.Connector) -> Connector:
    """Return the connector of a message. A kind of a newer version reads as unset."""
    known = int(message.kind) in _KINDS
    return Connector(
        name=message.name,
        config=dict(message.config),
        kind=ConnectorKind(message.kind) if known else ConnectorKind.UNSPECIFIED,
        target_state=state_from_proto(message.target_state),
        generation=message.generation,
        revision=message.revision,
    )


def state_from_proto(number: int) -> TargetState:
    """Return a target state. Unset, and a state of a newer version, mean RUNNING."""
    known = number in _STATES
    return (TargetState(number) if known else None) or TargetState.RUNNING
