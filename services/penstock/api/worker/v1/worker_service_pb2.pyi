import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from penstock.api.config.v1 import config_service_pb2 as _config_service_pb2
from penstock.api.connector.v1 import connector_service_pb2 as _connector_service_pb2
from penstock.api.connector.v1 import plugin_service_pb2 as _plugin_service_pb2
from penstock.api.error.v1 import diagnostic_pb2 as _diagnostic_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_STARTING: _ClassVar[TaskState]
    TASK_STATE_RUNNING: _ClassVar[TaskState]
    TASK_STATE_RESTARTING: _ClassVar[TaskState]
    TASK_STATE_FAILED: _ClassVar[TaskState]
    TASK_STATE_COMPLETED: _ClassVar[TaskState]
    TASK_STATE_STOPPED: _ClassVar[TaskState]
    TASK_STATE_PAUSED: _ClassVar[TaskState]

class RowStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROW_STAGE_UNSPECIFIED: _ClassVar[RowStage]
    ROW_STAGE_READ: _ClassVar[RowStage]
    ROW_STAGE_TRANSFORMED: _ClassVar[RowStage]
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_STARTING: TaskState
TASK_STATE_RUNNING: TaskState
TASK_STATE_RESTARTING: TaskState
TASK_STATE_FAILED: TaskState
TASK_STATE_COMPLETED: TaskState
TASK_STATE_STOPPED: TaskState
TASK_STATE_PAUSED: TaskState
ROW_STAGE_UNSPECIFIED: RowStage
ROW_STAGE_READ: RowStage
ROW_STAGE_TRANSFORMED: RowStage

class TaskStatus(_message.Message):
    __slots__ = ("task_id", "connector", "epoch", "state", "diagnostic", "rows_read", "rows_written", "bytes_read", "batches", "bytes_left", "rows_left", "restarts", "restarts_in_a_row")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTIC_FIELD_NUMBER: _ClassVar[int]
    ROWS_READ_FIELD_NUMBER: _ClassVar[int]
    ROWS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    BYTES_LEFT_FIELD_NUMBER: _ClassVar[int]
    ROWS_LEFT_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_IN_A_ROW_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    connector: str
    epoch: int
    state: TaskState
    diagnostic: _diagnostic_pb2.Diagnostic
    rows_read: int
    rows_written: int
    bytes_read: int
    batches: int
    bytes_left: int
    rows_left: int
    restarts: int
    restarts_in_a_row: int
    def __init__(self, task_id: _Optional[str] = ..., connector: _Optional[str] = ..., epoch: _Optional[int] = ..., state: _Optional[_Union[TaskState, str]] = ..., diagnostic: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., rows_read: _Optional[int] = ..., rows_written: _Optional[int] = ..., bytes_read: _Optional[int] = ..., batches: _Optional[int] = ..., bytes_left: _Optional[int] = ..., rows_left: _Optional[int] = ..., restarts: _Optional[int] = ..., restarts_in_a_row: _Optional[int] = ...) -> None: ...

class ListPluginsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPluginsResponse(_message.Message):
    __slots__ = ("plugins",)
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    plugins: _containers.RepeatedCompositeFieldContainer[InstalledPlugin]
    def __init__(self, plugins: _Optional[_Iterable[_Union[InstalledPlugin, _Mapping]]] = ...) -> None: ...

class ReloadPluginsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadPluginsResponse(_message.Message):
    __slots__ = ("plugins", "changed", "problems")
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    plugins: _containers.RepeatedCompositeFieldContainer[InstalledPlugin]
    changed: bool
    problems: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, plugins: _Optional[_Iterable[_Union[InstalledPlugin, _Mapping]]] = ..., changed: bool = ..., problems: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class InstalledPlugin(_message.Message):
    __slots__ = ("name", "version", "connectors")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    connectors: _containers.RepeatedCompositeFieldContainer[_plugin_service_pb2.ConnectorSpec]
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., connectors: _Optional[_Iterable[_Union[_plugin_service_pb2.ConnectorSpec, _Mapping]]] = ...) -> None: ...

