from penstock.api.worker.v1 import worker_service_pb2 as _worker_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionRequest(_message.Message):
    __slots__ = ("worker_id", "address", "labels", "tasks")
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
    worker_id: str
    address: str
    labels: _containers.ScalarMap[str, str]
    tasks: _containers.RepeatedCompositeFieldContainer[_worker_service_pb2.TaskStatus]
    def __init__(self, worker_id: _Optional[str] = ..., address: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., tasks: _Optional[_Iterable[_Union[_worker_service_pb2.TaskStatus, _Mapping]]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("revision", "tasks")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    tasks: _containers.RepeatedCompositeFieldContainer[_worker_service_pb2.StartTaskRequest]
    def __init__(self, revision: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[_worker_service_pb2.StartTaskRequest, _Mapping]]] = ...) -> None: ...
