import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from penstock.api.error.v1 import diagnostic_pb2 as _diagnostic_pb2
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

class RevisionCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REVISION_CAUSE_UNSPECIFIED: _ClassVar[RevisionCause]
    REVISION_CAUSE_CREATED: _ClassVar[RevisionCause]
    REVISION_CAUSE_PUT: _ClassVar[RevisionCause]
    REVISION_CAUSE_PATCHED: _ClassVar[RevisionCause]
    REVISION_CAUSE_ROLLED_BACK: _ClassVar[RevisionCause]
CONNECTOR_KIND_UNSPECIFIED: ConnectorKind
CONNECTOR_KIND_SOURCE: ConnectorKind
CONNECTOR_KIND_SINK: ConnectorKind
CONNECTOR_KIND_PIPELINE: ConnectorKind
CONNECTOR_KIND_MIRROR: ConnectorKind
TARGET_STATE_UNSPECIFIED: TargetState
TARGET_STATE_RUNNING: TargetState
TARGET_STATE_PAUSED: TargetState
TARGET_STATE_STOPPED: TargetState
REVISION_CAUSE_UNSPECIFIED: RevisionCause
REVISION_CAUSE_CREATED: RevisionCause
REVISION_CAUSE_PUT: RevisionCause
REVISION_CAUSE_PATCHED: RevisionCause
REVISION_CAUSE_ROLLED_BACK: RevisionCause

class Connector(_message.Message):
    __slots__ = ("name", "kind", "config", "target_state", "generation", "revision", "version", "restarts", "secret_keys")
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
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    SECRET_KEYS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: ConnectorKind
    config: _containers.ScalarMap[str, str]
    target_state: TargetState
    generation: str
    revision: int
    version: int
    restarts: _containers.RepeatedCompositeFieldContainer[Restart]
    secret_keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[ConnectorKind, str]] = ..., config: _Optional[_Mapping[str, str]] = ..., target_state: _Optional[_Union[TargetState, str]] = ..., generation: _Optional[str] = ..., revision: _Optional[int] = ..., version: _Optional[int] = ..., restarts: _Optional[_Iterable[_Union[Restart, _Mapping]]] = ..., secret_keys: _Optional[_Iterable[str]] = ...) -> None: ...

