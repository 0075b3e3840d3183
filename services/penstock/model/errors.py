"""The error shape of all services, and the exceptions that carry it.

    PenstockError
    ├── RetriableError    the same call may succeed later
    ├── ConfigError       the user must change the configuration
    ├── AuthError         credentials were refused
    ├── DataError         a row cannot be processed; the task may go on
    ├── SchemaError       a schema change cannot be applied
    ├── FencedError       another owner has a newer epoch; stop, never retry
    ├── OffsetLostError   the offset is gone at the source; never skip silently
    └── InternalError     a defect of Penstock or of a connector

The reaction to an error follows from its class alone, never from its text (architecture: errors).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import ClassVar, Final

CONNECTOR_DEFECT: Final = "connector.defect"
"""Code of an unexpected exception in a connector; the detail of the error is the stack trace."""


class ErrorClass(IntEnum):
    """How the host reacts to an error. Numbers equal penstock.api.error.v1.ErrorClass."""

    UNSPECIFIED = 0
    RETRIABLE = 1
    CONFIG = 2
    AUTH = 3
    DATA = 4
    SCHEMA = 5
    FENCED = 6
    OFFSET_LOST = 7
    INTERNAL = 8


class Severity(IntEnum):
    """The severity of a diagnostic. Numbers equal penstock.api.error.v1.Severity."""

    UNSPECIFIED = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What went wrong, where, and how to fix it.

    `code` is stable and dotted (`offset.stale_epoch`); `config_path` is the configuration key that
    it is about; `fix` is what the user can do, in one sentence; `retry_after_s`: 0 lets
    the host decide.
    """

    code: str
    message: str
    error_class: ErrorClass = ErrorClass.INTERNAL
    severity: Severity = Severity.ERROR
    fix: str = ""
    config_path: str = ""
    suggestion: str = ""
    detail: str = ""
    dataset: str = ""
    retry_after_s: float = 0.0

    def __str__(self) -> str:
        where = f" (at {self.config_path})" if self.config_path else ""
        fix = f" Fix: {self.fix}" if self.fix else ""
        return f"[{self.code}] {self.message}{where}{fix}"

    @property
    def trace(self) -> str:
        """The stack trace of an unexpected exception in a connector; empty for other errors."""
        return self.detail if self.code == CONNECTOR_DEFECT else ""

    def map_texts(self, change: Callable[[str], str]) -> Diagnostic:
        """Apply a function to each text, for instance to redact secrets; the code stays."""
        return replace(
            self,
            message=change(self.message),
            detail=change(self.detail),
            fix=change(self.fix),
            config_path=change(self.config_path),
            suggestion=change(self.suggestion),
            dataset=change(self.dataset),
        )


class PenstockError(Exception):
    """An error with a diagnostic. Subclasses fix the class of the diagnostic."""

    error_class: ClassVar[ErrorClass] = ErrorClass.INTERNAL

    def __init__(
        self,
        code: str,
        message: str,
        *,
        fix: str = "",
        config_path: str = "",
        suggestion: str = "",
        detail: str = "",
        dataset: str = "",
        retry_after_s: float = 0.0,
    ) -> None:
        self.diagnostic = Diagnostic(
            code=code,
            message=message,
            error_class=type(self).error_class,
            fix=fix,
            config_path=config_path,
            suggestion=suggestion,
            detail=detail,
            dataset=dataset,
            retry_after_s=retry_after_s,
        )
        super().__init__(str(self.diagnostic))

    @property
    def code(self) -> str:
        """The stable code of the diagnostic."""
        return self.diagnostic.code


class RetriableError(PenstockError):
    """The same call may succeed later."""

    error_class = ErrorClass.RETRIABLE


class ConfigError(PenstockError):
    """The user must change the configuration."""

    error_class = ErrorClass.CONFIG


class AuthError(PenstockError):
    """Credentials were refused."""

    error_class = ErrorClass.AUTH


class DataError(PenstockError):
    """A row cannot be processed; the task may go on."""

    error_class = ErrorClass.DATA


class SchemaError(PenstockError):
    """A schema change cannot be applied."""

    error_class = ErrorClass.SCHEMA


class FencedError(PenstockError):
    """Another owner has a newer epoch; stop, never retry."""

    error_class = ErrorClass.FENCED


class OffsetLostError(PenstockError):
    """The offset is gone at the source; never skip silently."""

    error_class = ErrorClass.OFFSET_LOST


class InternalError(PenstockError):
    """A defect of Penstock or of a connector."""

    error_class = ErrorClass.INTERNAL


_BY_CLASS: dict[ErrorClass, type[PenstockError]] = {
    kind.error_class: kind
    for kind in (
        RetriableError,
        ConfigError,
        AuthError,
        DataError,
        SchemaError,
        FencedError,
        OffsetLostError,
        InternalError,
    )
}


def error_from_diagnostic(diagnostic: Diagnostic) -> PenstockError:
    """Build the exception of a received diagnostic. An unset class means retriable."""
    error_class = diagnostic.error_class or ErrorClass.RETRIABLE
    error = _BY_CLASS[error_class](diagnostic.code, diagnostic.message)
    error.diagnostic = replace(diagnostic, error_class=error_class)
    error.args = (str(error.diagnostic),)
    return error


def nearest_names(word: str, valid: Iterable[str], limit: int = 3) -> list[str]:
    """Return the valid names that are most similar to a misspelt one, best first."""
    return difflib.get_close_matches(word, sorted(valid), n=limit, cutoff=0.6)
