import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from penstock.api.config.v1 import config_service_pb2 as _config_service_pb2
from penstock.api.connector.v1 import connector_service_pb2 as _connector_service_pb2
from penstock.api.connector.v1 import plugin_service_pb2 as _plugin_service_pb2
from penstock.api.error.v1 import diagnostic_pb2 as _diagnostic_pb2
from penstock.api.offset.v1 import offset_service_pb2 as _offset_service_pb2
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
    __slots__ = ("task_id", "connector", "epoch", "state", "diagnostic", "rows_read", "rows_written", "bytes_read", "batches", "bytes_left", "rows_left", "restarts", "restarts_in_a_row", "rows_failed", "work", "datasets", "datasets_left_out", "plugin_metrics", "plugin_version")
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
    ROWS_FAILED_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    DATASETS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_METRICS_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_VERSION_FIELD_NUMBER: _ClassVar[int]
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
    rows_failed: int
    work: TaskMetrics
    datasets: _containers.RepeatedCompositeFieldContainer[DatasetRows]
    datasets_left_out: int
    plugin_metrics: _containers.RepeatedCompositeFieldContainer[PluginMetric]
    plugin_version: str
    def __init__(self, task_id: _Optional[str] = ..., connector: _Optional[str] = ..., epoch: _Optional[int] = ..., state: _Optional[_Union[TaskState, str]] = ..., diagnostic: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., rows_read: _Optional[int] = ..., rows_written: _Optional[int] = ..., bytes_read: _Optional[int] = ..., batches: _Optional[int] = ..., bytes_left: _Optional[int] = ..., rows_left: _Optional[int] = ..., restarts: _Optional[int] = ..., restarts_in_a_row: _Optional[int] = ..., rows_failed: _Optional[int] = ..., work: _Optional[_Union[TaskMetrics, _Mapping]] = ..., datasets: _Optional[_Iterable[_Union[DatasetRows, _Mapping]]] = ..., datasets_left_out: _Optional[int] = ..., plugin_metrics: _Optional[_Iterable[_Union[PluginMetric, _Mapping]]] = ..., plugin_version: _Optional[str] = ...) -> None: ...

class TaskMetrics(_message.Message):
    __slots__ = ("running", "paused", "starts", "started", "start_failures", "commits_failed", "retries", "rows_skipped", "errors_logged", "last_error_ms", "rows_under_way", "partitions", "commit_seconds", "batch_seconds", "batch_rows", "under_way", "shares")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    START_FAILURES_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FAILED_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    ROWS_SKIPPED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_LOGGED_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_MS_FIELD_NUMBER: _ClassVar[int]
    ROWS_UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BATCH_ROWS_FIELD_NUMBER: _ClassVar[int]
    UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    running: float
    paused: float
    starts: int
    started: int
    start_failures: int
    commits_failed: int
    retries: int
    rows_skipped: int
    errors_logged: int
    last_error_ms: int
    rows_under_way: int
    partitions: int
    commit_seconds: MinMeanMax
    batch_seconds: MinMeanMax
    batch_rows: MinMeanMax
    under_way: MinMeanMax
    shares: TimeShares
    def __init__(self, running: _Optional[float] = ..., paused: _Optional[float] = ..., starts: _Optional[int] = ..., started: _Optional[int] = ..., start_failures: _Optional[int] = ..., commits_failed: _Optional[int] = ..., retries: _Optional[int] = ..., rows_skipped: _Optional[int] = ..., errors_logged: _Optional[int] = ..., last_error_ms: _Optional[int] = ..., rows_under_way: _Optional[int] = ..., partitions: _Optional[int] = ..., commit_seconds: _Optional[_Union[MinMeanMax, _Mapping]] = ..., batch_seconds: _Optional[_Union[MinMeanMax, _Mapping]] = ..., batch_rows: _Optional[_Union[MinMeanMax, _Mapping]] = ..., under_way: _Optional[_Union[MinMeanMax, _Mapping]] = ..., shares: _Optional[_Union[TimeShares, _Mapping]] = ...) -> None: ...

