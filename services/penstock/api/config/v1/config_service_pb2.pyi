import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from penstock.api.connector.v1 import connector_service_pb2 as _connector_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConnectorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONNECTOR_KIND_UNSPECIFIED: _ClassVar[ConnectorKind]
    CONNECTOR_KIND_SOURCE: _ClassVar[ConnectorKind]
    CONNECTOR_KIND_SINK: _ClassVar[ConnectorKind]
    CONNECTOR_KIND_PIPELINE: _ClassVar[ConnectorKind]
    CONNECTOR_KIND_MIRROR: _ClassVar[ConnectorKind]

class TargetState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TARGET_STATE_UNSPECIFIED: _ClassVar[TargetState]
    TARGET_STATE_RUNNING: _ClassVar[TargetState]
    TARGET_STATE_PAUSED: _ClassVar[TargetState]
    TARGET_STATE_STOPPED: _ClassVar[TargetState]
CONNECTOR_KIND_UNSPECIFIED: ConnectorKind
CONNECTOR_KIND_SOURCE: ConnectorKind
CONNECTOR_KIND_SINK: ConnectorKind
CONNECTOR_KIND_PIPELINE: ConnectorKind
CONNECTOR_KIND_MIRROR: ConnectorKind
TARGET_STATE_UNSPECIFIED: TargetState
TARGET_STATE_RUNNING: TargetState
TARGET_STATE_PAUSED: TargetState
TARGET_STATE_STOPPED: TargetState

class Connector(_message.Message):
    __slots__ = ("name", "kind", "config", "target_state", "generation", "revision", "updated_at")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    TARGET_STATE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: ConnectorKind
    config: _containers.ScalarMap[str, str]
    target_state: TargetState
    generation: str
    revision: int
    updated_at: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[ConnectorKind, str]] = ..., config: _Optional[_Mapping[str, str]] = ..., target_state: _Optional[_Union[TargetState, str]] = ..., generation: _Optional[str] = ..., revision: _Optional[int] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateConnectorRequest(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ...) -> None: ...

class CreateConnectorResponse(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ...) -> None: ...

class PutConnectorRequest(_message.Message):
    __slots__ = ("connector", "expected_revision")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    expected_revision: int
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class PutConnectorResponse(_message.Message):
    __slots__ = ("connector", "changed")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    changed: bool
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ..., changed: bool = ...) -> None: ...

class GetConnectorRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetConnectorResponse(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ...) -> None: ...

class ListConnectorsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListConnectorsResponse(_message.Message):
    __slots__ = ("connectors", "revision")
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    connectors: _containers.RepeatedCompositeFieldContainer[Connector]
    revision: int
    def __init__(self, connectors: _Optional[_Iterable[_Union[Connector, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class DeleteConnectorRequest(_message.Message):
    __slots__ = ("name", "expected_revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    expected_revision: int
    def __init__(self, name: _Optional[str] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class DeleteConnectorResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetTargetStateRequest(_message.Message):
    __slots__ = ("name", "target_state")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_STATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    target_state: TargetState
    def __init__(self, name: _Optional[str] = ..., target_state: _Optional[_Union[TargetState, str]] = ...) -> None: ...

class SetTargetStateResponse(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ...) -> None: ...

class StoredTaskPlan(_message.Message):
    __slots__ = ("plan", "epoch")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    plan: _connector_service_pb2.TaskPlan
    epoch: int
    def __init__(self, plan: _Optional[_Union[_connector_service_pb2.TaskPlan, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class PutTaskPlansRequest(_message.Message):
    __slots__ = ("name", "generation", "plans")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    name: str
    generation: str
    plans: _containers.RepeatedCompositeFieldContainer[_connector_service_pb2.TaskPlan]
    def __init__(self, name: _Optional[str] = ..., generation: _Optional[str] = ..., plans: _Optional[_Iterable[_Union[_connector_service_pb2.TaskPlan, _Mapping]]] = ...) -> None: ...

class PutTaskPlansResponse(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class ListTaskPlansRequest(_message.Message):
    __slots__ = ("name", "generation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    generation: str
    def __init__(self, name: _Optional[str] = ..., generation: _Optional[str] = ...) -> None: ...

class ListTaskPlansResponse(_message.Message):
    __slots__ = ("plans",)
    PLANS_FIELD_NUMBER: _ClassVar[int]
    plans: _containers.RepeatedCompositeFieldContainer[StoredTaskPlan]
    def __init__(self, plans: _Optional[_Iterable[_Union[StoredTaskPlan, _Mapping]]] = ...) -> None: ...

class WatchConnectorsRequest(_message.Message):
    __slots__ = ("after_revision",)
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    after_revision: int
    def __init__(self, after_revision: _Optional[int] = ...) -> None: ...

class WatchConnectorsResponse(_message.Message):
    __slots__ = ("revision", "names")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    revision: int
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...
