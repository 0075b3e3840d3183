"""penstock.api.error.v1 ↔ `penstock.model.errors`."""

from __future__ import annotations

from datetime import timedelta
from enum import IntEnum
from typing import Final, TypeVar

from penstock.api.error.v1 import diagnostic_pb2 as pb
from penstock.model.errors import Diagnostic, ErrorClass, Severity

_E = TypeVar("_E", bound=IntEnum)

_MOST_TEXT: Final = ((6 << 20, 2000), (8 << 20, 80))
"""Up to how many bytes of diagnostics in one message there are how many characters of each text:
enough to mend what is wrong, then what it is about. Beyond, class and code alone are told. The rest
of the 16 MiB of a message is for the numbers of more than 30,000 tasks."""

_MOST_MEASURED: Final = 1 << 20
"""Bytes of what is measured of tasks in one message, beside their rows and bytes: that of more than
1,000 tasks with all the datasets that they may name."""


class Brief:
    """Makes the messages for diagnostics that go out together, in one message (invariant 12): their
    texts are cut, and those that come late to less.
    """

    def __init__(self) -> None:
        self._bytes = self._measured = 0

    def affords(self, measured: int) -> bool:
        """Tell whether there is room for so many bytes of what is measured, and take it."""
        fits = self._measured + measured <= _MOST_MEASURED
        self._measured += measured if fits else 0
        return fits

    def to_proto(self, diagnostic: Diagnostic | None) -> pb.Diagnostic | None:
        """Return the message for a diagnostic."""
        if diagnostic is None:
            return None
        most = next((most for bytes_, most in _MOST_TEXT if self._bytes < bytes_), 0)
        message = to_proto(_cut(diagnostic, most))
        self._bytes += message.ByteSize()
        return message


def _cut(diagnostic: Diagnostic, most: int) -> Diagnostic:
    def cut(text: str) -> str:
        return text if len(text) <= most else f"{text[: most - 1]}…" if most else ""

    return diagnostic.reworded(cut)


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
