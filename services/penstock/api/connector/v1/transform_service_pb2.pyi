from penstock.api.connector.v1 import connector_service_pb2 as _connector_service_pb2
from penstock.api.error.v1 import diagnostic_pb2 as _diagnostic_pb2
from penstock.api.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TransformRequest(_message.Message):
    __slots__ = ("open", "schema", "batch")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    open: TransformOpen
    schema: _record_pb2.Schema
    batch: _record_pb2.Batch
    def __init__(self, open: _Optional[_Union[TransformOpen, _Mapping]] = ..., schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., batch: _Optional[_Union[_record_pb2.Batch, _Mapping]] = ...) -> None: ...

class TransformOpen(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: _connector_service_pb2.Target
    def __init__(self, target: _Optional[_Union[_connector_service_pb2.Target, _Mapping]] = ...) -> None: ...

class TransformResponse(_message.Message):
    __slots__ = ("schema", "out")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    OUT_FIELD_NUMBER: _ClassVar[int]
    schema: _record_pb2.Schema
    out: TransformOut
    def __init__(self, schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., out: _Optional[_Union[TransformOut, _Mapping]] = ...) -> None: ...

class TransformOut(_message.Message):
    __slots__ = ("input_seq", "batch", "input_rows", "filtered", "failed", "more")
    INPUT_SEQ_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    INPUT_ROWS_FIELD_NUMBER: _ClassVar[int]
    FILTERED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    input_seq: int
    batch: _record_pb2.Batch
    input_rows: _containers.RepeatedScalarFieldContainer[int]
    filtered: _containers.RepeatedScalarFieldContainer[int]
    failed: _containers.RepeatedCompositeFieldContainer[RowFailure]
    more: bool
    def __init__(self, input_seq: _Optional[int] = ..., batch: _Optional[_Union[_record_pb2.Batch, _Mapping]] = ..., input_rows: _Optional[_Iterable[int]] = ..., filtered: _Optional[_Iterable[int]] = ..., failed: _Optional[_Iterable[_Union[RowFailure, _Mapping]]] = ..., more: bool = ...) -> None: ...

class RowFailure(_message.Message):
    __slots__ = ("row", "reason")
    ROW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    row: int
    reason: _diagnostic_pb2.Diagnostic
    def __init__(self, row: _Optional[int] = ..., reason: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ...) -> None: ...

class ConvertRequest(_message.Message):
    __slots__ = ("open", "schema", "batch")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    open: ConvertOpen
    schema: _record_pb2.Schema
    batch: _record_pb2.Batch
    def __init__(self, open: _Optional[_Union[ConvertOpen, _Mapping]] = ..., schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., batch: _Optional[_Union[_record_pb2.Batch, _Mapping]] = ...) -> None: ...

class ConvertOpen(_message.Message):
    __slots__ = ("target", "serialize", "key", "dataset")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SERIALIZE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    target: _connector_service_pb2.Target
    serialize: bool
    key: bool
    dataset: str
    def __init__(self, target: _Optional[_Union[_connector_service_pb2.Target, _Mapping]] = ..., serialize: bool = ..., key: bool = ..., dataset: _Optional[str] = ...) -> None: ...

class ConvertResponse(_message.Message):
    __slots__ = ("schema", "out")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    OUT_FIELD_NUMBER: _ClassVar[int]
    schema: _record_pb2.Schema
    out: TransformOut
    def __init__(self, schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., out: _Optional[_Union[TransformOut, _Mapping]] = ...) -> None: ...
