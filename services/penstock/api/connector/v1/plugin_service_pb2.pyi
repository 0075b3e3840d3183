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
    __slots__ = ("memory_file",)
    MEMORY_FILE_FIELD_NUMBER: _ClassVar[int]
    memory_file: _record_pb2.MemoryFile
    def __init__(self, memory_file: _Optional[_Union[_record_pb2.MemoryFile, _Mapping]] = ...) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("name", "version", "sdk", "connectors", "memory_file")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FILE_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    sdk: str
    connectors: _containers.RepeatedCompositeFieldContainer[ConnectorSpec]
    memory_file: _record_pb2.MemoryFile
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., sdk: _Optional[str] = ..., connectors: _Optional[_Iterable[_Union[ConnectorSpec, _Mapping]]] = ..., memory_file: _Optional[_Union[_record_pb2.MemoryFile, _Mapping]] = ...) -> None: ...

class ConnectorSpec(_message.Message):
    __slots__ = ("name", "kind", "title", "description", "config_keys", "source", "sink", "aliases", "enforces_reach")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONFIG_KEYS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    ENFORCES_REACH_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: Kind
    title: str
    description: str
    config_keys: _containers.RepeatedCompositeFieldContainer[ConfigKey]
    source: SourceCapabilities
    sink: SinkCapabilities
    aliases: _containers.RepeatedScalarFieldContainer[str]
    enforces_reach: bool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[Kind, str]] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., config_keys: _Optional[_Iterable[_Union[ConfigKey, _Mapping]]] = ..., source: _Optional[_Union[SourceCapabilities, _Mapping]] = ..., sink: _Optional[_Union[SinkCapabilities, _Mapping]] = ..., aliases: _Optional[_Iterable[str]] = ..., enforces_reach: bool = ...) -> None: ...

class SourceCapabilities(_message.Message):
    __slots__ = ("replayable", "needs_commit", "alter_offsets", "bounded")
    REPLAYABLE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_COMMIT_FIELD_NUMBER: _ClassVar[int]
    ALTER_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    BOUNDED_FIELD_NUMBER: _ClassVar[int]
    replayable: bool
    needs_commit: bool
    alter_offsets: bool
    bounded: bool
    def __init__(self, replayable: bool = ..., needs_commit: bool = ..., alter_offsets: bool = ..., bounded: bool = ...) -> None: ...

class SinkCapabilities(_message.Message):
    __slots__ = ("commit_modes", "alter_offsets")
    COMMIT_MODES_FIELD_NUMBER: _ClassVar[int]
    ALTER_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    commit_modes: _containers.RepeatedScalarFieldContainer[CommitMode]
    alter_offsets: bool
    def __init__(self, commit_modes: _Optional[_Iterable[_Union[CommitMode, str]]] = ..., alter_offsets: bool = ...) -> None: ...

class ConfigKey(_message.Message):
    __slots__ = ("name", "type", "default_value", "required", "sensitive", "importance", "group", "order", "display_name", "documentation", "choices")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    IMPORTANCE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTATION_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    default_value: str
    required: bool
    sensitive: bool
    importance: str
    group: str
    order: int
    display_name: str
    documentation: str
    choices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., default_value: _Optional[str] = ..., required: bool = ..., sensitive: bool = ..., importance: _Optional[str] = ..., group: _Optional[str] = ..., order: _Optional[int] = ..., display_name: _Optional[str] = ..., documentation: _Optional[str] = ..., choices: _Optional[_Iterable[str]] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("grace",)
    GRACE_FIELD_NUMBER: _ClassVar[int]
    grace: _duration_pb2.Duration
    def __init__(self, grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ShutdownResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
