import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from penstock.api.connector.v1 import connector_service_pb2 as _connector_service_pb2
from penstock.api.connector.v1 import plugin_service_pb2 as _plugin_service_pb2
from penstock.api.connector.v1 import types_pb2 as _types_pb2
from penstock.api.error.v1 import diagnostic_pb2 as _diagnostic_pb2
from penstock.api.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PutRequest(_message.Message):
    __slots__ = ("open", "batch")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    open: PutOpen
    batch: _record_pb2.Batch
    def __init__(self, open: _Optional[_Union[PutOpen, _Mapping]] = ..., batch: _Optional[_Union[_record_pb2.Batch, _Mapping]] = ...) -> None: ...

class PutOpen(_message.Message):
    __slots__ = ("task_id", "epoch", "txn_id", "slot", "attempt")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    epoch: int
    txn_id: int
    slot: int
    attempt: int
    def __init__(self, task_id: _Optional[str] = ..., epoch: _Optional[int] = ..., txn_id: _Optional[int] = ..., slot: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class PutResponse(_message.Message):
    __slots__ = ("batch_result",)
    BATCH_RESULT_FIELD_NUMBER: _ClassVar[int]
    batch_result: BatchResult
    def __init__(self, batch_result: _Optional[_Union[BatchResult, _Mapping]] = ...) -> None: ...

class PutSlot(_message.Message):
    __slots__ = ("slot", "attempt", "rows")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    attempt: int
    rows: int
    def __init__(self, slot: _Optional[int] = ..., attempt: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class WriteRequest(_message.Message):
    __slots__ = ("open", "schema", "prepare", "commit", "close", "describe")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_FIELD_NUMBER: _ClassVar[int]
    open: WriteOpen
    schema: _record_pb2.Schema
    prepare: WritePrepare
    commit: WriteCommit
    close: WriteClose
    describe: DescribeDataset
    def __init__(self, open: _Optional[_Union[WriteOpen, _Mapping]] = ..., schema: _Optional[_Union[_record_pb2.Schema, _Mapping]] = ..., prepare: _Optional[_Union[WritePrepare, _Mapping]] = ..., commit: _Optional[_Union[WriteCommit, _Mapping]] = ..., close: _Optional[_Union[WriteClose, _Mapping]] = ..., describe: _Optional[_Union[DescribeDataset, _Mapping]] = ...) -> None: ...

class DescribeDataset(_message.Message):
    __slots__ = ("dataset", "request_id")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    request_id: int
    def __init__(self, dataset: _Optional[str] = ..., request_id: _Optional[int] = ...) -> None: ...

class DatasetDescribed(_message.Message):
    __slots__ = ("request_id", "arrow_schema")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ARROW_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    arrow_schema: bytes
    def __init__(self, request_id: _Optional[int] = ..., arrow_schema: _Optional[bytes] = ...) -> None: ...

class WriteOpen(_message.Message):
    __slots__ = ("target", "task", "epoch", "commit_mode", "last_prepared", "recover", "tolerates_failed_rows")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMIT_MODE_FIELD_NUMBER: _ClassVar[int]
    LAST_PREPARED_FIELD_NUMBER: _ClassVar[int]
    RECOVER_FIELD_NUMBER: _ClassVar[int]
    TOLERATES_FAILED_ROWS_FIELD_NUMBER: _ClassVar[int]
    target: _connector_service_pb2.Target
    task: _connector_service_pb2.TaskPlan
    epoch: int
    commit_mode: _plugin_service_pb2.CommitMode
    last_prepared: PreparedTxn
    recover: bool
    tolerates_failed_rows: bool
    def __init__(self, target: _Optional[_Union[_connector_service_pb2.Target, _Mapping]] = ..., task: _Optional[_Union[_connector_service_pb2.TaskPlan, _Mapping]] = ..., epoch: _Optional[int] = ..., commit_mode: _Optional[_Union[_plugin_service_pb2.CommitMode, str]] = ..., last_prepared: _Optional[_Union[PreparedTxn, _Mapping]] = ..., recover: bool = ..., tolerates_failed_rows: bool = ...) -> None: ...

class PreparedTxn(_message.Message):
    __slots__ = ("txn_id", "epoch", "state", "token")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    epoch: int
    state: bytes
    token: bytes
    def __init__(self, txn_id: _Optional[int] = ..., epoch: _Optional[int] = ..., state: _Optional[bytes] = ..., token: _Optional[bytes] = ...) -> None: ...

class WritePrepare(_message.Message):
    __slots__ = ("txn_id", "token", "slots", "traceparent", "left_out")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    token: bytes
    slots: _containers.RepeatedCompositeFieldContainer[PutSlot]
    traceparent: str
    left_out: _containers.RepeatedCompositeFieldContainer[SlotRows]
    def __init__(self, txn_id: _Optional[int] = ..., token: _Optional[bytes] = ..., slots: _Optional[_Iterable[_Union[PutSlot, _Mapping]]] = ..., traceparent: _Optional[str] = ..., left_out: _Optional[_Iterable[_Union[SlotRows, _Mapping]]] = ...) -> None: ...

class SlotRows(_message.Message):
    __slots__ = ("slot", "rows")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, slot: _Optional[int] = ..., rows: _Optional[_Iterable[int]] = ...) -> None: ...

class WriteCommit(_message.Message):
    __slots__ = ("txn_id",)
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    def __init__(self, txn_id: _Optional[int] = ...) -> None: ...

class WriteClose(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WriteResponse(_message.Message):
    __slots__ = ("opened", "schema_applied", "prepared", "txn_committed", "progress", "closed", "described")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_APPLIED_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    TXN_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    opened: WriteOpened
    schema_applied: SchemaApplied
    prepared: Prepared
    txn_committed: TxnCommitted
    progress: _types_pb2.Progress
    closed: WriteClosed
    described: DatasetDescribed
    def __init__(self, opened: _Optional[_Union[WriteOpened, _Mapping]] = ..., schema_applied: _Optional[_Union[SchemaApplied, _Mapping]] = ..., prepared: _Optional[_Union[Prepared, _Mapping]] = ..., txn_committed: _Optional[_Union[TxnCommitted, _Mapping]] = ..., progress: _Optional[_Union[_types_pb2.Progress, _Mapping]] = ..., closed: _Optional[_Union[WriteClosed, _Mapping]] = ..., described: _Optional[_Union[DatasetDescribed, _Mapping]] = ...) -> None: ...

class WriteOpened(_message.Message):
    __slots__ = ("commit_mode", "committed", "limits", "commit_every", "describes_datasets", "reports_failed_rows")
    COMMIT_MODE_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_EVERY_FIELD_NUMBER: _ClassVar[int]
    DESCRIBES_DATASETS_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FAILED_ROWS_FIELD_NUMBER: _ClassVar[int]
    commit_mode: _plugin_service_pb2.CommitMode
    committed: PreparedTxn
    limits: _types_pb2.Limits
    commit_every: _duration_pb2.Duration
    describes_datasets: bool
    reports_failed_rows: bool
    def __init__(self, commit_mode: _Optional[_Union[_plugin_service_pb2.CommitMode, str]] = ..., committed: _Optional[_Union[PreparedTxn, _Mapping]] = ..., limits: _Optional[_Union[_types_pb2.Limits, _Mapping]] = ..., commit_every: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., describes_datasets: bool = ..., reports_failed_rows: bool = ...) -> None: ...

class SchemaApplied(_message.Message):
    __slots__ = ("schema_id", "actions", "diagnostics", "refused")
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    schema_id: int
    actions: _containers.RepeatedScalarFieldContainer[str]
    diagnostics: _containers.RepeatedCompositeFieldContainer[_diagnostic_pb2.Diagnostic]
    refused: bool
    def __init__(self, schema_id: _Optional[int] = ..., actions: _Optional[_Iterable[str]] = ..., diagnostics: _Optional[_Iterable[_Union[_diagnostic_pb2.Diagnostic, _Mapping]]] = ..., refused: bool = ...) -> None: ...

class BatchResult(_message.Message):
    __slots__ = ("seq", "all_ok", "failed")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ALL_OK_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    all_ok: bool
    failed: _containers.RepeatedCompositeFieldContainer[RowError]
    def __init__(self, seq: _Optional[int] = ..., all_ok: bool = ..., failed: _Optional[_Iterable[_Union[RowError, _Mapping]]] = ...) -> None: ...

class RowError(_message.Message):
    __slots__ = ("row", "reason")
    ROW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    row: int
    reason: _diagnostic_pb2.Diagnostic
    def __init__(self, row: _Optional[int] = ..., reason: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("txn", "failed")
    TXN_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    txn: PreparedTxn
    failed: _containers.RepeatedCompositeFieldContainer[FailedRow]
    def __init__(self, txn: _Optional[_Union[PreparedTxn, _Mapping]] = ..., failed: _Optional[_Iterable[_Union[FailedRow, _Mapping]]] = ...) -> None: ...

class FailedRow(_message.Message):
    __slots__ = ("slot", "row", "reason")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    slot: int
    row: int
    reason: _diagnostic_pb2.Diagnostic
    def __init__(self, slot: _Optional[int] = ..., row: _Optional[int] = ..., reason: _Optional[_Union[_diagnostic_pb2.Diagnostic, _Mapping]] = ...) -> None: ...

class TxnCommitted(_message.Message):
    __slots__ = ("txn_id",)
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    def __init__(self, txn_id: _Optional[int] = ...) -> None: ...

class WriteClosed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
