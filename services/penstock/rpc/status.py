"""gRPC statuses: builds them from errors, and errors from them. No other module does.

The status code follows from the class of the error, refined by the last word of its code, for
clients that do not know our diagnostics. The complete diagnostic travels in trailing metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from penstock.api.error.v1 import diagnostic_pb2
from penstock.model.errors import (
    AuthError,
    ConfigError,
    Diagnostic,
    ErrorClass,
    InternalError,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.wire.error import DIAGNOSTIC

DIAGNOSTIC_KEY: Final = "penstock-diagnostic-bin"
"""Trailing metadata with the serialized `penstock.api.error.v1.Diagnostic`."""

MAX_TEXT_LENGTH: Final = 1500
"""Maximum characters of a message or detail in a status. gRPC peers refuse 8 KiB of metadata, and
the message is sent twice, once percent-encoded."""

_BY_CLASS: Final[Mapping[ErrorClass, grpc.StatusCode]] = {
    ErrorClass.UNSPECIFIED: grpc.StatusCode.UNAVAILABLE,
    ErrorClass.RETRIABLE: grpc.StatusCode.UNAVAILABLE,
    ErrorClass.CONFIG: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorClass.AUTH: grpc.StatusCode.UNAUTHENTICATED,
    ErrorClass.DATA: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorClass.SCHEMA: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorClass.FENCED: grpc.StatusCode.ABORTED,
    ErrorClass.OFFSET_LOST: grpc.StatusCode.OUT_OF_RANGE,
    ErrorClass.INTERNAL: grpc.StatusCode.INTERNAL,
}
_BY_WORD: Final[Mapping[str, grpc.StatusCode]] = {
    "not_found": grpc.StatusCode.NOT_FOUND,
    "exists": grpc.StatusCode.ALREADY_EXISTS,
    "revision_changed": grpc.StatusCode.ABORTED,
    "not_stopped": grpc.StatusCode.FAILED_PRECONDITION,
    "still_held": grpc.StatusCode.FAILED_PRECONDITION,
    "exceeded": grpc.StatusCode.DEADLINE_EXCEEDED,
}
_BY_STATUS: Final[Mapping[grpc.StatusCode, tuple[type[PenstockError], str, str]]] = {
    grpc.StatusCode.UNAVAILABLE: (
        RetriableError,
        "rpc.unavailable",
        "Check that the service runs and listens at this address.",
    ),
    grpc.StatusCode.DEADLINE_EXCEEDED: (
        RetriableError,
        "deadline.exceeded",
        "Check whether the service is overloaded or waits for something.",
    ),
    grpc.StatusCode.CANCELLED: (RetriableError, "rpc.cancelled", ""),
    grpc.StatusCode.ABORTED: (RetriableError, "rpc.aborted", ""),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (
        RetriableError,
        "rpc.exhausted",
        "Send smaller messages or fewer calls at once.",
    ),
    grpc.StatusCode.UNAUTHENTICATED: (AuthError, "rpc.unauthenticated", "Check the credential."),
    grpc.StatusCode.PERMISSION_DENIED: (AuthError, "rpc.denied", "Check the role of the caller."),
    grpc.StatusCode.INVALID_ARGUMENT: (ConfigError, "rpc.invalid", ""),
    grpc.StatusCode.UNIMPLEMENTED: (
        InternalError,
        "rpc.unimplemented",
        "Both sides must be of compatible versions.",
    ),
}


def status_code(diagnostic: Diagnostic) -> grpc.StatusCode:
    """Return the gRPC code of a diagnostic."""
    last = diagnostic.code.rpartition(".")[2]
    return _BY_WORD.get(last) or _BY_CLASS[diagnostic.error_class]


def status_from_diagnostic(
    diagnostic: Diagnostic,
) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Return code, text and trailing metadata of a diagnostic, truncated to what gRPC accepts."""
    truncated = replace(
        diagnostic,
        message=_truncate(diagnostic.message),
        detail=_truncate(diagnostic.detail),
        fix=_truncate(diagnostic.fix),
    )
    body = DIAGNOSTIC.to_proto(truncated).SerializeToString()
    return (
        status_code(truncated),
        f"[{truncated.code}] {truncated.message}",
        ((DIAGNOSTIC_KEY, body),),
    )


def error_from(error: grpc.RpcError, where: str = "") -> PenstockError:
    """Return the error of a failed call; `where` names the call and the peer."""
    for key, value in _metadata(error):
        if key == DIAGNOSTIC_KEY and isinstance(value, bytes):
            try:
                return error_from_diagnostic(
                    DIAGNOSTIC.from_proto(diagnostic_pb2.Diagnostic.FromString(value))
                )
            except DecodeError:
                break  # unreadable: use the status alone
    return _error_from_status(error, where)


def is_cut_off(code: grpc.StatusCode | None, details: str | None) -> bool:
    """Return whether gRPC made up this status for a write to a stream that had ended.

    The answer of the peer, if any, is lost, so the connection counts as broken.

    Source: grpc/grpc issue 36066.
    """
    return code is grpc.StatusCode.INTERNAL and details == "Internal error from Core"


def is_too_large(code: grpc.StatusCode | None, details: str | None) -> bool:
    """Return whether a message exceeded our limit, also after decompression.

    A retry would receive the same message.
    """
    return code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in (details or "")


def was_reset(code: grpc.StatusCode | None, details: str | None) -> bool:
    """Return whether the peer's HTTP/2 server reset the call.

    The code of the peer did not run, or its answer is lost.
    """
    return code is grpc.StatusCode.INTERNAL and "RST_STREAM" in (details or "")


def _error_from_status(error: grpc.RpcError, where: str) -> PenstockError:
    code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    text = error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)
    at = f"{where}: " if where else ""
    if is_cut_off(code, text):
        code = grpc.StatusCode.UNAVAILABLE
    if code is not None and code in _BY_STATUS:
        kind, name, fix = _BY_STATUS[code]
        return kind(name, f"{at}{text}", fix=fix)
    name = code.name.lower() if code else "unknown"
    return InternalError("rpc.failed", f"{at}{name}: {text}")


def _metadata(error: grpc.RpcError) -> tuple[tuple[str, str | bytes], ...]:
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return ()
    return tuple((key, value) for key, value in (error.trailing_metadata() or ()))


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[: MAX_TEXT_LENGTH - 1]}…"
