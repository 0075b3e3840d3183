import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from penstock.api.connector.v1 import connector_service_pb2 as _connector_service_pb2
from penstock.api.connector.v1 import types_pb2 as _types_pb2
from penstock.api.error.v1 import diagnostic_pb2 as _diagnostic_pb2
from penstock.api.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FetchRequest(_message.Message):
    __slots__ = ("task_id", "epoch", "from_seq", "to_seq", "seqs")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    TO_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEQS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    epoch: int
    from_seq: int
    to_seq: int
    seqs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, task_id: _Optional[str] = ..., epoch: _Optional[int] = ..., from_seq: _Optional[int] = ..., to_seq: _Optional[int] = ..., seqs: _Optional[_Iterable[int]] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: _record_pb2.Batch
    def __init__(self, batch: _Optional[_Union[_record_pb2.Batch, _Mapping]] = ...) -> None: ...

class BatchReady(_message.Message):
    __slots__ = ("seq", "schema_id", "partition_id", "rows", "bytes", "max_event_time_us", "traceparent")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_EVENT_TIME_US_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    schema_id: int
    partition_id: str
    rows: int
    bytes: int
    max_event_time_us: int
    traceparent: str
    def __init__(self, seq: _Optional[int] = ..., schema_id: _Optional[int] = ..., partition_id: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., max_event_time_us: _Optional[int] = ..., traceparent: _Optional[str] = ...) -> None: ...

