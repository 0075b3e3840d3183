"""penstock.api.config.v1 ↔ connectors, their history, and log levels."""

from __future__ import annotations

from typing import Final

from penstock.api.config.v1 import config_service_pb2 as pb
from penstock.model.admin import ValidatedConnector
from penstock.model.config_redaction import ConfigDifference
from penstock.model.connector import (
    Connector,
    ConnectorList,
    ConnectorsChanged,
    FoundConnector,
    KeptOffsets,
    RestartRequest,
    Revision,
    TargetState,
)
from penstock.model.logs import LogLevel
from penstock.wire.codec import Codec, Converter, enum_reader
from penstock.wire.error import DIAGNOSTIC

_read_state = enum_reader(TargetState)


def state_from_proto(number: int) -> TargetState:
    """Return a target state. Unset, and a state of a newer version, mean RUNNING."""
    return _read_state(number) or TargetState.RUNNING


RESTART: Final = Codec(RestartRequest, pb.Restart)

CONNECTOR: Final = Codec(
    Connector,
    pb.Connector,
    parts=[RESTART],
    converters={"target_state": Converter(from_proto=state_from_proto)},
)

CONNECTOR_LIST: Final = Codec(
    ConnectorList,
    pb.ListConnectorsResponse,
    parts=[CONNECTOR],
    only_in_message=["next_page_token"],
)

FOUND_CONNECTOR: Final = Codec(FoundConnector, pb.GetConnectorResponse, parts=[CONNECTOR])

KEPT_OFFSETS: Final = Codec(KeptOffsets, pb.KeptOffsets)

CONNECTORS_CHANGED: Final = Codec(ConnectorsChanged, pb.WatchConnectorsResponse)

VALIDATED: Final = Codec(
    ValidatedConnector,
    pb.ValidateConnectorResponse,
    parts=[DIAGNOSTIC],
    only_in_value=["values", "added_keys"],  # only a worker knows them
)

REVISION: Final = Codec(Revision, pb.Revision, names={"restored": "restored_version"})

DIFFERENCE: Final = Codec(ConfigDifference, pb.Difference)

LOG_LEVEL: Final = Codec(LogLevel, pb.LogLevel)
