import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from penstock.api.record.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KIND_UNSPECIFIED: _ClassVar[Kind]
    KIND_SOURCE: _ClassVar[Kind]
    KIND_SINK: _ClassVar[Kind]
    KIND_TRANSFORM: _ClassVar[Kind]
    KIND_CONVERTER: _ClassVar[Kind]

class CommitMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMIT_MODE_UNSPECIFIED: _ClassVar[CommitMode]
    COMMIT_MODE_HOST: _ClassVar[CommitMode]
    COMMIT_MODE_SINK: _ClassVar[CommitMode]
    COMMIT_MODE_TWO_PHASE: _ClassVar[CommitMode]
    COMMIT_MODE_IDEMPOTENT: _ClassVar[CommitMode]
KIND_UNSPECIFIED: Kind
KIND_SOURCE: Kind
KIND_SINK: Kind
KIND_TRANSFORM: Kind
KIND_CONVERTER: Kind
COMMIT_MODE_UNSPECIFIED: CommitMode
COMMIT_MODE_HOST: CommitMode
COMMIT_MODE_SINK: CommitMode
COMMIT_MODE_TWO_PHASE: CommitMode
COMMIT_MODE_IDEMPOTENT: CommitMode

class DescribeRequest(_message.Message):
    __slots__ = ("host_features", "host_version")
    HOST_FEATURES_FIELD_NUMBER: _ClassVar[int]
    HOST_VERSION_FIELD_NUMBER: _ClassVar[int]
    host_features: _containers.RepeatedScalarFieldContainer[str]
    host_version: str
    def __init__(self, host_features: _Optional[_Iterable[str]] = ..., host_version: _Optional[str] = ...) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("name", "version", "sdk", "features", "connectors")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    sdk: str
    features: _containers.RepeatedScalarFieldContainer[str]
    connectors: _containers.RepeatedCompositeFieldContainer[ConnectorSpec]
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., sdk: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., connectors: _Optional[_Iterable[_Union[ConnectorSpec, _Mapping]]] = ...) -> None: ...

class ConnectorSpec(_message.Message):
    __slots__ = ("name", "kind", "title", "description", "documentation_url", "config_keys", "config_json_schema", "encodings", "source", "sink", "labels", "aliases", "enforces_reach")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTATION_URL_FIELD_NUMBER: _ClassVar[int]
    CONFIG_KEYS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    ENCODINGS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    ENFORCES_REACH_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: Kind
    title: str
    description: str
    documentation_url: str
    config_keys: _containers.RepeatedCompositeFieldContainer[ConfigKey]
    config_json_schema: str
    encodings: _containers.RepeatedScalarFieldContainer[_record_pb2.Encoding]
    source: SourceCapabilities
    sink: SinkCapabilities
    labels: _containers.ScalarMap[str, str]
    aliases: _containers.RepeatedScalarFieldContainer[str]
    enforces_reach: bool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[Kind, str]] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., documentation_url: _Optional[str] = ..., config_keys: _Optional[_Iterable[_Union[ConfigKey, _Mapping]]] = ..., config_json_schema: _Optional[str] = ..., encodings: _Optional[_Iterable[_Union[_record_pb2.Encoding, str]]] = ..., source: _Optional[_Union[SourceCapabilities, _Mapping]] = ..., sink: _Optional[_Union[SinkCapabilities, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., aliases: _Optional[_Iterable[str]] = ..., enforces_reach: bool = ...) -> None: ...

class SourceCapabilities(_message.Message):
    __slots__ = ("discover", "partitioned", "dynamic_partitions", "externally_assigned", "replayable", "transaction_boundaries", "needs_commit", "nack", "watermarks", "alter_offsets", "bounded")
    DISCOVER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONED_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    EXTERNALLY_ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    REPLAYABLE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_BOUNDARIES_FIELD_NUMBER: _ClassVar[int]
    NEEDS_COMMIT_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    ALTER_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BOUNDED_FIELD_NUMBER: _ClassVar[int]
    discover: bool
    partitioned: bool
    dynamic_partitions: bool
    externally_assigned: bool
    replayable: bool
    transaction_boundaries: bool
    needs_commit: bool
    nack: bool
    watermarks: bool
    alter_offsets: bool
    bounded: bool
    def __init__(self, discover: bool = ..., partitioned: bool = ..., dynamic_partitions: bool = ..., externally_assigned: bool = ..., replayable: bool = ..., transaction_boundaries: bool = ..., needs_commit: bool = ..., nack: bool = ..., watermarks: bool = ..., alter_offsets: bool = ..., bounded: bool = ...) -> None: ...

class SinkCapabilities(_message.Message):
    __slots__ = ("commit_modes", "ops", "schema_evolution", "auto_create", "pipelined", "file_batches", "alter_offsets")
    COMMIT_MODES_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_EVOLUTION_FIELD_NUMBER: _ClassVar[int]
    AUTO_CREATE_FIELD_NUMBER: _ClassVar[int]
    PIPELINED_FIELD_NUMBER: _ClassVar[int]
    FILE_BATCHES_FIELD_NUMBER: _ClassVar[int]
    ALTER_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    commit_modes: _containers.RepeatedScalarFieldContainer[CommitMode]
    ops: _containers.RepeatedScalarFieldContainer[_record_pb2.Op]
    schema_evolution: _record_pb2.Compat
    auto_create: bool
    pipelined: bool
    file_batches: bool
    alter_offsets: bool
    def __init__(self, commit_modes: _Optional[_Iterable[_Union[CommitMode, str]]] = ..., ops: _Optional[_Iterable[_Union[_record_pb2.Op, str]]] = ..., schema_evolution: _Optional[_Union[_record_pb2.Compat, str]] = ..., auto_create: bool = ..., pipelined: bool = ..., file_batches: bool = ..., alter_offsets: bool = ...) -> None: ...

class ConfigKey(_message.Message):
    __slots__ = ("name", "type", "default_value", "required", "sensitive", "importance", "group", "order", "width", "display_name", "documentation", "dependents", "rules", "choices", "replaced_by", "live")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTATION_FIELD_NUMBER: _ClassVar[int]
    DEPENDENTS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    REPLACED_BY_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    default_value: str
    required: bool
    sensitive: bool
    importance: str
    group: str
    order: int
    width: str
    display_name: str
    documentation: str
    dependents: _containers.RepeatedScalarFieldContainer[str]
    rules: _containers.RepeatedScalarFieldContainer[str]
    choices: _containers.RepeatedScalarFieldContainer[str]
    replaced_by: str
    live: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., default_value: _Optional[str] = ..., required: bool = ..., sensitive: bool = ..., importance: _Optional[str] = ..., group: _Optional[str] = ..., order: _Optional[int] = ..., width: _Optional[str] = ..., display_name: _Optional[str] = ..., documentation: _Optional[str] = ..., dependents: _Optional[_Iterable[str]] = ..., rules: _Optional[_Iterable[str]] = ..., choices: _Optional[_Iterable[str]] = ..., replaced_by: _Optional[str] = ..., live: bool = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("grace",)
    GRACE_FIELD_NUMBER: _ClassVar[int]
    grace: _duration_pb2.Duration
    def __init__(self, grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ShutdownResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
