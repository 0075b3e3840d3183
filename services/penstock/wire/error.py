"""penstock.api.error.v1 ↔ `penstock.model.errors`."""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum
from typing import TypeVar

from penstock.api.error.v1 import diagnostic_pb2 as pb
from penstock.model.errors import Diagnostic, ErrorClass, Severity

_E = TypeVar("_E", bound=IntEnum)


def to_proto(diagnostic: Diagnostic) -> pb.Diagnostic:
    """Return the message for a diagnostic."""
    message = pb.Diagnostic(
        severity=int(diagnostic.severity),  # type: ignore[arg-type] # enums share numbers
        error_class=int(diagnostic.error_class),  # type: ignore[arg-type] # enums share numbers
        code=diagnostic.code,
        message=diagnostic.message,
        detail=diagnostic.detail,
        config_path=diagnostic.config_path,
        suggestion=diagnostic.suggestion,
        dataset=diagnostic.dataset,
        fix=diagnostic.fix,
    )
    if diagnostic.retry_after:
        message.retry_after.FromTimedelta(timedelta(seconds=diagnostic.retry_after))
    return message


def from_proto(message: pb.Diagnostic) -> Diagnostic:
    """Return the diagnostic of a message. A class or severity of a newer version reads as unset."""
    return Diagnostic(
        code=message.code,
        message=message.message,
        error_class=_known(ErrorClass, message.error_class),
        severity=_known(Severity, message.severity),
        fix=message.fix,
        config_path=message.config_path,
        suggestion=message.suggestion,
        detail=message.detail,
        dataset=message.dataset,
        retry_after=message.retry_after.ToTimedelta().total_seconds(),
    )


def _known(kind: type[_E], number: int) -> _E:
    try:
        return kind(number)
    except ValueError:
        return kind(0)
