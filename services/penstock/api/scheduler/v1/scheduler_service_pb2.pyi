from penstock.api.config.v1 import config_service_pb2 as _config_service_pb2
from penstock.api.connector.v1 import connector_service_pb2 as _connector_service_pb2
from penstock.api.error.v1 import diagnostic_pb2 as _diagnostic_pb2
from penstock.api.worker.v1 import worker_service_pb2 as _worker_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_UNASSIGNED: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_PAUSED: _ClassVar[RunState]
    RUN_STATE_FAILED: _ClassVar[RunState]
    RUN_STATE_RESTARTING: _ClassVar[RunState]
    RUN_STATE_STOPPED: _ClassVar[RunState]
    RUN_STATE_COMPLETED: _ClassVar[RunState]
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_UNASSIGNED: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_PAUSED: RunState
RUN_STATE_FAILED: RunState
RUN_STATE_RESTARTING: RunState
RUN_STATE_STOPPED: RunState
RUN_STATE_COMPLETED: RunState

class ListEventsRequest(_message.Message):
    __slots__ = ("connector", "after", "limit", "generation")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    connector: str
    after: int
    limit: int
    generation: str
    def __init__(self, connector: _Optional[str] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ..., generation: _Optional[str] = ...) -> None: ...

class ListEventsResponse(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class ListLogLinesRequest(_message.Message):
    __slots__ = ("connector", "level", "tail", "generation")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    connector: str
    level: str
    tail: int
    generation: str
    def __init__(self, connector: _Optional[str] = ..., level: _Optional[str] = ..., tail: _Optional[int] = ..., generation: _Optional[str] = ...) -> None: ...

class ListLogLinesResponse(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[StoredLogLine]
    def __init__(self, lines: _Optional[_Iterable[_Union[StoredLogLine, _Mapping]]] = ...) -> None: ...

class StoredLogLine(_message.Message):
    __slots__ = ("worker_id", "line", "number")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    line: _worker_service_pb2.LogLine
    number: int
    def __init__(self, worker_id: _Optional[str] = ..., line: _Optional[_Union[_worker_service_pb2.LogLine, _Mapping]] = ..., number: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("number", "at_ms", "kind", "connector", "task", "worker", "message")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    number: int
    at_ms: int
    kind: str
    connector: str
    task: str
    worker: str
    message: str
    def __init__(self, number: _Optional[int] = ..., at_ms: _Optional[int] = ..., kind: _Optional[str] = ..., connector: _Optional[str] = ..., task: _Optional[str] = ..., worker: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("worker_id", "address", "labels", "tasks", "seen_revision", "name", "draining", "capacity", "monitors", "partial", "released_tasks")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    SEEN_REVISION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MONITORS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TASKS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    address: str
    labels: _containers.ScalarMap[str, str]
    tasks: _containers.RepeatedCompositeFieldContainer[_worker_service_pb2.TaskStatus]
    seen_revision: int
    name: str
    draining: bool
    capacity: float
    monitors: _containers.RepeatedCompositeFieldContainer[MonitorReport]
    partial: bool
    released_tasks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, worker_id: _Optional[str] = ..., address: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., tasks: _Optional[_Iterable[_Union[_worker_service_pb2.TaskStatus, _Mapping]]] = ..., seen_revision: _Optional[int] = ..., name: _Optional[str] = ..., draining: bool = ..., capacity: _Optional[float] = ..., monitors: _Optional[_Iterable[_Union[MonitorReport, _Mapping]]] = ..., partial: bool = ..., released_tasks: _Optional[_Iterable[str]] = ...) -> None: ...

class MonitorReport(_message.Message):
    __slots__ = ("generation", "replan")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REPLAN_FIELD_NUMBER: _ClassVar[int]
    generation: str
    replan: str
    def __init__(self, generation: _Optional[str] = ..., replan: _Optional[str] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("revision", "tasks", "kept", "more", "monitors", "takes_partial_requests")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    MONITORS_FIELD_NUMBER: _ClassVar[int]
    TAKES_PARTIAL_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    tasks: _containers.RepeatedCompositeFieldContainer[_worker_service_pb2.StartTaskRequest]
    kept: _containers.RepeatedCompositeFieldContainer[KeptTask]
    more: bool
    monitors: _containers.RepeatedCompositeFieldContainer[MonitorAssignment]
    takes_partial_requests: bool
    def __init__(self, revision: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[_worker_service_pb2.StartTaskRequest, _Mapping]]] = ..., kept: _Optional[_Iterable[_Union[KeptTask, _Mapping]]] = ..., more: bool = ..., monitors: _Optional[_Iterable[_Union[MonitorAssignment, _Mapping]]] = ..., takes_partial_requests: bool = ...) -> None: ...

class MonitorAssignment(_message.Message):
    __slots__ = ("task_id", "connector", "epoch", "plan_epoch")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PLAN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    connector: _config_service_pb2.Connector
    epoch: int
    plan_epoch: int
    def __init__(self, task_id: _Optional[str] = ..., connector: _Optional[_Union[_config_service_pb2.Connector, _Mapping]] = ..., epoch: _Optional[int] = ..., plan_epoch: _Optional[int] = ...) -> None: ...

class KeptTask(_message.Message):
    __slots__ = ("task_id", "epoch", "target_state")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TARGET_STATE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    epoch: int
    target_state: _config_service_pb2.TargetState
    def __init__(self, task_id: _Optional[str] = ..., epoch: _Optional[int] = ..., target_state: _Optional[_Union[_config_service_pb2.TargetState, str]] = ...) -> None: ...

class RunStatus(_message.Message):
    __slots__ = ("task_id", "state", "worker_id", "epoch", "diagnostic", "restarts", "task")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTIC_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    state: RunState
    worker_id: str
    epoch: int
    diagnostic: _diagnostic_pb2.Diagnostic
    restarts: int
    task: _worker_service_pb2.TaskStatus
    def __init__(self, task_id: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., worker_id: _Optional[str] = ..., epoch: _Optional[int] = ..., diagnostic: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., restarts: _Optional[int] = ..., task: _Optional[_Union[_worker_service_pb2.TaskStatus, _Mapping]] = ...) -> None: ...

class ConnectorStatus(_message.Message):
    __slots__ = ("name", "generation", "kind", "state", "worker_id", "diagnostic", "tasks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTIC_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    generation: str
    kind: _config_service_pb2.ConnectorKind
    state: RunState
    worker_id: str
    diagnostic: _diagnostic_pb2.Diagnostic
    tasks: _containers.RepeatedCompositeFieldContainer[RunStatus]
    def __init__(self, name: _Optional[str] = ..., generation: _Optional[str] = ..., kind: _Optional[_Union[_config_service_pb2.ConnectorKind, str]] = ..., state: _Optional[_Union[RunState, str]] = ..., worker_id: _Optional[str] = ..., diagnostic: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., tasks: _Optional[_Iterable[_Union[RunStatus, _Mapping]]] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClusterResponse(_message.Message):
    __slots__ = ("leader", "revision", "workers", "unassigned", "moving", "rebalances")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    UNASSIGNED_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    REBALANCES_FIELD_NUMBER: _ClassVar[int]
    leader: str
    revision: int
    workers: _containers.RepeatedCompositeFieldContainer[WorkerStatus]
    unassigned: int
    moving: int
    rebalances: Rebalances
    def __init__(self, leader: _Optional[str] = ..., revision: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[WorkerStatus, _Mapping]]] = ..., unassigned: _Optional[int] = ..., moving: _Optional[int] = ..., rebalances: _Optional[_Union[Rebalances, _Mapping]] = ...) -> None: ...

class Rebalances(_message.Message):
    __slots__ = ("completed", "mean_seconds", "max_seconds")
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    MEAN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    completed: int
    mean_seconds: float
    max_seconds: float
    def __init__(self, completed: _Optional[int] = ..., mean_seconds: _Optional[float] = ..., max_seconds: _Optional[float] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("worker_id", "name", "address", "labels", "draining", "connected", "tasks", "leaving")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    name: str
    address: str
    labels: _containers.ScalarMap[str, str]
    draining: bool
    connected: bool
    tasks: int
    leaving: int
    def __init__(self, worker_id: _Optional[str] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., draining: bool = ..., connected: bool = ..., tasks: _Optional[int] = ..., leaving: _Optional[int] = ...) -> None: ...

class ListStatusRequest(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: str
    def __init__(self, connector: _Optional[str] = ...) -> None: ...

class ListStatusResponse(_message.Message):
    __slots__ = ("connector", "following")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_FIELD_NUMBER: _ClassVar[int]
    connector: ConnectorStatus
    following: _containers.RepeatedCompositeFieldContainer[ConnectorStatus]
    def __init__(self, connector: _Optional[_Union[ConnectorStatus, _Mapping]] = ..., following: _Optional[_Iterable[_Union[ConnectorStatus, _Mapping]]] = ...) -> None: ...

class ListHeldTasksRequest(_message.Message):
    __slots__ = ("generation",)
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    generation: str
    def __init__(self, generation: _Optional[str] = ...) -> None: ...

class ListHeldTasksResponse(_message.Message):
    __slots__ = ("task_ids", "revision")
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    revision: int
    def __init__(self, task_ids: _Optional[_Iterable[str]] = ..., revision: _Optional[int] = ...) -> None: ...

class ListTaskPlansRequest(_message.Message):
    __slots__ = ("generation",)
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    generation: str
    def __init__(self, generation: _Optional[str] = ...) -> None: ...

class ListTaskPlansResponse(_message.Message):
    __slots__ = ("plans",)
    PLANS_FIELD_NUMBER: _ClassVar[int]
    plans: _containers.RepeatedCompositeFieldContainer[_connector_service_pb2.TaskPlan]
    def __init__(self, plans: _Optional[_Iterable[_Union[_connector_service_pb2.TaskPlan, _Mapping]]] = ...) -> None: ...

class DrainWorkerRequest(_message.Message):
    __slots__ = ("worker_id", "undo")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    undo: bool
    def __init__(self, worker_id: _Optional[str] = ..., undo: bool = ...) -> None: ...

class DrainWorkerResponse(_message.Message):
    __slots__ = ("tasks_left",)
    TASKS_LEFT_FIELD_NUMBER: _ClassVar[int]
    tasks_left: int
    def __init__(self, tasks_left: _Optional[int] = ...) -> None: ...
