"""penstock.api.error.v1 ↔ `penstock.model.errors`."""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum
from typing import Final, TypeVar

from penstock.api.error.v1 import diagnostic_pb2 as pb
from penstock.model.errors import Diagnostic, ErrorClass, Severity

_E = TypeVar("_E", bound=IntEnum)

_MAX_TEXT: Final = ((6 << 20, 2000), (8 << 20, 80))
"""(bytes of all diagnostics in one message, characters of each text). Up to 6 MiB a text has 2000
characters: enough to correct the error. Up to 8 MiB it has 80: enough to know the subject. Beyond,
only class and code are sent. The rest of the 16 MiB of a message is for the counters of more than
30,000 tasks."""

_MAX_METRICS_BYTES: Final = 1 << 20
"""Bytes of task metrics in one message, besides rows and bytes: those of more than 1,000 tasks with
the largest number of datasets."""


class MessageBudget:
    """Bounds the diagnostics and task metrics of one message (invariant 12).

    Texts of diagnostics are cut, later ones more than earlier ones.
    """

    def __init__(self) -> None:
        self._diagnostic_bytes = self._metrics_bytes = 0

    def reserve_metrics(self, size: int) -> bool:
        """Reserve `size` bytes for metrics. Returns False when they do not fit."""
        fits = self._metrics_bytes + size <= _MAX_METRICS_BYTES
        self._metrics_bytes += size if fits else 0
        return fits

    def to_proto(self, diagnostic: Diagnostic | None) -> pb.Diagnostic | None:
        """Return the message for a diagnostic, its texts cut to what the budget allows."""
        if diagnostic is None:
            return None
        limit = next((chars for size, chars in _MAX_TEXT if self._diagnostic_bytes < size), 0)
        message = to_proto(_cut_texts(diagnostic, limit))
        self._diagnostic_bytes += message.ByteSize()
        return message


def _cut_texts(diagnostic: Diagnostic, limit: int) -> Diagnostic:
    def cut(text: str) -> str:
        return text if len(text) <= limit else f"{text[: limit - 1]}…" if limit else ""

    return diagnostic.map_texts(cut)


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
    if diagnostic.retry_after_s:
        message.retry_after.FromTimedelta(timedelta(seconds=diagnostic.retry_after_s))
    return message


def from_proto(message: pb.Diagnostic) -> Diagnostic:
    """Return the diagnostic of a message. A class or severity of a newer version reads as unset."""
    return Diagnostic(
        code=message.code,
        message=message.message,
        error_class=_enum_or_unset(ErrorClass, message.error_class),
        severity=_enum_or_unset(Severity, message.severity),
        fix=message.fix,
        config_path=message.config_path,
        suggestion=message.suggestion,
        detail=message.detail,
        dataset=message.dataset,
        retry_after_s=message.retry_after.ToTimedelta().total_seconds(),
    )


def _enum_or_unset(kind: type[_E], number: int) -> _E:
    try:
        return kind(number)
    except ValueError:
        return kind(0)
