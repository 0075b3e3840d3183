"""Levels of loggers as configuration."""

from __future__ import annotations

import asyncio

import pytest

from penstock.config import log_levels
from penstock.model.errors import ConfigError
from penstock.model.logs import LogLevel


def test_a_level_is_set_listed_and_removed(room):
    async def test(room):
        await room.levels.set("worker", "penstock.spark", "warn")
        await room.levels.set("config", "root", "DEBUG")
        level = LogLevel("worker", "penstock.spark", "WARNING", 1000.5)
        assert (await room.levels.list("worker"))[0] == [level]
        assert len((await room.levels.list())[0]) == 2
        await room.levels.set("worker", "penstock.spark", "")
        assert (await room.levels.list("worker"))[0] == []

    room(test)


@pytest.mark.parametrize(
    ("service", "logger", "level", "code"),
    [
        ("worcer", "root", "INFO", "log_service"),
        ("worker", "", "INFO", "log_logger"),
        ("worker", "a/b", "INFO", "log_logger"),
        ("worker", "root", "LOUD", "log_level"),
    ],
)
def test_an_invalid_service_logger_or_level_is_refused(room, service, logger, level, code):
    async def test(room):
        with pytest.raises(ConfigError, match=rf"config\.{code}\]"):
            await room.levels.set(service, logger, level)

    room(test)


def test_levels_are_bounded(room, monkeypatch):
    async def test(room):
        for n in range(3):
            await room.levels.set("worker", f"a{n}", "INFO")
        with pytest.raises(ConfigError, match=r"config\.log_levels"):
            await room.levels.set("worker", "a9", "INFO")

    monkeypatch.setattr(log_levels, "MAX_LEVELS", 3)
    room(test)


def test_a_watch_yields_the_levels_and_again_when_they_changed(room):
    async def test(room):
        watch = room.levels.watch("worker")
        assert await anext(watch) == []
        waiting = asyncio.ensure_future(anext(watch))
        await room.levels.set("config", "root", "DEBUG")  # not of this service
        await room.levels.set("worker", "root", "DEBUG")
        (level,) = await waiting
        assert (level.logger, level.level) == ("root", "DEBUG")
        await watch.aclose()

    room(test)
