"""A call: bounded retries when the service was away, a deadline always, errors as ours."""

from __future__ import annotations

import asyncio
import socket
import time

import grpc
import grpc.aio
import pytest
from grpc.aio import Metadata

from penstock.client import ConfigClient, service_client
from penstock.model.errors import FencedError, RetriableError
from penstock.rpc.status import status_from_diagnostic


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(service_client, "MIN_RETRY_DELAY_S", 0.001)


def failing(status=grpc.StatusCode.UNAVAILABLE, times=1000, trailing=()):
    """A method that fails a number of times, and counts."""
    calls = []

    async def method(request, *, timeout):  # noqa: ASYNC109 - as a stub's method has it
        calls.append(timeout)
        if len(calls) <= times:
            raise grpc.aio.AioRpcError(status, Metadata(), Metadata(*trailing), "text")
        return "answer"

    return method, calls


def calling(method, **how):
    async def main():
        async with service_client.ServiceClient("unix:/nowhere") as caller:
            return await caller._call("stage.name", method, "request", **how)

    return asyncio.run(main())


def test_a_service_that_was_away_is_asked_again():
    method, calls = failing(times=2)
    assert calling(method) == "answer"
    assert len(calls) == 3


def test_retries_are_bounded():
    method, calls = failing()
    with pytest.raises(RetriableError, match=r"rpc\.unavailable.*stage\.name at unix:/nowhere"):
        calling(method)
    assert len(calls) == service_client.MAX_ATTEMPTS


def test_what_is_not_idempotent_is_asked_once():
    method, calls = failing(times=1)
    with pytest.raises(RetriableError):
        calling(method, idempotent=False)
    assert len(calls) == 1


@pytest.mark.parametrize("status", [grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_only_a_service_that_was_away_is_asked_again(status):
    method, calls = failing(status)
    with pytest.raises(Exception, match=r"rpc\.failed|deadline\.exceeded"):
        calling(method)
    assert len(calls) == 1


@pytest.mark.parametrize("kind", [RetriableError, FencedError])
def test_an_answer_of_the_service_is_for_the_caller(kind):
    """A retriable refusal too: only the caller knows what to do before it tries again."""
    _, _, trailing = status_from_diagnostic(kind("some.code", "text").diagnostic)
    method, calls = failing(grpc.StatusCode.UNAVAILABLE, trailing=trailing)
    with pytest.raises(kind, match=r"some\.code"):
        calling(method)
    assert len(calls) == 1


def starting():
    _, _, trailing = status_from_diagnostic(RetriableError("scheduler.starting", "text").diagnostic)
    return trailing


def test_a_service_that_has_just_started_is_asked_again_because_it_has_not_begun(monkeypatch):
    monkeypatch.setattr(service_client, "MAX_RETRY_DELAY_S", 0.001)
    method, calls = failing(times=3 * service_client.MAX_ATTEMPTS, trailing=starting())
    assert calling(method, idempotent=False) == "answer"
    assert len(calls) == 3 * service_client.MAX_ATTEMPTS + 1


@pytest.mark.timed("a deadline of a call is a promise of seconds")
def test_who_waits_for_a_start_is_told_while_its_own_caller_still_waits():
    method, _ = failing(trailing=starting())
    began = time.monotonic()
    with pytest.raises(RetriableError, match=r"scheduler\.starting"):
        calling(method, timeout_s=4)
    assert time.monotonic() - began < 4


@pytest.mark.timed("a deadline of a call is a promise of seconds")
def test_all_tries_together_keep_one_deadline(monkeypatch):
    monkeypatch.setattr(
        service_client, "MIN_RETRY_DELAY_S", 1.0
    )  # the pauses of all tries take 2 s at least
    method, calls = failing()
    began = time.monotonic()
    with pytest.raises(RetriableError):
        calling(method, timeout_s=1)
    assert time.monotonic() - began < 1.9
    assert all(timeout <= 1 for timeout in calls)
    assert calls == sorted(calls, reverse=True)


@pytest.mark.timed("a deadline of a call is a promise of seconds")
def test_a_service_that_never_answers_meets_the_deadline(tmp_path):
    async def main():
        async with ConfigClient(f"unix:{tmp_path}/s", timeout_s=0.3) as client:
            began = time.monotonic()
            with pytest.raises(RetriableError, match=r"config\.get at unix:"):
                await client.get("a")
            assert time.monotonic() - began < 5

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/s")
        silent.listen(8)
        asyncio.run(main())
