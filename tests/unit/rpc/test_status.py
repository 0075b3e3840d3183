"""Errors over the wire: what goes in comes out, and a foreign status becomes a coded error."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest
from grpc.aio import Metadata

from penstock.model import errors
from penstock.model.errors import (
    ConfigError,
    Diagnostic,
    ErrorClass,
    InternalError,
    RetriableError,
)
from penstock.rpc.status import DIAGNOSTIC_KEY, error_from, status_code, status_from_diagnostic


def failed(code, text, trailing=()):
    return grpc.aio.AioRpcError(code, Metadata(), Metadata(*trailing), text)


@pytest.mark.parametrize(
    "kind",
    [
        errors.RetriableError,
        errors.ConfigError,
        errors.AuthError,
        errors.DataError,
        errors.SchemaError,
        errors.FencedError,
        errors.OffsetLostError,
        errors.InternalError,
    ],
)
def test_every_class_of_error_survives_the_wire(kind):
    sent = kind(
        "some.code",
        "what happened",
        fix="do this",
        config_path="a.b",
        suggestion="c",
        detail="long",
        dataset="orders",
        retry_after_s=1.5,
    )
    back = error_from(failed(*status_from_diagnostic(sent.diagnostic)))
    assert type(back) is kind
    assert back.diagnostic == sent.diagnostic


@pytest.mark.parametrize(
    ("code", "error_class", "status"),
    [
        ("config.not_found", ErrorClass.CONFIG, grpc.StatusCode.NOT_FOUND),
        ("config.exists", ErrorClass.CONFIG, grpc.StatusCode.ALREADY_EXISTS),
        ("config.revision_changed", ErrorClass.CONFIG, grpc.StatusCode.ABORTED),
        ("offset.not_stopped", ErrorClass.CONFIG, grpc.StatusCode.FAILED_PRECONDITION),
        ("offset.still_held", ErrorClass.RETRIABLE, grpc.StatusCode.FAILED_PRECONDITION),
        ("deadline.exceeded", ErrorClass.RETRIABLE, grpc.StatusCode.DEADLINE_EXCEEDED),
        ("offset.stale_epoch", ErrorClass.FENCED, grpc.StatusCode.ABORTED),
        ("store.full", ErrorClass.RETRIABLE, grpc.StatusCode.UNAVAILABLE),
        ("config.name", ErrorClass.CONFIG, grpc.StatusCode.INVALID_ARGUMENT),
        ("anything", ErrorClass.UNSPECIFIED, grpc.StatusCode.UNAVAILABLE),
    ],
)
def test_the_status_follows_from_the_code_and_the_class(code, error_class, status):
    assert status_code(Diagnostic(code, "x", error_class)) is status


def test_every_class_has_a_status():
    for error_class in ErrorClass:
        assert status_code(Diagnostic("x", "x", error_class)) is not grpc.StatusCode.UNKNOWN


def test_a_long_text_is_cut_to_what_metadata_carries():
    diagnostic = Diagnostic("x.y", "ü" * 100_000, detail="z" * 100_000, fix="f" * 100_000)
    _, text, ((_, body),) = status_from_diagnostic(diagnostic)
    assert len(body) + 3 * len(text.encode()) < 16_000
    assert len(body) < 8_000


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (grpc.StatusCode.UNAVAILABLE, RetriableError, "rpc.unavailable"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, RetriableError, "deadline.exceeded"),
        (grpc.StatusCode.CANCELLED, RetriableError, "rpc.cancelled"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, RetriableError, "rpc.exhausted"),
        (grpc.StatusCode.UNAUTHENTICATED, errors.AuthError, "rpc.unauthenticated"),
        (grpc.StatusCode.INVALID_ARGUMENT, ConfigError, "rpc.invalid"),
        (grpc.StatusCode.UNKNOWN, InternalError, "rpc.failed"),
    ],
)
def test_a_foreign_status_becomes_an_error_that_names_the_call(status, kind, code):
    back = error_from(failed(status, "peer says"), "config.get at unix:/s")
    assert type(back) is kind
    assert back.code == code
    assert "config.get at unix:/s: " in str(back)


def test_a_write_to_a_stream_that_ended_is_a_broken_connection():
    back = error_from(failed(grpc.StatusCode.INTERNAL, "Internal error from Core"))
    assert type(back) is RetriableError
    assert back.code == "rpc.unavailable"


def test_a_diagnostic_that_cannot_be_read_falls_back_to_the_status():
    error = failed(grpc.StatusCode.UNAVAILABLE, "x", [(DIAGNOSTIC_KEY, b"\xff\xff\xff")])
    assert error_from(error).code == "rpc.unavailable"
