import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Limits(_message.Message):
    __slots__ = ("max_message_bytes", "target_batch_bytes", "max_batch_rows", "linger")
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TARGET_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_ROWS_FIELD_NUMBER: _ClassVar[int]
    LINGER_FIELD_NUMBER: _ClassVar[int]
    max_message_bytes: int
    target_batch_bytes: int
    max_batch_rows: int
    linger: _duration_pb2.Duration
    def __init__(self, max_message_bytes: _Optional[int] = ..., target_batch_bytes: _Optional[int] = ..., max_batch_rows: _Optional[int] = ..., linger: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("bytes", "batches")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    batches: int
    def __init__(self, bytes: _Optional[int] = ..., batches: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("partition_id", "lag_records", "lag_bytes", "watermark_us", "estimated_rows", "phase", "resumes_at", "metrics", "committed_checkpoint_id")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    LAG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_ROWS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    RESUMES_AT_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    lag_records: int
    lag_bytes: int
    watermark_us: int
    estimated_rows: int
    phase: str
    resumes_at: _timestamp_pb2.Timestamp
    metrics: _containers.ScalarMap[str, float]
    committed_checkpoint_id: int
    def __init__(self, partition_id: _Optional[str] = ..., lag_records: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., watermark_us: _Optional[int] = ..., estimated_rows: _Optional[int] = ..., phase: _Optional[str] = ..., resumes_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., metrics: _Optional[_Mapping[str, float]] = ..., committed_checkpoint_id: _Optional[int] = ...) -> None: ...
