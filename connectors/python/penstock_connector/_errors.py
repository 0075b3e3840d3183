"""The errors a connector raises, and their one form on the wire.

    ConnectorError          a defect of the connector: a few restarts, then the task fails
    ├── RetriableError      the same call may succeed later
    ├── ConfigError         the user must change the configuration
    ├── AuthError           credentials were refused
    ├── DataError           a row is bad; the task may go on
    ├── SchemaError         a schema change cannot be applied
    ├── FencedError         another owner has a newer epoch; stop, never retry
    └── OffsetLostError     the offset is gone at the source; never skip silently

What the host does follows from the class alone. Any other exception that leaves a connector is
reported as a defect, except the operating system's connection and timeout errors, which are
retriable.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar, Final

import grpc

from penstock.api.error.v1 import diagnostic_pb2 as pb

DIAGNOSTIC_KEY: Final = "penstock-diagnostic-bin"
"""Trailing metadata key under which a failed call carries its diagnostic."""

_TEXT_MOST: Final = 2000
"""Characters of a text that travel in trailing metadata: HTTP/2 headers end at about 8 KiB, and a
longer one would turn a clear error into a broken stream."""

_TRACE_MOST: Final = 1400
"""Characters of a stack trace: the services cut longer details at their end, which is where the
error is."""

_LINE_MOST: Final = 300
"""Characters of a line of it. What the error says is in its message, too."""

_FRAMES_MOST: Final = 6
"""Frames of a stack trace. The last ones are the connector's and those of what it called."""


class ConnectorError(Exception):
    """A defect of the connector. Subclasses say what the host should do instead.

    Args:
        code: Stable and dotted, for instance `file.missing`.
        message: One line for people: what went wrong, and where.
        fix: One sentence: how to fix it.
        config_path: The configuration key it is about.
        suggestion: A value that would work there.
        detail: Longer text.
        dataset: The dataset it is about.
        retry_after: Seconds to wait before a retry; 0 lets the host decide.
    """

    error_class: ClassVar[pb.ErrorClass] = pb.ERROR_CLASS_INTERNAL
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL

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
        retry_after: float = 0.0,
    ) -> None:
        self.code = code
        self.message = message
        self.fix = fix
        self.config_path = config_path
        self.suggestion = suggestion
        self.detail = detail
        self.dataset = dataset
        self.retry_after = retry_after
        super().__init__(f"[{code}] {message}" + (f" Fix: {fix}" if fix else ""))

    def diagnostic(self) -> pb.Diagnostic:
        """Return the wire form. Texts are cut so that they always fit into metadata."""
        message = pb.Diagnostic(
            severity=pb.SEVERITY_ERROR,
            error_class=type(self).error_class,
            code=self.code,
            message=self.message[:_TEXT_MOST],
            detail=self.detail[-_TEXT_MOST:],
            config_path=self.config_path,
            suggestion=self.suggestion,
            dataset=self.dataset,
            fix=self.fix,
        )
        if self.retry_after:
            message.retry_after.FromTimedelta(timedelta(seconds=self.retry_after))
        return message


class RetriableError(ConnectorError):
    """The same call may succeed later."""

    error_class = pb.ERROR_CLASS_RETRIABLE
    status = grpc.StatusCode.UNAVAILABLE


class ConfigError(ConnectorError):
    """The user must change the configuration."""

    error_class = pb.ERROR_CLASS_CONFIG
    status = grpc.StatusCode.INVALID_ARGUMENT


class AuthError(ConnectorError):
    """Credentials were refused by the system that the connector talks to."""

    error_class = pb.ERROR_CLASS_AUTH
    status = grpc.StatusCode.PERMISSION_DENIED


class DataError(ConnectorError):
    """A row is bad; the task may go on."""

    error_class = pb.ERROR_CLASS_DATA
    status = grpc.StatusCode.INVALID_ARGUMENT


class SchemaError(ConnectorError):
    """A schema change cannot be applied."""

    error_class = pb.ERROR_CLASS_SCHEMA
    status = grpc.StatusCode.FAILED_PRECONDITION


class FencedError(ConnectorError):
    """Another owner has a newer epoch; stop, never retry."""

    error_class = pb.ERROR_CLASS_FENCED
    status = grpc.StatusCode.ABORTED


class OffsetLostError(ConnectorError):
    """The offset is gone at the source; skipping needs the user's word."""

    error_class = pb.ERROR_CLASS_OFFSET_LOST
    status = grpc.StatusCode.OUT_OF_RANGE


def error_from_diagnostic(told: pb.Diagnostic) -> ConnectorError:
    """Return the error that another plugin told."""
    kind = _BY_CLASS.get(told.error_class, ConnectorError)
    return kind(
        told.code,
        told.message,
        fix=told.fix,
        config_path=told.config_path,
        suggestion=told.suggestion,
        detail=told.detail,
        dataset=told.dataset,
        retry_after=told.retry_after.ToTimedelta().total_seconds(),
    )


_BY_CLASS: Final = {
    kind.error_class: kind
    for kind in (
        RetriableError,
        ConfigError,
        AuthError,
        DataError,
        SchemaError,
        FencedError,
        OffsetLostError,
    )
}


def as_connector_error(error: BaseException, stage: str) -> ConnectorError:
    """Return what left a connector as one of ours. `stage` is the method that raised it."""
    if isinstance(error, ConnectorError):
        return error
    detail = _stack_trace(error)
    text = f"{stage}: {type(error).__name__}: {error}"
    if isinstance(error, ConnectionError | TimeoutError):
        return RetriableError("connector.unreachable", text, detail=detail)
    return ConnectorError(
        "connector.defect",
        text,
        detail=detail,
        fix="Raise one of the errors of penstock_connector for what users can meet; "
        "the detail has the stack trace of this one.",
    )


def _stack_trace(error: BaseException) -> str:
    """Return the last frames of an error, so few that a status can carry them."""
    text = "".join(traceback.format_exception(error, limit=-_FRAMES_MOST))
    lines = [line[:_LINE_MOST] for line in text.splitlines()]
    while sum(map(len, lines)) + len(lines) > _TRACE_MOST:
        del lines[0]
    return "\n".join(lines)


def nearest_fix(word: str, valid: Iterable[str], noun: str) -> str:
    """Return a sentence that names the valid words most like a misspelt one, or all of them."""
    import difflib  # noqa: PLC0415 - only errors need it, and it is slow to import

    names = sorted(valid)
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(repr(name) for name in close)}?"
    return f"The {noun} are: {', '.join(names) or 'none'}."
