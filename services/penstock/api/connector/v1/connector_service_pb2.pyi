import datetime

from google.protobuf import duration_pb2 as _duration_pb2
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
    __slots__ = ("connector", "instance", "config", "secrets")
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
    connector: str
    instance: str
    config: _containers.ScalarMap[str, str]
    secrets: _containers.ScalarMap[str, str]
    def __init__(self, connector: _Optional[str] = ..., instance: _Optional[str] = ..., config: _Optional[_Mapping[str, str]] = ..., secrets: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ValidateConfigRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: Target
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ...) -> None: ...

class ValidateConfigResponse(_message.Message):
    __slots__ = ("values", "diagnostics")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[ConfigValue]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, values: _Optional[_Iterable[_Union[ConfigValue, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class ConfigValue(_message.Message):
    __slots__ = ("name", "value", "visible", "diagnostics", "recommended_values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDED_VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    visible: bool
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    recommended_values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., visible: bool = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ..., recommended_values: _Optional[_Iterable[str]] = ...) -> None: ...

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

class ListDatasetsRequest(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: Target
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ...) -> None: ...

class ListDatasetsResponse(_message.Message):
    __slots__ = ("dataset",)
    DATASET_FIELD_NUMBER: _ClassVar[int]
    dataset: Dataset
    def __init__(self, dataset: _Optional[_Union[Dataset, _Mapping]] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("name", "dataset", "arrow_schema", "key_columns", "selected", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ARROW_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    dataset: str
    arrow_schema: bytes
    key_columns: _containers.RepeatedScalarFieldContainer[str]
    selected: bool
    problem: _diagnostic_pb2.Diagnostic
    def __init__(self, name: _Optional[str] = ..., dataset: _Optional[str] = ..., arrow_schema: _Optional[bytes] = ..., key_columns: _Optional[_Iterable[str]] = ..., selected: bool = ..., problem: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("tasks", "partitions", "monitor")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MONITOR_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskPlan]
    partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    monitor: bool
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskPlan, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ..., monitor: bool = ...) -> None: ...

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
    __slots__ = ("target", "action", "last_applied")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    LAST_APPLIED_FIELD_NUMBER: _ClassVar[int]
    target: Target
    action: ApplyAction
    last_applied: Target
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., action: _Optional[_Union[ApplyAction, str]] = ..., last_applied: _Optional[_Union[Target, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ...) -> None: ...

class SignalRequest(_message.Message):
    __slots__ = ("target", "id", "type", "data")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    target: Target
    id: str
    type: str
    data: str
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., id: _Optional[str] = ..., type: _Optional[str] = ..., data: _Optional[str] = ...) -> None: ...

class SignalResponse(_message.Message):
    __slots__ = ("written_to",)
    WRITTEN_TO_FIELD_NUMBER: _ClassVar[int]
    written_to: str
    def __init__(self, written_to: _Optional[str] = ...) -> None: ...

class MonitorRequest(_message.Message):
    __slots__ = ("target", "tasks", "max_tasks", "more_tasks")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    MORE_TASKS_FIELD_NUMBER: _ClassVar[int]
    target: Target
    tasks: _containers.RepeatedCompositeFieldContainer[TaskPlan]
    max_tasks: int
    more_tasks: bool
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[TaskPlan, _Mapping]]] = ..., max_tasks: _Optional[int] = ..., more_tasks: bool = ...) -> None: ...

class MonitorResponse(_message.Message):
    __slots__ = ("replan", "diagnostic", "progress", "opened")
    REPLAN_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTIC_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    replan: Replan
    diagnostic: _diagnostic_pb2.Diagnostic
    progress: _types_pb2.Progress
    opened: MonitorOpened
    def __init__(self, replan: _Optional[_Union[Replan, _Mapping]] = ..., diagnostic: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Progress, _Mapping]] = ..., opened: _Optional[_Union[MonitorOpened, _Mapping]] = ...) -> None: ...

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
