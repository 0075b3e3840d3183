import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEVERITY_UNSPECIFIED: _ClassVar[Severity]
    SEVERITY_INFO: _ClassVar[Severity]
    SEVERITY_WARNING: _ClassVar[Severity]
    SEVERITY_ERROR: _ClassVar[Severity]

class ErrorClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_CLASS_UNSPECIFIED: _ClassVar[ErrorClass]
    ERROR_CLASS_RETRIABLE: _ClassVar[ErrorClass]
    ERROR_CLASS_CONFIG: _ClassVar[ErrorClass]
    ERROR_CLASS_AUTH: _ClassVar[ErrorClass]
    ERROR_CLASS_DATA: _ClassVar[ErrorClass]
    ERROR_CLASS_SCHEMA: _ClassVar[ErrorClass]
    ERROR_CLASS_FENCED: _ClassVar[ErrorClass]
    ERROR_CLASS_OFFSET_LOST: _ClassVar[ErrorClass]
    ERROR_CLASS_INTERNAL: _ClassVar[ErrorClass]
SEVERITY_UNSPECIFIED: Severity
SEVERITY_INFO: Severity
SEVERITY_WARNING: Severity
SEVERITY_ERROR: Severity
ERROR_CLASS_UNSPECIFIED: ErrorClass
ERROR_CLASS_RETRIABLE: ErrorClass
ERROR_CLASS_CONFIG: ErrorClass
ERROR_CLASS_AUTH: ErrorClass
ERROR_CLASS_DATA: ErrorClass
ERROR_CLASS_SCHEMA: ErrorClass
ERROR_CLASS_FENCED: ErrorClass
ERROR_CLASS_OFFSET_LOST: ErrorClass
ERROR_CLASS_INTERNAL: ErrorClass

class Diagnostic(_message.Message):
    __slots__ = ("severity", "error_class", "code", "message", "detail", "config_path", "suggestion", "retry_after", "dataset", "fix")
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    CONFIG_PATH_FIELD_NUMBER: _ClassVar[int]
    SUGGESTION_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    severity: Severity
    error_class: ErrorClass
    code: str
    message: str
    detail: str
    config_path: str
    suggestion: str
    retry_after: _duration_pb2.Duration
    dataset: str
    fix: str
    def __init__(self, severity: _Optional[_Union[Severity, str]] = ..., error_class: _Optional[_Union[ErrorClass, str]] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., detail: _Optional[str] = ..., config_path: _Optional[str] = ..., suggestion: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., dataset: _Optional[str] = ..., fix: _Optional[str] = ...) -> None: ...
