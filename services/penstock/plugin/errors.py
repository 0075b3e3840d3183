"""Foreign failures made ours: the one place where a gRPC status of a plugin becomes an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from penstock.api.error.v1 import diagnostic_pb2
from penstock.model.errors import (
    AuthError,
    Diagnostic,
    InternalError,
    PenstockError,
    RetriableError,
    error_of,
)
from penstock.rpc.status import cut_off, too_large, was_reset
from penstock.wire import error as error_wire

MOST_CHARACTERS: Final = 4_000
"""Longest text taken from a plugin. Longer ones are stack traces that belong in the plugin's own
log."""


def printable(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the text cut to `most` characters, control and direction characters escaped."""
    if len(text) > most:
        text = text[:most] + "…"
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


DIAGNOSTIC_KEY: Final = "penstock-diagnostic-bin"
"""Trailing metadata in which a plugin says what went wrong."""

_MOST_MESSAGE: Final = 2_000

_BY_STATUS: Final[Mapping[grpc.StatusCode, tuple[type[PenstockError], str, str]]] = {
    grpc.StatusCode.UNAVAILABLE: (RetriableError, "plugin.unavailable", ""),
    grpc.StatusCode.CANCELLED: (RetriableError, "plugin.cancelled", ""),
    grpc.StatusCode.ABORTED: (RetriableError, "plugin.aborted", ""),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (RetriableError, "plugin.exhausted", ""),
    grpc.StatusCode.UNAUTHENTICATED: (
        AuthError,
        "plugin.credential_refused",
        "Build the plugin with an SDK that reads PENSTOCK_INSTANCE_NONCE.",
    ),
    grpc.StatusCode.UNIMPLEMENTED: (
        InternalError,
        "plugin.unimplemented",
        "Install a version of the plugin that has this call.",
    ),
}


def deadline(stage: str, seconds: float) -> PenstockError:
    """Return the error of a stage that took too long."""
    return RetriableError(
        "plugin.deadline",
        f"stage {stage} took longer than {seconds:g} s",
        fix="It is tried again; see in the plugin's log what it waits for.",
    )


def violation(rule: str, message: str) -> InternalError:
    """Return the error for a plugin that breaks the protocol; `rule` completes the code."""
    return InternalError(
        f"plugin.protocol.{rule}",
        message,
        fix="This is a defect of the plugin: report it to its author with this code.",
    )


def crashed(who: str, how: str, last_lines: str) -> PenstockError:
    """Return the error for a process that ended while it was needed."""
    return RetriableError(
        "plugin.crashed",
        f"plugin {who} {how}. Last lines: {last_lines or '(none)'}",
        fix="It is started anew; if it repeats, report the last lines to its author.",
    )


def stream_ended(what: str) -> PenstockError:
    """Return the error for a stream that a plugin ended while it was needed."""
    return RetriableError(
        "plugin.stream_ended",
        what,
        fix="It is opened anew; if it repeats, see in the plugin's log why it ended.",
    )


def call_reset(stage: str, how: str) -> PenstockError:
    """Return the error for a call that the HTTP/2 server of a plugin reset."""
    return InternalError(
        "plugin.call_reset",
        f"stage {stage}: the plugin's HTTP/2 server reset the call before it was answered: {how}",
        fix="Look in the plugin's log for why its gRPC server refuses calls. The host sends "
        "`:authority: localhost` and no TLS to a unix socket.",
    )


def from_status(
    error: grpc.aio.AioRpcError, stage: str, seconds: float | None, redact: Callable[[str], str]
) -> PenstockError:
    """Return the error for a call that a plugin failed: its own diagnostic when it sent one."""
    code = error.code()
    own = _diagnostic(error)
    if own is not None:
        return error_of(clean(own, redact))
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and seconds is not None:
        return deadline(stage, seconds)
    if cut_off(code, error.details()):
        code = grpc.StatusCode.UNAVAILABLE
    if was_reset(code, error.details()):
        return call_reset(stage, printable(redact(str(error.details())), _MOST_MESSAGE))
    if too_large(code, error.details()):
        return violation("message_too_large", f"stage {stage}: {error.details()}")
    kind, name, fix = _BY_STATUS.get(code, (InternalError, "plugin.failed", ""))
    text = printable(redact(str(error.details() or "")), _MOST_MESSAGE)
    return kind(name, f"stage {stage}: {code.name}: {text}", fix=fix)


def clean(diagnostic: Diagnostic, redact: Callable[[str], str]) -> Diagnostic:
    """Return a plugin's diagnostic fit for a status: bounded, escaped, without secrets."""

    def text(value: str) -> str:
        return printable(redact(value), _MOST_MESSAGE)

    return replace(
        diagnostic,
        code=printable(diagnostic.code, 100) or "plugin.failed",
        message=text(diagnostic.message),
        fix=text(diagnostic.fix),
        detail="\n".join(map(printable, redact(diagnostic.detail)[:_MOST_MESSAGE].splitlines())),
        suggestion=text(diagnostic.suggestion),
        config_path=printable(diagnostic.config_path, 200),
        dataset=printable(diagnostic.dataset, 200),
    )


def _diagnostic(error: grpc.aio.AioRpcError) -> Diagnostic | None:
    for key, value in error.trailing_metadata() or ():
        if key == DIAGNOSTIC_KEY and isinstance(value, bytes):
            try:
                return error_wire.from_proto(diagnostic_pb2.Diagnostic.FromString(value))
            except DecodeError:
                return None
    return None
