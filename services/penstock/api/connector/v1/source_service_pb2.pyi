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
    __slots__ = ("task_id", "epoch", "from_seq", "to_seq", "seqs", "memory_files")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    TO_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEQS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FILES_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    epoch: int
    from_seq: int
    to_seq: int
    seqs: _containers.RepeatedScalarFieldContainer[int]
    memory_files: bool
    def __init__(self, task_id: _Optional[str] = ..., epoch: _Optional[int] = ..., from_seq: _Optional[int] = ..., to_seq: _Optional[int] = ..., seqs: _Optional[_Iterable[int]] = ..., memory_files: bool = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: _record_pb2.Batch
    def __init__(self, batch: _Optional[_Union[_record_pb2.Batch, _Mapping]] = ...) -> None: ...

class ParseRowsRequest(_message.Message):
    __slots__ = ("target", "rows")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    target: _connector_service_pb2.Target
    rows: _containers.RepeatedCompositeFieldContainer[RawRow]
    def __init__(self, target: _Optional[_Union[_connector_service_pb2.Target, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[RawRow, _Mapping]]] = ...) -> None: ...

class RawRow(_message.Message):
    __slots__ = ("partition_id", "dataset", "raw", "set_json")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    SET_JSON_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    dataset: str
    raw: bytes
    set_json: str
    def __init__(self, partition_id: _Optional[str] = ..., dataset: _Optional[str] = ..., raw: _Optional[bytes] = ..., set_json: _Optional[str] = ...) -> None: ...

class ParseRowsResponse(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[ParsedRow]
    def __init__(self, rows: _Optional[_Iterable[_Union[ParsedRow, _Mapping]]] = ...) -> None: ...

class ParsedRow(_message.Message):
    __slots__ = ("schema", "row", "reason")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    schema: _record_pb2.Schema
    row: _record_pb2.Batch
    reason: _diagnostic_pb2.Diagnostic
    def __init__(self, schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., row: _Optional[_Union[_record_pb2.Batch, _Mapping]] = ..., reason: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ...) -> None: ...

class BatchReady(_message.Message):
    __slots__ = ("seq", "schema_id", "partition_id", "rows", "bytes")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    seq: int
    schema_id: int
    partition_id: str
    rows: int
    bytes: int
    def __init__(self, seq: _Optional[int] = ..., schema_id: _Optional[int] = ..., partition_id: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ReadRelease(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("open", "committed", "release")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    open: ReadOpen
    committed: ReadCommitted
    release: ReadRelease
    def __init__(self, open: _Optional[_Union[ReadOpen, _Mapping]] = ..., committed: _Optional[_Union[ReadCommitted, _Mapping]] = ..., release: _Optional[_Union[ReadRelease, _Mapping]] = ...) -> None: ...

class ReadOpen(_message.Message):
    __slots__ = ("target", "task", "epoch", "encodings", "limits", "credit", "memory_files", "until_caught_up")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENCODINGS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FILES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    target: _connector_service_pb2.Target
    task: _connector_service_pb2.TaskPlan
    epoch: int
    encodings: _containers.RepeatedScalarFieldContainer[_record_pb2.Encoding]
    limits: _types_pb2.Limits
    credit: _types_pb2.Credit
    memory_files: bool
    until_caught_up: bool
    def __init__(self, target: _Optional[_Union[_connector_service_pb2.Target, _Mapping]] = ..., task: _Optional[_Union[_connector_service_pb2.TaskPlan, _Mapping]] = ..., epoch: _Optional[int] = ..., encodings: _Optional[_Iterable[_Union[_record_pb2.Encoding, str]]] = ..., limits: _Optional[_Union[_types_pb2.Limits, _Mapping]] = ..., credit: _Optional[_Union[_types_pb2.Credit, _Mapping]] = ..., memory_files: bool = ..., until_caught_up: bool = ...) -> None: ...

class ReadCommitted(_message.Message):
    __slots__ = ("checkpoint_id",)
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    def __init__(self, checkpoint_id: _Optional[int] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("opened", "schema", "ready", "checkpoint", "partition_done", "progress", "bad_row", "drained")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_DONE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    BAD_ROW_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    opened: ReadOpened
    schema: _record_pb2.Schema
    ready: BatchReady
    checkpoint: Checkpoint
    partition_done: PartitionDone
    progress: _types_pb2.Progress
    bad_row: BadRow
    drained: Drained
    def __init__(self, opened: _Optional[_Union[ReadOpened, _Mapping]] = ..., schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., ready: _Optional[_Union[BatchReady, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., partition_done: _Optional[_Union[PartitionDone, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Progress, _Mapping]] = ..., bad_row: _Optional[_Union[BadRow, _Mapping]] = ..., drained: _Optional[_Union[Drained, _Mapping]] = ...) -> None: ...

class ReadOpened(_message.Message):
    __slots__ = ("encoding", "needs_commit", "heartbeat_every", "confirms_commits", "ends_when_caught_up")
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    NEEDS_COMMIT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_EVERY_FIELD_NUMBER: _ClassVar[int]
    CONFIRMS_COMMITS_FIELD_NUMBER: _ClassVar[int]
    ENDS_WHEN_CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    encoding: _record_pb2.Encoding
    needs_commit: bool
    heartbeat_every: _duration_pb2.Duration
    confirms_commits: bool
    ends_when_caught_up: bool
    def __init__(self, encoding: _Optional[_Union[_record_pb2.Encoding, str]] = ..., needs_commit: bool = ..., heartbeat_every: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., confirms_commits: bool = ..., ends_when_caught_up: bool = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("checkpoint_id", "offsets", "rows", "last_seq", "await_commit")
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
    AWAIT_COMMIT_FIELD_NUMBER: _ClassVar[int]
    checkpoint_id: int
    offsets: _containers.MessageMap[str, _record_pb2.Offset]
    rows: int
    last_seq: int
    await_commit: bool
    def __init__(self, checkpoint_id: _Optional[int] = ..., offsets: _Optional[_Mapping[str, _record_pb2.Offset]] = ..., rows: _Optional[int] = ..., last_seq: _Optional[int] = ..., await_commit: bool = ...) -> None: ...

class PartitionDone(_message.Message):
    __slots__ = ("partition_id",)
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    def __init__(self, partition_id: _Optional[str] = ...) -> None: ...

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
