"""The line of a change: there before its answer, and there if nobody gets one."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from penstock.gateway.access.audit import AuditMiddleware

PUT = {"type": "http", "method": "PUT", "path": "/connectors/a/pause", "client": ("::1", 1)}
START = {"type": "http.response.start", "status": 202, "headers": []}
BODY = {"type": "http.response.body", "body": b""}


@pytest.fixture
def lines(caplog):
    """Return a function that returns the lines that were written so far."""
    caplog.set_level(logging.INFO, "penstock.audit")
    return lambda: [json.loads(one.message) for one in caplog.records]


def run(app, scope, send):
    async def ask():
        await AuditMiddleware(app)(dict(scope), None, send)

    asyncio.run(ask())


async def answered(scope, receive, send):
    scope["state"]["connector"] = "a"
    await send(START)
    await send(BODY)


def test_it_is_written_before_the_answer_leaves(lines):
    seen = []

    async def send(message):
        seen.append((message["type"], [(one["connector"], one["status"]) for one in lines()]))

    run(answered, PUT, send)
    assert seen == [(START["type"], [("a", 202)]), (BODY["type"], [("a", 202)])]
    assert len(lines()) == 1


@pytest.mark.parametrize("when", ["before", "while"])
def test_who_hangs_up_leaves_a_line(lines, when):
    async def gone(_):
        raise ConnectionResetError

    async def app(scope, receive, send):
        if when == "before":
            raise asyncio.CancelledError
        await answered(scope, receive, send)

    with pytest.raises((asyncio.CancelledError, ConnectionResetError)):
        run(app, PUT, gone)
    assert [one["status"] for one in lines()] == [None if when == "before" else 202]


def test_who_only_reads_leaves_none(lines):
    async def send(_):
        pass

    run(lambda scope, receive, send: send(START), PUT | {"method": "GET"}, send)
    assert lines() == []
