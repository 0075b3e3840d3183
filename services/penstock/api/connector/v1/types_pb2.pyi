from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Limits(_message.Message):
    __slots__ = ("max_message_bytes", "target_batch_bytes", "max_batch_rows")
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TARGET_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_ROWS_FIELD_NUMBER: _ClassVar[int]
    max_message_bytes: int
    target_batch_bytes: int
    max_batch_rows: int
    def __init__(self, max_message_bytes: _Optional[int] = ..., target_batch_bytes: _Optional[int] = ..., max_batch_rows: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("bytes", "batches")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    batches: int
    def __init__(self, bytes: _Optional[int] = ..., batches: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("lag_records", "lag_bytes", "metrics", "committed_checkpoint_id")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    LAG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    lag_records: int
    lag_bytes: int
    metrics: _containers.ScalarMap[str, float]
    committed_checkpoint_id: int
    def __init__(self, lag_records: _Optional[int] = ..., lag_bytes: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., committed_checkpoint_id: _Optional[int] = ...) -> None: ...
