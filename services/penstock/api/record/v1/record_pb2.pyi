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
    __slots__ = ("partition_id", "key", "payload", "offset", "datasets", "weight", "bounded", "finds_others", "range")
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
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    BOUNDED_FIELD_NUMBER: _ClassVar[int]
    FINDS_OTHERS_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    key: _containers.MessageMap[str, Value]
    payload: bytes
    offset: Offset
    datasets: _containers.RepeatedScalarFieldContainer[str]
    weight: float
    bounded: bool
    finds_others: bool
    range: PartitionRange
    def __init__(self, partition_id: _Optional[str] = ..., key: _Optional[_Mapping[str, Value]] = ..., payload: _Optional[bytes] = ..., offset: _Optional[_Union[Offset, _Mapping]] = ..., datasets: _Optional[_Iterable[str]] = ..., weight: _Optional[float] = ..., bounded: bool = ..., finds_others: bool = ..., range: _Optional[_Union[PartitionRange, _Mapping]] = ...) -> None: ...

class PartitionRange(_message.Message):
    __slots__ = ("field", "start", "end")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    field: str
    start: str
    end: str
    def __init__(self, field: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ...) -> None: ...

class Schema(_message.Message):
    __slots__ = ("schema_id", "dataset", "arrow_schema", "key_columns")
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ARROW_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    schema_id: int
    dataset: str
    arrow_schema: bytes
    key_columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, schema_id: _Optional[int] = ..., dataset: _Optional[str] = ..., arrow_schema: _Optional[bytes] = ..., key_columns: _Optional[_Iterable[str]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("seq", "schema_id", "rows", "encoding", "data", "chunk", "more_chunks", "memory_file")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    MORE_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FILE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    schema_id: int
    rows: int
    encoding: Encoding
    data: bytes
    chunk: int
    more_chunks: bool
    memory_file: MemoryFile
    def __init__(self, seq: _Optional[int] = ..., schema_id: _Optional[int] = ..., rows: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., data: _Optional[bytes] = ..., chunk: _Optional[int] = ..., more_chunks: bool = ..., memory_file: _Optional[_Union[MemoryFile, _Mapping]] = ...) -> None: ...

class MemoryFile(_message.Message):
    __slots__ = ("process_id", "descriptor", "bytes", "name")
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    process_id: int
    descriptor: int
    bytes: int
    name: str
    def __init__(self, process_id: _Optional[int] = ..., descriptor: _Optional[int] = ..., bytes: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...
