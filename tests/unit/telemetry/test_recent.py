"""People read along in a log: bounded, masked, and nobody who logs waits for them."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import aclosing

import pytest

from penstock.model.errors import RetriableError
from penstock.model.logs import MAX_KEPT_LINES, MAX_MESSAGE_LENGTH, LogFilter
from penstock.telemetry.logs import MAX_LINES_PER_MESSAGE, MAX_READERS, RecentLogs, log_context
from penstock.telemetry.redaction import register_secret


@pytest.fixture
def recent():
    return RecentLogs()


@pytest.fixture
def log(recent):
    logger = logging.getLogger(f"test.recent.{id(recent)}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(recent)
    return logger


async def all_of(recent, rules):
    async with aclosing(recent.read(rules)) as answers:
        return [line.message async for logged in answers for line in logged.lines]


def test_the_last_lines_are_there(recent, log):
    for number in range(MAX_KEPT_LINES + 10):
        log.info("line %d", number)
    found = asyncio.run(all_of(recent, LogFilter(tail=MAX_KEPT_LINES)))
    assert (found[0], found[-1], len(found)) == (
        "line 10",
        f"line {MAX_KEPT_LINES + 9}",
        MAX_KEPT_LINES,
    )
    assert asyncio.run(all_of(recent, LogFilter(tail=2))) == found[-2:]
    assert asyncio.run(all_of(recent, LogFilter(tail=0))) == []


def test_lines_are_of_a_connector_and_of_a_level(recent, log):
    log.error("nobody's")
    with log_context(connector="a", task="a-0"):
        log.info("low")
        log.error("high")
    with log_context(connector="b"):
        log.error("other")
    assert asyncio.run(all_of(recent, LogFilter("a"))) == ["low", "high"]
    assert asyncio.run(all_of(recent, LogFilter("a", logging.ERROR))) == ["high"]


def test_secrets_are_masked_and_tracebacks_are_cut(recent, log):
    register_secret("hunter2-the-secret")
    try:
        raise ValueError("hunter2-the-secret" + "x" * MAX_MESSAGE_LENGTH)
    except ValueError:
        log.exception("password hunter2-the-secret")
    (found,) = asyncio.run(all_of(recent, LogFilter()))
    assert "hunter2" not in found
    assert found.startswith("password ***\nTraceback")
    assert len(found) == MAX_MESSAGE_LENGTH


def test_lines_that_come_from_any_thread_are_read(recent, log):
    async def scenario():
        async with aclosing(recent.read(LogFilter(follow=True))) as answers:
            reading = asyncio.ensure_future(anext(answers))
            await asyncio.sleep(0)
            thread = threading.Thread(target=log.info, args=("from a thread",))
            thread.start()
            logged = await asyncio.wait_for(reading, 60)
            thread.join()
        return [line.message for line in logged.lines]

    assert asyncio.run(scenario()) == ["from a thread"]


def test_a_reader_that_is_slow_is_told_how_many_it_missed(recent, log):
    async def scenario():
        async with aclosing(recent.read(LogFilter(follow=True))) as answers:
            reading = asyncio.ensure_future(anext(answers))
            await asyncio.sleep(0)
            log.info("first")
            await reading
            for number in range(MAX_KEPT_LINES + 5):
                log.info("line %d", number)
            logged = await anext(answers)
        return len(logged.lines), logged.missed

    assert asyncio.run(scenario()) == (MAX_LINES_PER_MESSAGE, 5)


def test_readers_are_bounded_and_leave(recent, log):
    async def scenario():
        rules = LogFilter(tail=1, follow=True)
        log.info("one")
        readers = [recent.read(rules) for _ in range(MAX_READERS)]
        for reader in readers:
            await anext(reader)
        with pytest.raises(RetriableError, match="too_many_readers"):
            await anext(recent.read(rules))
        for reader in readers:
            await reader.aclose()
        again = recent.read(rules)
        await anext(again)
        await again.aclose()

    asyncio.run(scenario())
