import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from penstock.api.connector.v1 import plugin_service_pb2 as _plugin_service_pb2
from penstock.api.connector.v1 import types_pb2 as _types_pb2
from penstock.api.error.v1 import diagnostic_pb2 as _diagnostic_pb2
from penstock.api.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ApplyAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPLY_ACTION_UNSPECIFIED: _ClassVar[ApplyAction]
    APPLY_ACTION_CREATE: _ClassVar[ApplyAction]
    APPLY_ACTION_UPDATE: _ClassVar[ApplyAction]
    APPLY_ACTION_DELETE: _ClassVar[ApplyAction]
    APPLY_ACTION_RESET: _ClassVar[ApplyAction]
APPLY_ACTION_UNSPECIFIED: ApplyAction
APPLY_ACTION_CREATE: ApplyAction
APPLY_ACTION_UPDATE: ApplyAction
APPLY_ACTION_DELETE: ApplyAction
APPLY_ACTION_RESET: ApplyAction

class Target(_message.Message):
    __slots__ = ("connector", "instance", "config", "secrets", "config_version")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SecretsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_VERSION_FIELD_NUMBER: _ClassVar[int]
    connector: str
    instance: str
    config: _containers.ScalarMap[str, str]
    secrets: _containers.ScalarMap[str, str]
    config_version: int
    def __init__(self, connector: _Optional[str] = ..., instance: _Optional[str] = ..., config: _Optional[_Mapping[str, str]] = ..., secrets: _Optional[_Mapping[str, str]] = ..., config_version: _Optional[int] = ...) -> None: ...

class ValidateConfigRequest(_message.Message):
    __slots__ = ("target", "online")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ONLINE_FIELD_NUMBER: _ClassVar[int]
    target: Target
    online: bool
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., online: bool = ...) -> None: ...

class ValidateConfigResponse(_message.Message):
    __slots__ = ("values", "diagnostics", "commit_modes")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_MODES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[ConfigValue]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    commit_modes: _containers.RepeatedScalarFieldContainer[_plugin_service_pb2.CommitMode]
    def __init__(self, values: _Optional[_Iterable[_Union[ConfigValue, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ..., commit_modes: _Optional[_Iterable[_Union[_plugin_service_pb2.CommitMode, str]]] = ...) -> None: ...

class ConfigValue(_message.Message):
    __slots__ = ("name", "value", "recommended", "visible", "diagnostics")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDED_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    recommended: _containers.RepeatedScalarFieldContainer[str]
    visible: bool
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., recommended: _Optional[_Iterable[str]] = ..., visible: bool = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class CheckConnectionRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: Target
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ...) -> None: ...

class CheckConnectionResponse(_message.Message):
    __slots__ = ("step", "ok", "took", "diagnostics")
    STEP_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    step: str
    ok: bool
    took: _duration_pb2.Duration
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, step: _Optional[str] = ..., ok: bool = ..., took: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class DiscoverRequest(_message.Message):
    __slots__ = ("target", "pattern", "sample_rows")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_ROWS_FIELD_NUMBER: _ClassVar[int]
    target: Target
    pattern: str
    sample_rows: int
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., pattern: _Optional[str] = ..., sample_rows: _Optional[int] = ...) -> None: ...

class DiscoverResponse(_message.Message):
    __slots__ = ("path", "schema", "estimated_rows", "modes", "cursor_columns", "sample", "selection")
    class SelectionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PATH_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_ROWS_FIELD_NUMBER: _ClassVar[int]
    MODES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedScalarFieldContainer[str]
    schema: _record_pb2.Schema
    estimated_rows: int
    modes: _containers.RepeatedScalarFieldContainer[str]
    cursor_columns: _containers.RepeatedScalarFieldContainer[str]
    sample: _record_pb2.Batch
    selection: _containers.ScalarMap[str, str]
    def __init__(self, path: _Optional[_Iterable[str]] = ..., schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., estimated_rows: _Optional[int] = ..., modes: _Optional[_Iterable[str]] = ..., cursor_columns: _Optional[_Iterable[str]] = ..., sample: _Optional[_Union[_record_pb2.Batch, _Mapping]] = ..., selection: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("target", "max_tasks", "known_partitions")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    target: Target
    max_tasks: int
    known_partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., max_tasks: _Optional[int] = ..., known_partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("tasks", "partitions", "retired_partitions", "diagnostics", "monitor")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    RETIRED_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    MONITOR_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskPlan]
    partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    retired_partitions: _containers.RepeatedScalarFieldContainer[str]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    monitor: bool
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskPlan, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ..., retired_partitions: _Optional[_Iterable[str]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ..., monitor: bool = ...) -> None: ...

class TaskPlan(_message.Message):
    __slots__ = ("task_id", "config", "partitions")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    config: _containers.ScalarMap[str, str]
    partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    def __init__(self, task_id: _Optional[str] = ..., config: _Optional[_Mapping[str, str]] = ..., partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ...) -> None: ...

class ApplyRequest(_message.Message):
    __slots__ = ("target", "action", "last_applied", "dry_run")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    LAST_APPLIED_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    target: Target
    action: ApplyAction
    last_applied: Target
    dry_run: bool
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., action: _Optional[_Union[ApplyAction, str]] = ..., last_applied: _Optional[_Union[Target, _Mapping]] = ..., dry_run: bool = ...) -> None: ...