class TimeShares(_message.Message):
    __slots__ = ("source", "engine", "rows", "sink", "offsets")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    source: float
    engine: float
    rows: float
    sink: float
    offsets: float
    def __init__(self, source: _Optional[float] = ..., engine: _Optional[float] = ..., rows: _Optional[float] = ..., sink: _Optional[float] = ..., offsets: _Optional[float] = ...) -> None: ...

class MinMeanMax(_message.Message):
    __slots__ = ("min", "mean", "max")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    min: float
    mean: float
    max: float
    def __init__(self, min: _Optional[float] = ..., mean: _Optional[float] = ..., max: _Optional[float] = ...) -> None: ...

class DatasetRows(_message.Message):
    __slots__ = ("dataset", "rows_read", "rows_written")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ROWS_READ_FIELD_NUMBER: _ClassVar[int]
    ROWS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    rows_read: int
    rows_written: int
    def __init__(self, dataset: _Optional[str] = ..., rows_read: _Optional[int] = ..., rows_written: _Optional[int] = ...) -> None: ...

class PluginMetric(_message.Message):
    __slots__ = ("plugin", "name", "value", "end")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    name: str
    value: float
    end: str
    def __init__(self, plugin: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[float] = ..., end: _Optional[str] = ...) -> None: ...

class ListPluginsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPluginsResponse(_message.Message):
    __slots__ = ("plugins", "built_in")
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    BUILT_IN_FIELD_NUMBER: _ClassVar[int]
    plugins: _containers.RepeatedCompositeFieldContainer[InstalledPlugin]
    built_in: _containers.RepeatedCompositeFieldContainer[BuiltIn]
    def __init__(self, plugins: _Optional[_Iterable[_Union[InstalledPlugin, _Mapping]]] = ..., built_in: _Optional[_Iterable[_Union[BuiltIn, _Mapping]]] = ...) -> None: ...

class BuiltIn(_message.Message):
    __slots__ = ("name", "type", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    version: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("diagnostics", "kind", "values", "secret_keys", "added_keys")
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SECRET_KEYS_FIELD_NUMBER: _ClassVar[int]
    ADDED_KEYS_FIELD_NUMBER: _ClassVar[int]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    kind: _config_service_pb2.ConnectorKind
    values: _containers.RepeatedCompositeFieldContainer[_connector_service_pb2.ConfigValue]
    secret_keys: _containers.RepeatedScalarFieldContainer[str]
    added_keys: _containers.RepeatedCompositeFieldContainer[_plugin_service_pb2.ConfigKey]
    def __init__(self, diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ..., kind: _Optional[_Union[_config_service_pb2.ConnectorKind, str]] = ..., values: _Optional[_Iterable[_Union[_connector_service_pb2.ConfigValue, _Mapping]]] = ..., secret_keys: _Optional[_Iterable[str]] = ..., added_keys: _Optional[_Iterable[_Union[_plugin_service_pb2.ConfigKey, _Mapping]]] = ...) -> None: ...

class DescribeConnectorRequest(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class DescribeConnectorResponse(_message.Message):
    __slots__ = ("plugin", "version", "connector", "framework_keys")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_KEYS_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    version: str
    connector: _plugin_service_pb2.ConnectorSpec
    framework_keys: _containers.RepeatedCompositeFieldContainer[_plugin_service_pb2.ConfigKey]
    def __init__(self, plugin: _Optional[str] = ..., version: _Optional[str] = ..., connector: _Optional[_Union[_plugin_service_pb2.ConnectorSpec, _Mapping]] = ..., framework_keys: _Optional[_Iterable[_Union[_plugin_service_pb2.ConfigKey, _Mapping]]] = ...) -> None: ...

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

class AlterOffsetsRequest(_message.Message):
    __slots__ = ("connector", "offsets", "dry_run")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    offsets: _containers.RepeatedCompositeFieldContainer[_offset_service_pb2.PartitionOffset]
    dry_run: bool
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ..., offsets: _Optional[_Iterable[_Union[_offset_service_pb2.PartitionOffset, _Mapping]]] = ..., dry_run: bool = ...) -> None: ...

class AlterOffsetsResponse(_message.Message):
    __slots__ = ("checked", "offsets")
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    checked: bool
    offsets: _containers.RepeatedCompositeFieldContainer[_offset_service_pb2.PartitionOffset]
    def __init__(self, checked: bool = ..., offsets: _Optional[_Iterable[_Union[_offset_service_pb2.PartitionOffset, _Mapping]]] = ...) -> None: ...

class ApplyConnectorRequest(_message.Message):
    __slots__ = ("connector", "action", "last_applied")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    LAST_APPLIED_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    action: _connector_service_pb2.ApplyAction
    last_applied: _config_service_pb2.Connector
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ..., action: _Optional[_Union[_connector_service_pb2.ApplyAction, str]] = ..., last_applied: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ...) -> None: ...