class Restart(_message.Message):
    __slots__ = ("marker", "include_tasks", "only_failed", "task_id", "requested_at")
    MARKER_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_TASKS_FIELD_NUMBER: _ClassVar[int]
    ONLY_FAILED_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_AT_FIELD_NUMBER: _ClassVar[int]
    marker: int
    include_tasks: bool
    only_failed: bool
    task_id: str
    requested_at: _timestamp_pb2.Timestamp
    def __init__(self, marker: _Optional[int] = ..., include_tasks: bool = ..., only_failed: bool = ..., task_id: _Optional[str] = ..., requested_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("name", "generation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    generation: str
    def __init__(self, name: _Optional[str] = ..., generation: _Optional[str] = ...) -> None: ...

class GetConnectorResponse(_message.Message):
    __slots__ = ("connector", "revision", "kept")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    revision: int
    kept: bool
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ..., revision: _Optional[int] = ..., kept: bool = ...) -> None: ...

class ListConnectorsRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListConnectorsResponse(_message.Message):
    __slots__ = ("connectors", "revision", "next_page_token")
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    connectors: _containers.RepeatedCompositeFieldContainer[Connector]
    revision: int
    next_page_token: str
    def __init__(self, connectors: _Optional[_Iterable[_Union[Connector, _Mapping]]] = ..., revision: _Optional[int] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteConnectorRequest(_message.Message):
    __slots__ = ("name", "expected_revision", "keep_offsets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    KEEP_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    expected_revision: int
    keep_offsets: bool
    def __init__(self, name: _Optional[str] = ..., expected_revision: _Optional[int] = ..., keep_offsets: bool = ...) -> None: ...

class DeleteConnectorResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeptOffsets(_message.Message):
    __slots__ = ("name", "kind", "generation", "connector_class", "kept_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_CLASS_FIELD_NUMBER: _ClassVar[int]
    KEPT_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: ConnectorKind
    generation: str
    connector_class: str
    kept_at: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[ConnectorKind, str]] = ..., generation: _Optional[str] = ..., connector_class: _Optional[str] = ..., kept_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListKeptOffsetsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKeptOffsetsResponse(_message.Message):
    __slots__ = ("kept",)
    KEPT_FIELD_NUMBER: _ClassVar[int]
    kept: _containers.RepeatedCompositeFieldContainer[KeptOffsets]
    def __init__(self, kept: _Optional[_Iterable[_Union[KeptOffsets, _Mapping]]] = ...) -> None: ...

class PurgeKeptOffsetsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class PurgeKeptOffsetsResponse(_message.Message):
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

class PatchConnectorRequest(_message.Message):
    __slots__ = ("name", "set", "remove", "expected_revision")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    set: _containers.ScalarMap[str, str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    expected_revision: int
    def __init__(self, name: _Optional[str] = ..., set: _Optional[_Mapping[str, str]] = ..., remove: _Optional[_Iterable[str]] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class PatchConnectorResponse(_message.Message):
    __slots__ = ("connector", "changed")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    changed: bool
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ..., changed: bool = ...) -> None: ...

class RequestRestartRequest(_message.Message):
    __slots__ = ("name", "include_tasks", "only_failed", "task_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_TASKS_FIELD_NUMBER: _ClassVar[int]
    ONLY_FAILED_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    include_tasks: bool
    only_failed: bool
    task_id: str
    def __init__(self, name: _Optional[str] = ..., include_tasks: bool = ..., only_failed: bool = ..., task_id: _Optional[str] = ...) -> None: ...

class RequestRestartResponse(_message.Message):
    __slots__ = ("restart",)
    RESTART_FIELD_NUMBER: _ClassVar[int]
    restart: Restart
    def __init__(self, restart: _Optional[_Union[Restart, _Mapping]] = ...) -> None: ...

class Revision(_message.Message):
    __slots__ = ("version", "revision", "written_at", "cause", "restored_version", "kind", "config")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    RESTORED_VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    version: int
    revision: int
    written_at: _timestamp_pb2.Timestamp
    cause: RevisionCause
    restored_version: int
    kind: ConnectorKind
    config: _containers.ScalarMap[str, str]
    def __init__(self, version: _Optional[int] = ..., revision: _Optional[int] = ..., written_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cause: _Optional[_Union[RevisionCause, str]] = ..., restored_version: _Optional[int] = ..., kind: _Optional[_Union[ConnectorKind, str]] = ..., config: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListRevisionsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListRevisionsResponse(_message.Message):
    __slots__ = ("revisions",)
    REVISIONS_FIELD_NUMBER: _ClassVar[int]
    revisions: _containers.RepeatedCompositeFieldContainer[Revision]
    def __init__(self, revisions: _Optional[_Iterable[_Union[Revision, _Mapping]]] = ...) -> None: ...

class GetRevisionRequest(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GetRevisionResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: Revision
    def __init__(self, revision: _Optional[_Union[Revision, _Mapping]] = ...) -> None: ...

class DiffRevisionsRequest(_message.Message):
    __slots__ = ("name", "from_version", "to_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FROM_VERSION_FIELD_NUMBER: _ClassVar[int]
    TO_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    from_version: int
    to_version: int
    def __init__(self, name: _Optional[str] = ..., from_version: _Optional[int] = ..., to_version: _Optional[int] = ...) -> None: ...

class Difference(_message.Message):
    __slots__ = ("key", "before", "after", "redacted")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    key: str
    before: str
    after: str
    redacted: bool
    def __init__(self, key: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., redacted: bool = ...) -> None: ...

class DiffRevisionsResponse(_message.Message):
    __slots__ = ("differences",)
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    differences: _containers.RepeatedCompositeFieldContainer[Difference]
    def __init__(self, differences: _Optional[_Iterable[_Union[Difference, _Mapping]]] = ...) -> None: ...

class RollbackConnectorRequest(_message.Message):
    __slots__ = ("name", "version", "expected_revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    expected_revision: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class RollbackConnectorResponse(_message.Message):
    __slots__ = ("connector", "changed")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    changed: bool
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ..., changed: bool = ...) -> None: ...

class LogLevel(_message.Message):
    __slots__ = ("service", "logger", "level", "modified_at")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_AT_FIELD_NUMBER: _ClassVar[int]
    service: str
    logger: str
    level: str
    modified_at: _timestamp_pb2.Timestamp
    def __init__(self, service: _Optional[str] = ..., logger: _Optional[str] = ..., level: _Optional[str] = ..., modified_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class SetLogLevelRequest(_message.Message):
    __slots__ = ("service", "logger", "level")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    service: str
    logger: str
    level: str
    def __init__(self, service: _Optional[str] = ..., logger: _Optional[str] = ..., level: _Optional[str] = ...) -> None: ...

class SetLogLevelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLogLevelsRequest(_message.Message):
    __slots__ = ("service",)
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    service: str
    def __init__(self, service: _Optional[str] = ...) -> None: ...

class ListLogLevelsResponse(_message.Message):
    __slots__ = ("levels",)
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedCompositeFieldContainer[LogLevel]
    def __init__(self, levels: _Optional[_Iterable[_Union[LogLevel, _Mapping]]] = ...) -> None: ...

class WatchLogLevelsRequest(_message.Message):
    __slots__ = ("service",)
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    service: str
    def __init__(self, service: _Optional[str] = ...) -> None: ...

class WatchLogLevelsResponse(_message.Message):
    __slots__ = ("levels",)
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedCompositeFieldContainer[LogLevel]
    def __init__(self, levels: _Optional[_Iterable[_Union[LogLevel, _Mapping]]] = ...) -> None: ...

class ValidateConnectorRequest(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ...) -> None: ...

class ValidateConnectorResponse(_message.Message):
    __slots__ = ("diagnostics", "kind", "secret_keys")
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SECRET_KEYS_FIELD_NUMBER: _ClassVar[int]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    kind: ConnectorKind
    secret_keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ..., kind: _Optional[_Union[ConnectorKind, str]] = ..., secret_keys: _Optional[_Iterable[str]] = ...) -> None: ...

class TrackTopicsRequest(_message.Message):
    __slots__ = ("generation", "topics")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    generation: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class TrackTopicsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTopicsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class ResetTopicsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResetTopicsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