class ApplyResponse(_message.Message):
    __slots__ = ("actions", "diagnostics")
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    actions: _containers.RepeatedScalarFieldContainer[str]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, actions: _Optional[_Iterable[str]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class AlterOffsetsRequest(_message.Message):
    __slots__ = ("target", "partitions", "dry_run")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    target: Target
    partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    dry_run: bool
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ..., dry_run: bool = ...) -> None: ...

class AlterOffsetsResponse(_message.Message):
    __slots__ = ("partitions", "diagnostics")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class MonitorRequest(_message.Message):
    __slots__ = ("target", "answered_request_id", "tasks", "max_tasks", "more_tasks")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    MORE_TASKS_FIELD_NUMBER: _ClassVar[int]
    target: Target
    answered_request_id: str
    tasks: _containers.RepeatedCompositeFieldContainer[TaskPlan]
    max_tasks: int
    more_tasks: bool
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., answered_request_id: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[TaskPlan, _Mapping]]] = ..., max_tasks: _Optional[int] = ..., more_tasks: bool = ...) -> None: ...

class MonitorResponse(_message.Message):
    __slots__ = ("request_id", "replan", "partition_change", "config_update", "diagnostic", "progress", "opened")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPLAN_FIELD_NUMBER: _ClassVar[int]
    PARTITION_CHANGE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_UPDATE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTIC_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    replan: Replan
    partition_change: PartitionChange
    config_update: ConfigUpdate
    diagnostic: _diagnostic_pb2.Diagnostic
    progress: _types_pb2.Progress
    opened: MonitorOpened
    def __init__(self, request_id: _Optional[str] = ..., replan: _Optional[_Union[Replan, _Mapping]] = ..., partition_change: _Optional[_Union[PartitionChange, _Mapping]] = ..., config_update: _Optional[_Union[ConfigUpdate, _Mapping]] = ..., diagnostic: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Progress, _Mapping]] = ..., opened: _Optional[_Union[MonitorOpened, _Mapping]] = ...) -> None: ...

class MonitorOpened(_message.Message):
    __slots__ = ("heartbeat_every",)
    HEARTBEAT_EVERY_FIELD_NUMBER: _ClassVar[int]
    heartbeat_every: _duration_pb2.Duration
    def __init__(self, heartbeat_every: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Replan(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class PartitionChange(_message.Message):
    __slots__ = ("added", "removed")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    added: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, added: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfigUpdate(_message.Message):
    __slots__ = ("config", "secrets")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SecretsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    config: _containers.ScalarMap[str, str]
    secrets: _containers.ScalarMap[str, str]
    def __init__(self, config: _Optional[_Mapping[str, str]] = ..., secrets: _Optional[_Mapping[str, str]] = ...) -> None: ...