class ValidateConnectorRequest(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ...) -> None: ...

class ValidateConnectorResponse(_message.Message):
    __slots__ = ("diagnostics", "kind")
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    kind: _config_service_pb2.ConnectorKind
    def __init__(self, diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ..., kind: _Optional[_Union[_config_service_pb2.ConnectorKind, str]] = ...) -> None: ...

class PlanConnectorRequest(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ...) -> None: ...

class PlanConnectorResponse(_message.Message):
    __slots__ = ("plans", "diagnostics", "monitor")
    PLANS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    MONITOR_FIELD_NUMBER: _ClassVar[int]
    plans: _containers.RepeatedCompositeFieldContainer[_connector_service_pb2.TaskPlan]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    monitor: bool
    def __init__(self, plans: _Optional[_Iterable[_Union[_connector_service_pb2.TaskPlan, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ..., monitor: bool = ...) -> None: ...

class StartTaskRequest(_message.Message):
    __slots__ = ("connector", "plan", "epoch")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    plan: _connector_service_pb2.TaskPlan
    epoch: int
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ..., plan: _Optional[_Union[_connector_service_pb2.TaskPlan, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskStatus]
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskStatus, _Mapping]]] = ...) -> None: ...

class WatchTasksRequest(_message.Message):
    __slots__ = ("every_ms",)
    EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    every_ms: int
    def __init__(self, every_ms: _Optional[int] = ...) -> None: ...

class WatchTasksResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: TaskStatus
    def __init__(self, task: _Optional[_Union[TaskStatus, _Mapping]] = ...) -> None: ...

class CheckConnectionRequest(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ...) -> None: ...

class CheckConnectionResponse(_message.Message):
    __slots__ = ("end", "step", "ok", "took", "diagnostics")
    END_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    end: str
    step: str
    ok: bool
    took: _duration_pb2.Duration
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, end: _Optional[str] = ..., step: _Optional[str] = ..., ok: bool = ..., took: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class InspectRowsRequest(_message.Message):
    __slots__ = ("task_id", "stage", "max_rows", "max_row_bytes", "max_ms")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    MAX_ROW_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    stage: RowStage
    max_rows: int
    max_row_bytes: int
    max_ms: int
    def __init__(self, task_id: _Optional[str] = ..., stage: _Optional[_Union[RowStage, str]] = ..., max_rows: _Optional[int] = ..., max_row_bytes: _Optional[int] = ..., max_ms: _Optional[int] = ...) -> None: ...

class InspectRowsResponse(_message.Message):
    __slots__ = ("rows", "missed")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[InspectedRow]
    missed: int
    def __init__(self, rows: _Optional[_Iterable[_Union[InspectedRow, _Mapping]]] = ..., missed: _Optional[int] = ...) -> None: ...

class InspectedRow(_message.Message):
    __slots__ = ("topic", "partition", "offset", "timestamp_us", "json", "cut")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: str
    offset: str
    timestamp_us: int
    json: str
    cut: bool
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[str] = ..., offset: _Optional[str] = ..., timestamp_us: _Optional[int] = ..., json: _Optional[str] = ..., cut: bool = ...) -> None: ...

class SetLogLevelRequest(_message.Message):
    __slots__ = ("logger", "level")
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    logger: str
    level: str
    def __init__(self, logger: _Optional[str] = ..., level: _Optional[str] = ...) -> None: ...

class SetLogLevelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLogLevelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLogLevelsResponse(_message.Message):
    __slots__ = ("levels",)
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedCompositeFieldContainer[ProcessLogLevel]
    def __init__(self, levels: _Optional[_Iterable[_Union[ProcessLogLevel, _Mapping]]] = ...) -> None: ...

class ProcessLogLevel(_message.Message):
    __slots__ = ("logger", "level", "own")
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    logger: str
    level: str
    own: bool
    def __init__(self, logger: _Optional[str] = ..., level: _Optional[str] = ..., own: bool = ...) -> None: ...
