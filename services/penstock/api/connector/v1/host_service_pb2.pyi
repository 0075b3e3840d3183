import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from penstock.api.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetOffsetsRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ...) -> None: ...

class GetOffsetsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ...) -> None: ...

class RegisterSchemaRequest(_message.Message):
    __slots__ = ("subject", "format", "definition")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    subject: str
    format: str
    definition: bytes
    def __init__(self, subject: _Optional[str] = ..., format: _Optional[str] = ..., definition: _Optional[bytes] = ...) -> None: ...

class RegisterSchemaResponse(_message.Message):
    __slots__ = ("version", "id", "compat")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    COMPAT_FIELD_NUMBER: _ClassVar[int]
    version: int
    id: int
    compat: _record_pb2.Compat
    def __init__(self, version: _Optional[int] = ..., id: _Optional[int] = ..., compat: _Optional[_Union[_record_pb2.Compat, str]] = ...) -> None: ...

class GetSchemaRequest(_message.Message):
    __slots__ = ("id", "subject", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: int
    subject: str
    version: int
    def __init__(self, id: _Optional[int] = ..., subject: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GetSchemaResponse(_message.Message):
    __slots__ = ("format", "definition", "id", "version")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    format: str
    definition: bytes
    id: int
    version: int
    def __init__(self, format: _Optional[str] = ..., definition: _Optional[bytes] = ..., id: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class GetStateRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class GetStateResponse(_message.Message):
    __slots__ = ("value", "revision")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    revision: int
    def __init__(self, value: _Optional[bytes] = ..., revision: _Optional[int] = ...) -> None: ...

class PutStateRequest(_message.Message):
    __slots__ = ("key", "value", "expected_revision", "epoch")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    expected_revision: int
    epoch: int
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ..., expected_revision: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class PutStateResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class PushLogsRequest(_message.Message):
    __slots__ = ("time", "severity_number", "body", "attributes", "traceparent", "task_id")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _record_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_record_pb2.Value, _Mapping]] = ...) -> None: ...
    TIME_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    time: _timestamp_pb2.Timestamp
    severity_number: int
    body: str
    attributes: _containers.MessageMap[str, _record_pb2.Value]
    traceparent: str
    task_id: str
    def __init__(self, time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., severity_number: _Optional[int] = ..., body: _Optional[str] = ..., attributes: _Optional[_Mapping[str, _record_pb2.Value]] = ..., traceparent: _Optional[str] = ..., task_id: _Optional[str] = ...) -> None: ...

class PushLogsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
