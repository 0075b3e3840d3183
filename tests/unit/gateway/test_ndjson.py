"""Answers that go on: an error before the first line is a status, a later one is a line."""

import asyncio
import json

import pytest

from penstock.gateway.v1.bodies import parse_time
from penstock.gateway.v1.ndjson import stream_lines
from penstock.model.errors import ConfigError, RetriableError


async def told(error=None, count=2):
    for number in range(count):
        yield {"n": number}
    if error is not None:
        raise error


class Peer:
    """Somebody who asked, and hangs up when `gone` is set."""

    def __init__(self, gone=None):
        self._gone = gone

    async def receive(self):
        await (self._gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}


def sent(answers):
    async def run():
        answer = await stream_lines(Peer(), answers)
        return [json.loads(part) async for part in answer.body_iterator]

    return asyncio.run(run())


def test_a_line_for_each():
    assert sent(told()) == [{"n": 0}, {"n": 1}]
    assert sent(told(count=0)) == []


def test_an_error_before_the_first_line_is_an_error():
    with pytest.raises(ConfigError, match=r"a\.b"):
        sent(told(ConfigError("a.b", "no"), count=0))


def test_a_later_error_is_the_last_line():
    found = sent(told(RetriableError("a.b", "gone")))
    assert found[:2] == [{"n": 0}, {"n": 1}]
    assert found[2]["error"]["code"] == "a.b"


def test_what_nobody_expected_tells_no_text():
    found = sent(told(ValueError("canary")))
    assert found[-1]["error"]["code"] == "internal.unexpected"
    assert "canary" not in str(found)


def test_who_goes_away_ends_what_is_behind():
    ended = []

    async def endless():
        try:
            while True:
                yield {}
        finally:
            ended.append(True)

    async def run():
        answer = await stream_lines(Peer(), endless())
        parts = answer.body_iterator
        await anext(parts)
        await parts.aclose()

    asyncio.run(run())
    assert ended


def test_who_goes_away_before_the_first_line_ends_what_is_behind():
    ended = []

    async def run():
        gone = asyncio.Event()

        async def silent():
            try:
                gone.set()
                await asyncio.Event().wait()
                yield {}
            finally:
                ended.append(True)

        async with asyncio.timeout(60):
            answer = await stream_lines(Peer(gone), silent())
        return answer.status_code

    assert asyncio.run(run()) == 499
    assert ended


@pytest.mark.parametrize("text", ["2026-01-31T08:00:00Z", "2026-01-31T09:00:00+01:00"])
def test_a_time_has_a_zone(text):
    assert parse_time(text).isoformat() == "2026-01-31T08:00:00+00:00"


@pytest.mark.parametrize(
    "text", ["2026-01-31T08:00:00", "yesterday", "", None, 5, "0001-01-01T00:00:00+14:00"]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ConfigError, match=r"offset\.no_time"):
        parse_time(text)
