from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENCODING_UNSPECIFIED: _ClassVar[Encoding]
    ENCODING_ARROW_IPC: _ClassVar[Encoding]
    ENCODING_JSON_LINES: _ClassVar[Encoding]

class Op(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OP_UNSPECIFIED: _ClassVar[Op]
    OP_CREATE: _ClassVar[Op]
    OP_UPDATE: _ClassVar[Op]
    OP_DELETE: _ClassVar[Op]
    OP_SNAPSHOT: _ClassVar[Op]
    OP_UPSERT: _ClassVar[Op]
    OP_PATCH: _ClassVar[Op]
    OP_TRUNCATE: _ClassVar[Op]

class Compat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPAT_UNSPECIFIED: _ClassVar[Compat]
    COMPAT_ADDITIVE: _ClassVar[Compat]
    COMPAT_WIDENING: _ClassVar[Compat]
    COMPAT_BREAKING: _ClassVar[Compat]
ENCODING_UNSPECIFIED: Encoding
ENCODING_ARROW_IPC: Encoding
ENCODING_JSON_LINES: Encoding
OP_UNSPECIFIED: Op
OP_CREATE: Op
OP_UPDATE: Op
OP_DELETE: Op
OP_SNAPSHOT: Op
OP_UPSERT: Op
OP_PATCH: Op
OP_TRUNCATE: Op
COMPAT_UNSPECIFIED: Compat
COMPAT_ADDITIVE: Compat
COMPAT_WIDENING: Compat
COMPAT_BREAKING: Compat

class Value(_message.Message):
    __slots__ = ("bool_value", "int_value", "double_value", "string_value", "bytes_value", "decimal_value", "timestamp_us", "date_days", "list_value", "struct_value")
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTES_VALUE_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    DATE_DAYS_FIELD_NUMBER: _ClassVar[int]
    LIST_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRUCT_VALUE_FIELD_NUMBER: _ClassVar[int]
    bool_value: bool
    int_value: int
    double_value: float
    string_value: str
    bytes_value: bytes
    decimal_value: str
    timestamp_us: int
    date_days: int
    list_value: ListValue
    struct_value: StructValue
    def __init__(self, bool_value: bool = ..., int_value: _Optional[int] = ..., double_value: _Optional[float] = ..., string_value: _Optional[str] = ..., bytes_value: _Optional[bytes] = ..., decimal_value: _Optional[str] = ..., timestamp_us: _Optional[int] = ..., date_days: _Optional[int] = ..., list_value: _Optional[_Union[ListValue, _Mapping]] = ..., struct_value: _Optional[_Union[StructValue, _Mapping]] = ...) -> None: ...

class ListValue(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, items: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class StructValue(_message.Message):
    __slots__ = ("fields",)
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.MessageMap[str, Value]
    def __init__(self, fields: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class Offset(_message.Message):
    __slots__ = ("fields", "opaque")
    class FieldsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    OPAQUE_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.MessageMap[str, Value]
    opaque: bytes
    def __init__(self, fields: _Optional[_Mapping[str, Value]] = ..., opaque: _Optional[bytes] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("partition_id", "key", "payload", "offset", "epoch", "datasets", "after_partitions", "weight", "bounded", "finds_others")
    class KeyEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    AFTER_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    BOUNDED_FIELD_NUMBER: _ClassVar[int]
    FINDS_OTHERS_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    key: _containers.MessageMap[str, Value]
    payload: bytes
    offset: Offset
    epoch: int
    datasets: _containers.RepeatedScalarFieldContainer[str]
    after_partitions: _containers.RepeatedScalarFieldContainer[str]
    weight: float
    bounded: bool
    finds_others: bool
    def __init__(self, partition_id: _Optional[str] = ..., key: _Optional[_Mapping[str, Value]] = ..., payload: _Optional[bytes] = ..., offset: _Optional[_Union[Offset, _Mapping]] = ..., epoch: _Optional[int] = ..., datasets: _Optional[_Iterable[str]] = ..., after_partitions: _Optional[_Iterable[str]] = ..., weight: _Optional[float] = ..., bounded: bool = ..., finds_others: bool = ...) -> None: ...

class Schema(_message.Message):
    __slots__ = ("schema_id", "dataset", "arrow_schema", "key_columns", "registry_version", "fingerprint", "compat", "ddl")
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ARROW_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_VERSION_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    COMPAT_FIELD_NUMBER: _ClassVar[int]
    DDL_FIELD_NUMBER: _ClassVar[int]
    schema_id: int
    dataset: str
    arrow_schema: bytes
    key_columns: _containers.RepeatedScalarFieldContainer[str]
    registry_version: int
    fingerprint: bytes
    compat: Compat
    ddl: str
    def __init__(self, schema_id: _Optional[int] = ..., dataset: _Optional[str] = ..., arrow_schema: _Optional[bytes] = ..., key_columns: _Optional[_Iterable[str]] = ..., registry_version: _Optional[int] = ..., fingerprint: _Optional[bytes] = ..., compat: _Optional[_Union[Compat, str]] = ..., ddl: _Optional[str] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("seq", "schema_id", "partition_id", "rows", "op", "encoding", "data", "file", "last_offset", "max_event_time_us", "traceparent", "tracestate", "crc32c", "chunk", "more_chunks", "txn_id")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_EVENT_TIME_US_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    MORE_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    seq: int
    schema_id: int
    partition_id: str
    rows: int
    op: Op
    encoding: Encoding
    data: bytes
    file: FileRef
    last_offset: Offset
    max_event_time_us: int
    traceparent: str
    tracestate: str
    crc32c: int
    chunk: int
    more_chunks: bool
    txn_id: int
    def __init__(self, seq: _Optional[int] = ..., schema_id: _Optional[int] = ..., partition_id: _Optional[str] = ..., rows: _Optional[int] = ..., op: _Optional[_Union[Op, str]] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., data: _Optional[bytes] = ..., file: _Optional[_Union[FileRef, _Mapping]] = ..., last_offset: _Optional[_Union[Offset, _Mapping]] = ..., max_event_time_us: _Optional[int] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., crc32c: _Optional[int] = ..., chunk: _Optional[int] = ..., more_chunks: bool = ..., txn_id: _Optional[int] = ...) -> None: ...

class FileRef(_message.Message):
    __slots__ = ("uri", "format", "offset", "length", "consume")
    URI_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    CONSUME_FIELD_NUMBER: _ClassVar[int]
    uri: str
    format: str
    offset: int
    length: int
    consume: bool
    def __init__(self, uri: _Optional[str] = ..., format: _Optional[str] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., consume: bool = ...) -> None: ...
