"""Errors as statuses and bodies."""

import json

import pytest

from penstock.gateway.errors import InvalidConfigError, error_response
from penstock.model.errors import (
    AuthError,
    ConfigError,
    Diagnostic,
    FencedError,
    InternalError,
    RetriableError,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RetriableError("config.too_many_restarts", "256 in 600 s"), 429),
        (ConfigError("config.not_found", "x"), 404),
        (ConfigError("config.exists", "x"), 409),
        (ConfigError("config.revision_changed", "x", suggestion="7"), 409),
        (ConfigError("config.name", "x"), 400),
        (ConfigError("offset.not_stopped", "x"), 400),
        (RetriableError("offset.still_held", "x"), 400),
        (RetriableError("scheduler.not_leader", "x"), 409),
        (RetriableError("rpc.unavailable", "x"), 503),
        (RetriableError("deadline.exceeded", "x"), 500),
        (RetriableError("plugin.deadline", "x"), 500),
        (ConfigError("http.too_large", "x"), 413),
        (ConfigError("http.content_type", "x"), 415),
        (RetriableError("http.slow", "x"), 408),
        (AuthError("rpc.unauthenticated", "x"), 401),
        (FencedError("offset.stale_epoch", "x"), 409),
        (InternalError("internal.unexpected", "x"), 500),
    ],
)
def test_each_error_has_its_status(error, status):
    answer = error_response(error)
    body = json.loads(answer.body)
    assert (answer.status_code, body["error_code"], body["code"]) == (status, status, error.code)


@pytest.mark.parametrize("code", ["deadline.exceeded", "plugin.deadline"])
def test_a_request_that_timed_out_names_the_stage_in_kafka_connects_words(code):
    body = json.loads(error_response(RetriableError(code, "stage a.b took longer than 1 s")).body)
    assert body["message"] == "Request timed out: stage a.b took longer than 1 s."


def test_a_conflict_tells_the_revision_to_go_on_from():
    error = ConfigError("config.revision_changed", "x is at 7", suggestion="7")
    answer = error_response(error)
    assert answer.headers["etag"] == '"7"'
    assert json.loads(answer.body)["suggestion"] == "7"


def test_who_is_told_to_come_again_is_told_when():
    assert (
        error_response(RetriableError("a.b", "x", retry_after_s=2.4)).headers["retry-after"] == "2"
    )
    assert error_response(RetriableError("a.b", "x")).headers["retry-after"] == "1"


def test_each_finding_is_there_for_programs():
    findings = [Diagnostic("a.one", "one", config_path="k", fix="Do it."), Diagnostic("a.two", "2")]
    body = json.loads(error_response(InvalidConfigError(findings)).body)
    assert body["errors"] == [
        {"message": "one", "code": "a.one", "config_path": "k", "fix": "Do it."},
        {"message": "2", "code": "a.two"},
    ]
