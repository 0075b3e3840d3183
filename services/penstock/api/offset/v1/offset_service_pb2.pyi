from penstock.api.connector.v1 import sink_service_pb2 as _sink_service_pb2
from penstock.api.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PartitionOffset(_message.Message):
    __slots__ = ("partition_id", "offset")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    offset: _record_pb2.Offset
    def __init__(self, partition_id: _Optional[str] = ..., offset: _Optional[_Union[_record_pb2.Offset, _Mapping]] = ...) -> None: ...

class ClaimTaskRequest(_message.Message):
    __slots__ = ("generation", "task_id", "epoch")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    generation: str
    task_id: str
    epoch: int
    def __init__(self, generation: _Optional[str] = ..., task_id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class ClaimTaskResponse(_message.Message):
    __slots__ = ("last_prepared", "recover")
    LAST_PREPARED_FIELD_NUMBER: _ClassVar[int]
    RECOVER_FIELD_NUMBER: _ClassVar[int]
    last_prepared: _sink_service_pb2.PreparedTxn
    recover: bool
    def __init__(self, last_prepared: _Optional[_Union[_sink_service_pb2.PreparedTxn, _Mapping]] = ..., recover: bool = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("generation", "task_id", "epoch", "offsets", "prepared", "applied_txn_id")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    APPLIED_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    generation: str
    task_id: str
    epoch: int
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    prepared: _sink_service_pb2.PreparedTxn
    applied_txn_id: int
    def __init__(self, generation: _Optional[str] = ..., task_id: _Optional[str] = ..., epoch: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ..., prepared: _Optional[_Union[_sink_service_pb2.PreparedTxn, _Mapping]] = ..., applied_txn_id: _Optional[int] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class GetOffsetsRequest(_message.Message):
    __slots__ = ("generation", "partition_ids")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_IDS_FIELD_NUMBER: _ClassVar[int]
    generation: str
    partition_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[str] = ..., partition_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("generation", "prefix")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    generation: str
    prefix: str
    def __init__(self, generation: _Optional[str] = ..., prefix: _Optional[str] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ...) -> None: ...

class AlterOffsetsRequest(_message.Message):
    __slots__ = ("connector", "generation", "offsets")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    connector: str
    generation: str
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    def __init__(self, connector: _Optional[str] = ..., generation: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ...) -> None: ...

class AlterOffsetsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("connector", "generation")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    connector: str
    generation: str
    def __init__(self, connector: _Optional[str] = ..., generation: _Optional[str] = ...) -> None: ...

class ResetOffsetsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...