class ApplyConnectorResponse(_message.Message):
    __slots__ = ("diagnostics",)
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class SignalConnectorRequest(_message.Message):
    __slots__ = ("connector", "id", "type", "data")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    id: str
    type: str
    data: str
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ..., id: _Optional[str] = ..., type: _Optional[str] = ..., data: _Optional[str] = ...) -> None: ...

class SignalConnectorResponse(_message.Message):
    __slots__ = ("written_to",)
    WRITTEN_TO_FIELD_NUMBER: _ClassVar[int]
    written_to: str
    def __init__(self, written_to: _Optional[str] = ...) -> None: ...

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

class ListDatasetsRequest(_message.Message):
    __slots__ = ("connector", "limit")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    limit: int
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ..., limit: _Optional[int] = ...) -> None: ...

class ListDatasetsResponse(_message.Message):
    __slots__ = ("dataset", "more")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    dataset: Dataset
    more: bool
    def __init__(self, dataset: _Optional[_Union[Dataset, _Mapping]] = ..., more: bool = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("name", "dataset", "columns", "selected", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    dataset: str
    columns: _containers.RepeatedCompositeFieldContainer[DatasetColumn]
    selected: bool
    problem: _diagnostic_pb2.Diagnostic
    def __init__(self, name: _Optional[str] = ..., dataset: _Optional[str] = ..., columns: _Optional[_Iterable[_Union[DatasetColumn, _Mapping]]] = ..., selected: bool = ..., problem: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ...) -> None: ...

class DatasetColumn(_message.Message):
    __slots__ = ("name", "type", "nullable", "key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    nullable: bool
    key: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., nullable: bool = ..., key: bool = ...) -> None: ...

class PreviewRowsRequest(_message.Message):
    __slots__ = ("connector", "dataset", "columns", "rows", "sample")
    class ColumnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    connector: _config_service_pb2.Connector
    dataset: str
    columns: _containers.ScalarMap[str, str]
    rows: _containers.RepeatedScalarFieldContainer[str]
    sample: int
    def __init__(self, connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ..., dataset: _Optional[str] = ..., columns: _Optional[_Mapping[str, str]] = ..., rows: _Optional[_Iterable[str]] = ..., sample: _Optional[int] = ...) -> None: ...

class PreviewRowsResponse(_message.Message):
    __slots__ = ("dataset", "rows", "failed", "unread_count", "unread")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    UNREAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    rows: _containers.RepeatedScalarFieldContainer[str]
    failed: _containers.RepeatedCompositeFieldContainer[RejectedRow]
    unread_count: int
    unread: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    def __init__(self, dataset: _Optional[str] = ..., rows: _Optional[_Iterable[str]] = ..., failed: _Optional[_Iterable[_Union[RejectedRow, _Mapping]]] = ..., unread_count: _Optional[int] = ..., unread: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ...) -> None: ...

class RejectedRow(_message.Message):
    __slots__ = ("row", "reason")
    ROW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    row: int
    reason: _diagnostic_pb2.Diagnostic
    def __init__(self, row: _Optional[int] = ..., reason: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ...) -> None: ...

class InspectRowsRequest(_message.Message):
    __slots__ = ("task_id", "stage", "max_rows", "max_row_bytes", "max_ms", "transform")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    MAX_ROW_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    stage: RowStage
    max_rows: int
    max_row_bytes: int
    max_ms: int
    transform: str
    def __init__(self, task_id: _Optional[str] = ..., stage: _Optional[_Union[RowStage, str]] = ..., max_rows: _Optional[int] = ..., max_row_bytes: _Optional[int] = ..., max_ms: _Optional[int] = ..., transform: _Optional[str] = ...) -> None: ...

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

class WatchLogsRequest(_message.Message):
    __slots__ = ("connector", "level", "tail", "follow", "generation")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    connector: str
    level: str
    tail: int
    follow: bool
    generation: str
    def __init__(self, connector: _Optional[str] = ..., level: _Optional[str] = ..., tail: _Optional[int] = ..., follow: bool = ..., generation: _Optional[str] = ...) -> None: ...

class WatchLogsResponse(_message.Message):
    __slots__ = ("lines", "missed")
    LINES_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[LogLine]
    missed: int
    def __init__(self, lines: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ..., missed: _Optional[int] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("at_us", "level", "logger", "message", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    AT_US_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    level: str
    logger: str
    message: str
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, at_us: _Optional[int] = ..., level: _Optional[str] = ..., logger: _Optional[str] = ..., message: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

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

class ReadDeadLettersRequest(_message.Message):
    __slots__ = ("topic", "connector", "ids", "stage", "code", "dataset", "since_us", "limit", "replays", "waiting", "whole", "set_json", "edits", "parse_as")
    class EditsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REPLAYS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    SET_JSON_FIELD_NUMBER: _ClassVar[int]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    PARSE_AS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    connector: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    stage: str
    code: str
    dataset: str
    since_us: int
    limit: int
    replays: str
    waiting: bool
    whole: bool
    set_json: str
    edits: _containers.ScalarMap[str, str]
    parse_as: _config_service_pb2.Connector
    def __init__(self, topic: _Optional[str] = ..., connector: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., stage: _Optional[str] = ..., code: _Optional[str] = ..., dataset: _Optional[str] = ..., since_us: _Optional[int] = ..., limit: _Optional[int] = ..., replays: _Optional[str] = ..., waiting: bool = ..., whole: bool = ..., set_json: _Optional[str] = ..., edits: _Optional[_Mapping[str, str]] = ..., parse_as: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ...) -> None: ...

class ReadDeadLettersResponse(_message.Message):
    __slots__ = ("counts", "more", "dead_letters")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[DeadLetterCount]
    more: bool
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    def __init__(self, counts: _Optional[_Iterable[_Union[DeadLetterCount, _Mapping]]] = ..., more: bool = ..., dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ...) -> None: ...

class DeadLetterCount(_message.Message):
    __slots__ = ("stage", "code", "dataset", "count", "replayed")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    stage: str
    code: str
    dataset: str
    count: int
    replayed: int
    def __init__(self, stage: _Optional[str] = ..., code: _Optional[str] = ..., dataset: _Optional[str] = ..., count: _Optional[int] = ..., replayed: _Optional[int] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("id", "connector", "task_id", "stage", "reason", "dataset", "partition", "epoch", "txn_id", "failed_at_us", "replayed", "has_row", "row_json", "raw", "headers", "offset", "attempt", "unparsed")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    FAILED_AT_US_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    HAS_ROW_FIELD_NUMBER: _ClassVar[int]
    ROW_JSON_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    UNPARSED_FIELD_NUMBER: _ClassVar[int]
    id: str
    connector: str
    task_id: str
    stage: str
    reason: _diagnostic_pb2.Diagnostic
    dataset: str
    partition: str
    epoch: int
    txn_id: int
    failed_at_us: int
    replayed: bool
    has_row: bool
    row_json: str
    raw: bytes
    headers: _containers.ScalarMap[str, bytes]
    offset: str
    attempt: int
    unparsed: _diagnostic_pb2.Diagnostic
    def __init__(self, id: _Optional[str] = ..., connector: _Optional[str] = ..., task_id: _Optional[str] = ..., stage: _Optional[str] = ..., reason: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., dataset: _Optional[str] = ..., partition: _Optional[str] = ..., epoch: _Optional[int] = ..., txn_id: _Optional[int] = ..., failed_at_us: _Optional[int] = ..., replayed: bool = ..., has_row: bool = ..., row_json: _Optional[str] = ..., raw: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, bytes]] = ..., offset: _Optional[str] = ..., attempt: _Optional[int] = ..., unparsed: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ...) -> None: ...