class ReadRelease(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("open", "credit", "committed", "nack", "assign", "pause", "drain", "config_update", "release")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    CONFIG_UPDATE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    open: ReadOpen
    credit: _types_pb2.Credit
    committed: ReadCommitted
    nack: ReadNack
    assign: ReadAssign
    pause: ReadPause
    drain: ReadDrain
    config_update: _connector_service_pb2.ConfigUpdate
    release: ReadRelease
    def __init__(self, open: _Optional[_Union[ReadOpen, _Mapping]] = ..., credit: _Optional[_Union[_types_pb2.Credit, _Mapping]] = ..., committed: _Optional[_Union[ReadCommitted, _Mapping]] = ..., nack: _Optional[_Union[ReadNack, _Mapping]] = ..., assign: _Optional[_Union[ReadAssign, _Mapping]] = ..., pause: _Optional[_Union[ReadPause, _Mapping]] = ..., drain: _Optional[_Union[ReadDrain, _Mapping]] = ..., config_update: _Optional[_Union[_connector_service_pb2.ConfigUpdate, _Mapping]] = ..., release: _Optional[_Union[ReadRelease, _Mapping]] = ...) -> None: ...

class ReadOpen(_message.Message):
    __slots__ = ("target", "task", "epoch", "encodings", "limits", "transaction_boundaries", "known_schemas", "credit")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENCODINGS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_BOUNDARIES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    target: _connector_service_pb2.Target
    task: _connector_service_pb2.TaskPlan
    epoch: int
    encodings: _containers.RepeatedScalarFieldContainer[_record_pb2.Encoding]
    limits: _types_pb2.Limits
    transaction_boundaries: bool
    known_schemas: _containers.RepeatedCompositeFieldContainer[_record_pb2.Schema]
    credit: _types_pb2.Credit
    def __init__(self, target: _Optional[_Union[_connector_service_pb2.Target, _Mapping]] = ..., task: _Optional[_Union[_connector_service_pb2.TaskPlan, _Mapping]] = ..., epoch: _Optional[int] = ..., encodings: _Optional[_Iterable[_Union[_record_pb2.Encoding, str]]] = ..., limits: _Optional[_Union[_types_pb2.Limits, _Mapping]] = ..., transaction_boundaries: bool = ..., known_schemas: _Optional[_Iterable[_Union[_record_pb2.Schema, _Mapping]]] = ..., credit: _Optional[_Union[_types_pb2.Credit, _Mapping]] = ...) -> None: ...

class ReadCommitted(_message.Message):
    __slots__ = ("checkpoint_id",)
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    def __init__(self, checkpoint_id: _Optional[int] = ...) -> None: ...

class ReadNack(_message.Message):
    __slots__ = ("checkpoint_id", "seq", "rows", "reason", "delay", "max_deliveries")
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    seq: int
    rows: _containers.RepeatedScalarFieldContainer[int]
    reason: _diagnostic_pb2.Diagnostic
    delay: _duration_pb2.Duration
    max_deliveries: int
    def __init__(self, checkpoint_id: _Optional[int] = ..., seq: _Optional[int] = ..., rows: _Optional[_Iterable[int]] = ..., reason: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_deliveries: _Optional[int] = ...) -> None: ...

class ReadAssign(_message.Message):
    __slots__ = ("add", "remove")
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    add: _containers.RepeatedCompositeFieldContainer[_record_pb2.Partition]
    remove: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, add: _Optional[_Iterable[_Union[_record_pb2.Partition, _Mapping]]] = ..., remove: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadPause(_message.Message):
    __slots__ = ("pause", "resume", "all_partitions")
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    ALL_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    pause: _containers.RepeatedScalarFieldContainer[str]
    resume: _containers.RepeatedScalarFieldContainer[str]
    all_partitions: bool
    def __init__(self, pause: _Optional[_Iterable[str]] = ..., resume: _Optional[_Iterable[str]] = ..., all_partitions: bool = ...) -> None: ...

class ReadDrain(_message.Message):
    __slots__ = ("grace", "discard")
    GRACE_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    grace: _duration_pb2.Duration
    discard: bool
    def __init__(self, grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., discard: bool = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("opened", "schema", "ready", "checkpoint", "partition_done", "partition_change", "progress", "diagnostic", "config_update", "bad_row", "drained")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_DONE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_CHANGE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTIC_FIELD_NUMBER: _ClassVar[int]
    CONFIG_UPDATE_FIELD_NUMBER: _ClassVar[int]
    BAD_ROW_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    opened: ReadOpened
    schema: _record_pb2.Schema
    ready: BatchReady
    checkpoint: Checkpoint
    partition_done: PartitionDone
    partition_change: _connector_service_pb2.PartitionChange
    progress: _types_pb2.Progress
    diagnostic: _diagnostic_pb2.Diagnostic
    config_update: _connector_service_pb2.ConfigUpdate
    bad_row: BadRow
    drained: Drained
    def __init__(self, opened: _Optional[_Union[ReadOpened, _Mapping]] = ..., schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., ready: _Optional[_Union[BatchReady, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., partition_done: _Optional[_Union[PartitionDone, _Mapping]] = ..., partition_change: _Optional[_Union[_connector_service_pb2.PartitionChange, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Progress, _Mapping]] = ..., diagnostic: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., config_update: _Optional[_Union[_connector_service_pb2.ConfigUpdate, _Mapping]] = ..., bad_row: _Optional[_Union[BadRow, _Mapping]] = ..., drained: _Optional[_Union[Drained, _Mapping]] = ...) -> None: ...

class ReadOpened(_message.Message):
    __slots__ = ("encoding", "limits", "needs_commit", "heartbeat_every", "confirms_commits")
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_COMMIT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_EVERY_FIELD_NUMBER: _ClassVar[int]
    CONFIRMS_COMMITS_FIELD_NUMBER: _ClassVar[int]
    encoding: _record_pb2.Encoding
    limits: _types_pb2.Limits
    needs_commit: bool
    heartbeat_every: _duration_pb2.Duration
    confirms_commits: bool
    def __init__(self, encoding: _Optional[_Union[_record_pb2.Encoding, str]] = ..., limits: _Optional[_Union[_types_pb2.Limits, _Mapping]] = ..., needs_commit: bool = ..., heartbeat_every: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., confirms_commits: bool = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("checkpoint_id", "offsets", "rows", "last_seq", "transaction_end", "transaction_id", "watermark_us", "await_commit", "traceparent", "abort")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _record_pb2.Offset
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_record_pb2.Offset, _Mapping]] = ...) -> None: ...
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_END_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    AWAIT_COMMIT_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    offsets: _containers.MessageMap[str, _record_pb2.Offset]
    rows: int
    last_seq: int
    transaction_end: bool
    transaction_id: str
    watermark_us: int
    await_commit: bool
    traceparent: str
    abort: bool
    def __init__(self, checkpoint_id: _Optional[int] = ..., offsets: _Optional[_Mapping[str, _record_pb2.Offset]] = ..., rows: _Optional[int] = ..., last_seq: _Optional[int] = ..., transaction_end: bool = ..., transaction_id: _Optional[str] = ..., watermark_us: _Optional[int] = ..., await_commit: bool = ..., traceparent: _Optional[str] = ..., abort: bool = ...) -> None: ...

class PartitionDone(_message.Message):
    __slots__ = ("partition_id", "offset", "finished")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    offset: _record_pb2.Offset
    finished: bool
    def __init__(self, partition_id: _Optional[str] = ..., offset: _Optional[_Union[_record_pb2.Offset, _Mapping]] = ..., finished: bool = ...) -> None: ...

class BadRow(_message.Message):
    __slots__ = ("partition_id", "raw", "reason", "offset", "dataset")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    raw: bytes
    reason: _diagnostic_pb2.Diagnostic
    offset: _record_pb2.Offset
    dataset: str
    def __init__(self, partition_id: _Optional[str] = ..., raw: _Optional[bytes] = ..., reason: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ..., offset: _Optional[_Union[_record_pb2.Offset, _Mapping]] = ..., dataset: _Optional[str] = ...) -> None: ...

class Drained(_message.Message):
    __slots__ = ("checkpoint_id",)
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    def __init__(self, checkpoint_id: _Optional[int] = ...) -> None: ...
