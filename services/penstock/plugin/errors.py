"""Errors of plugins: gRPC statuses, broken rules and lost processes as errors with a code.

Only this module turns a gRPC status of a plugin into an error. Texts that come from a plugin are
cut, escaped and redacted here.
"""

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
    ConfigError,
    Diagnostic,
    InternalError,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
)
from penstock.rpc.status import is_cut_off, is_too_large, was_reset
from penstock.wire.error import DIAGNOSTIC

MAX_TEXT_CHARACTERS: Final = 4_000
"""Longest text that is taken from a plugin. Longer texts are stack traces; they belong in the log
of the plugin."""

DIAGNOSTIC_KEY: Final = "penstock-diagnostic-bin"
"""Key of the trailing metadata that holds the diagnostic of a plugin."""

_MAX_MESSAGE_CHARACTERS: Final = 2_000

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


def escape_text(text: str, max_characters: int = MAX_TEXT_CHARACTERS) -> str:
    """Return the text cut to `max_characters`, with control and direction characters escaped."""
    if len(text) > max_characters:
        text = text[:max_characters] + "…"
    if text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def deadline_exceeded(stage: str, timeout_s: float) -> PenstockError:
    """Return the error for a stage that took longer than its deadline."""
    return RetriableError(
        "plugin.deadline",
        f"stage {stage} took longer than {timeout_s:g} s",
        fix="The stage is run again. The log of the plugin may show what it waits for.",
    )


def protocol_violation(rule: str, message: str) -> InternalError:
    """Return the error for a plugin that breaks the protocol; `rule` is the end of the code."""
    return InternalError(
        f"plugin.protocol.{rule}",
        message,
        fix="This is a defect of the plugin: report it to its author with this code.",
    )


def process_crashed(name: str, how: str, last_lines: str) -> PenstockError:
    """Return the error for a process that ended while it was in use."""
    return RetriableError(
        "plugin.crashed",
        f"plugin {name} {how}. Last lines: {last_lines or '(none)'}",
        fix="The plugin is started again. If it crashes again, report the last lines to its "
        "author.",
    )


def stream_ended(message: str) -> PenstockError:
    """Return the error for a stream that a plugin ended while it was in use."""
    return RetriableError(
        "plugin.stream_ended",
        message,
        fix="The stream is opened again. If it ends again, see the log of the plugin.",
    )


def never_caught_up(connector: str) -> PenstockError:
    """Return the error for a source that cannot end when it has caught up."""
    return ConfigError(
        "source.never_caught_up",
        f"{connector} does not tell when it has caught up",
        fix="Remove `until.caught.up` or --until-caught-up, and end it by hand.",
        config_path="until.caught.up",
    )


def call_reset(stage: str, details: str) -> PenstockError:
    """Return the error for a call that the HTTP/2 server of a plugin reset."""
    return InternalError(
        "plugin.call_reset",
        f"stage {stage}: the plugin's HTTP/2 server reset the call instead of answering: {details}",
        fix="See the log of the plugin for why its gRPC server refuses calls. To a unix socket the "
        "host sends `:authority: localhost`, without TLS.",
    )


def error_from_status(
    error: grpc.aio.AioRpcError, stage: str, timeout_s: float | None, redact: Callable[[str], str]
) -> PenstockError:
    """Return the error for a failed call: the diagnostic that the plugin sent, else its status."""
    code = error.code()
    diagnostic = _read_diagnostic(error)
    if diagnostic is not None:
        return error_from_diagnostic(clean_diagnostic(diagnostic, redact))
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and timeout_s is not None:
        return deadline_exceeded(stage, timeout_s)
    if is_cut_off(code, error.details()):
        code = grpc.StatusCode.UNAVAILABLE
    if was_reset(code, error.details()):
        return call_reset(stage, escape_text(redact(str(error.details())), _MAX_MESSAGE_CHARACTERS))
    if is_too_large(code, error.details()):
        return protocol_violation("message_too_large", f"stage {stage}: {error.details()}")
    kind, name, fix = _BY_STATUS.get(code, (InternalError, "plugin.failed", ""))
    text = escape_text(redact(str(error.details() or "")), _MAX_MESSAGE_CHARACTERS)
    return kind(name, f"stage {stage}: {code.name}: {text}", fix=fix)


def clean_diagnostic(diagnostic: Diagnostic, redact: Callable[[str], str]) -> Diagnostic:
    """Return the diagnostic of a plugin with its texts bounded, escaped and redacted."""

    def text(value: str) -> str:
        return escape_text(redact(value), _MAX_MESSAGE_CHARACTERS)

    return replace(
        diagnostic,
        code=escape_text(diagnostic.code, 100) or "plugin.failed",
        message=text(diagnostic.message),
        fix=text(diagnostic.fix),
        detail="\n".join(
            map(escape_text, redact(diagnostic.detail)[:_MAX_MESSAGE_CHARACTERS].splitlines())
        ),
        suggestion=text(diagnostic.suggestion),
        config_path=escape_text(diagnostic.config_path, 200),
        dataset=escape_text(diagnostic.dataset, 200),
    )


def _read_diagnostic(error: grpc.aio.AioRpcError) -> Diagnostic | None:
    for key, value in error.trailing_metadata() or ():
        if key == DIAGNOSTIC_KEY and isinstance(value, bytes):
            try:
                return DIAGNOSTIC.from_proto(diagnostic_pb2.Diagnostic.FromString(value))
            except DecodeError:
                return None
    return None
