"""The only place that builds a gRPC status from an error, and the way back.

The status code follows from the error's class, refined by the last word of its code, for clients
that know nothing of ours. The whole diagnostic travels in trailing metadata beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NoReturn

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
    error_of,
)
from penstock.wire import error as wire

DIAGNOSTIC_KEY: Final = "penstock-diagnostic-bin"
"""Trailing metadata with the serialized `penstock.api.error.v1.Diagnostic`."""

MOST_TEXT = 1500
"""Characters of a message or detail in a status. gRPC peers refuse 8 KiB of metadata, and the
message travels twice, percent-encoded once."""

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
_FOREIGN: Final[Mapping[grpc.StatusCode, tuple[type[PenstockError], str, str]]] = {
    grpc.StatusCode.UNAVAILABLE: (
        RetriableError,
        "rpc.unavailable",
        "Check that the service runs and listens at this address.",
    ),
    grpc.StatusCode.DEADLINE_EXCEEDED: (
        RetriableError,
        "deadline.exceeded",
        "See whether the service is overloaded or waits for something.",
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


def status_of(diagnostic: Diagnostic) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    """Return code, text and trailing metadata for a diagnostic, cut to what gRPC carries."""
    short = replace(
        diagnostic,
        message=_cut(diagnostic.message),
        detail=_cut(diagnostic.detail),
        fix=_cut(diagnostic.fix),
    )
    body = wire.to_proto(short).SerializeToString()
    return status_code(short), f"[{short.code}] {short.message}", ((DIAGNOSTIC_KEY, body),)


def error_from(error: grpc.RpcError, where: str = "") -> PenstockError:
    """Return the error that a failed call stands for; `where` names the call and the peer."""
    for key, value in _metadata(error):
        if key == DIAGNOSTIC_KEY and isinstance(value, bytes):
            try:
                return error_of(wire.from_proto(diagnostic_pb2.Diagnostic.FromString(value)))
            except DecodeError:
                break  # of no use: the status alone must do
    return _foreign(error, where)


def cut_off(code: grpc.StatusCode | None, details: str | None) -> bool:
    """Tell the status that gRPC makes up for a write to a stream that has ended meanwhile. What the
    peer said, if anything, is lost with it: the connection is taken for broken.

    Source: grpc/grpc issue 36066.
    """
    return code is grpc.StatusCode.INTERNAL and details == "Internal error from Core"


def too_large(code: grpc.StatusCode | None, details: str | None) -> bool:
    """Tell the status of a message beyond our limit, also of one that was compressed: gRPC stops to
    decompress there. The same message would come again.
    """
    return code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in (details or "")


def was_reset(code: grpc.StatusCode | None, details: str | None) -> bool:
    """Tell the status of a call that the peer's HTTP/2 server reset: no code of the peer saw it, or
    what it said is lost.
    """
    return code is grpc.StatusCode.INTERNAL and "RST_STREAM" in (details or "")


def raise_from(error: grpc.RpcError, where: str = "") -> NoReturn:
    """Raise the error that a failed call stands for."""
    raise error_from(error, where) from error


def _foreign(error: grpc.RpcError, where: str) -> PenstockError:
    code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    text = error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)
    at = f"{where}: " if where else ""
    if cut_off(code, text):
        code = grpc.StatusCode.UNAVAILABLE
    if code is not None and code in _FOREIGN:
        kind, name, fix = _FOREIGN[code]
        return kind(name, f"{at}{text}", fix=fix)
    name = code.name.lower() if code else "unknown"
    return InternalError("rpc.failed", f"{at}{name}: {text}")


def _metadata(error: grpc.RpcError) -> tuple[tuple[str, str | bytes], ...]:
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return ()
    return tuple((key, value) for key, value in (error.trailing_metadata() or ()))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
