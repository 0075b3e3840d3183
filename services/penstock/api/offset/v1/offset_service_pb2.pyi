import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
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
    __slots__ = ("last_prepared", "recover", "floor", "claim")
    LAST_PREPARED_FIELD_NUMBER: _ClassVar[int]
    RECOVER_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    last_prepared: _sink_service_pb2.PreparedTxn
    recover: bool
    floor: int
    claim: int
    def __init__(self, last_prepared: _Optional[_Union[_sink_service_pb2.PreparedTxn, _Mapping]] = ..., recover: bool = ..., floor: _Optional[int] = ..., claim: _Optional[int] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("generation", "task_id", "epoch", "offsets", "prepared", "applied_txn_id", "claim")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    APPLIED_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    generation: str
    task_id: str
    epoch: int
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    prepared: _sink_service_pb2.PreparedTxn
    applied_txn_id: int
    claim: int
    def __init__(self, generation: _Optional[str] = ..., task_id: _Optional[str] = ..., epoch: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ..., prepared: _Optional[_Union[_sink_service_pb2.PreparedTxn, _Mapping]] = ..., applied_txn_id: _Optional[int] = ..., claim: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("generation", "prefix", "ranges")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    generation: str
    prefix: str
    ranges: _containers.RepeatedCompositeFieldContainer[_record_pb2.PartitionRange]
    def __init__(self, generation: _Optional[str] = ..., prefix: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[_record_pb2.PartitionRange, _Mapping]]] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[PartitionOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[PartitionOffset, _Mapping]]] = ...) -> None: ...

class CheckAlterableRequest(_message.Message):
    __slots__ = ("connector", "generation")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    connector: str
    generation: str
    def __init__(self, connector: _Optional[str] = ..., generation: _Optional[str] = ...) -> None: ...

class CheckAlterableResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

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
    __slots__ = ("connector", "generation", "forget")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    connector: str
    generation: str
    forget: bool
    def __init__(self, connector: _Optional[str] = ..., generation: _Optional[str] = ..., forget: bool = ...) -> None: ...

class ResetOffsetsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class OffsetVersion(_message.Message):
    __slots__ = ("epoch", "written_at", "offset")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    written_at: _timestamp_pb2.Timestamp
    offset: _record_pb2.Offset
    def __init__(self, epoch: _Optional[int] = ..., written_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., offset: _Optional[_Union[_record_pb2.Offset, _Mapping]] = ...) -> None: ...

class GetOffsetHistoryRequest(_message.Message):
    __slots__ = ("generation", "partition_id")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    generation: str
    partition_id: str
    def __init__(self, generation: _Optional[str] = ..., partition_id: _Optional[str] = ...) -> None: ...

class GetOffsetHistoryResponse(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[OffsetVersion]
    def __init__(self, versions: _Optional[_Iterable[_Union[OffsetVersion, _Mapping]]] = ...) -> None: ...

class RewindOffsetsRequest(_message.Message):
    __slots__ = ("connector", "generation", "to_time", "dry_run", "prefix")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TO_TIME_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    connector: str
    generation: str
    to_time: _timestamp_pb2.Timestamp
    dry_run: bool
    prefix: str
    def __init__(self, connector: _Optional[str] = ..., generation: _Optional[str] = ..., to_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., dry_run: bool = ..., prefix: _Optional[str] = ...) -> None: ...

class OffsetChange(_message.Message):
    __slots__ = ("partition_id", "before", "after", "after_written_at")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_WRITTEN_AT_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    before: _record_pb2.Offset
    after: _record_pb2.Offset
    after_written_at: _timestamp_pb2.Timestamp
    def __init__(self, partition_id: _Optional[str] = ..., before: _Optional[_Union[_record_pb2.Offset, _Mapping]] = ..., after: _Optional[_Union[_record_pb2.Offset, _Mapping]] = ..., after_written_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RewindOffsetsResponse(_message.Message):
    __slots__ = ("changes", "seen", "changed", "removed", "revision")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[OffsetChange]
    seen: int
    changed: int
    removed: int
    revision: int
    def __init__(self, changes: _Optional[_Iterable[_Union[OffsetChange, _Mapping]]] = ..., seen: _Optional[int] = ..., changed: _Optional[int] = ..., removed: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...
