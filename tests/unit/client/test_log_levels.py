"""The loggers of a process follow the config service, also when it was away."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.client import ConfigClient, apply_log_levels
from penstock.client import log_levels as module
from penstock.model.errors import RetriableError
from penstock.telemetry.log_levels import LogLevels
from support.waiting import until

NAME = "penstock.test_keep_levels"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "MIN_LEVELS_DELAY_S", 0.01)
    monkeypatch.setattr(module, "MAX_LEVELS_DELAY_S", 0.05)


def level() -> int:
    return logging.getLogger(NAME).level


def test_levels_follow_the_config_service(mesh):
    async def test(mesh):
        levels = LogLevels()
        keeping = asyncio.create_task(
            apply_log_levels(mesh.config.watch_log_levels, ["worker"], levels)
        )
        await mesh.config.set_log_level("all", NAME, "WARN")
        await until(lambda: level() == logging.WARNING, "all services")
        await mesh.config.set_log_level("offset", NAME, "ERROR")
        await mesh.config.set_log_level("worker", NAME, "DEBUG")
        await until(lambda: level() == logging.DEBUG, "this service")
        await mesh.config.set_log_level("worker", NAME, "")
        await mesh.config.set_log_level("all", NAME, "")
        await until(lambda: level() == logging.NOTSET, "taken away")
        keeping.cancel()

    mesh(test)


def test_levels_stay_while_the_service_is_away_and_follow_it_again(mesh, serving):
    async def test(mesh):
        levels = LogLevels()
        async with ConfigClient(mesh.server.address) as client:
            keeping = asyncio.create_task(
                apply_log_levels(client.watch_log_levels, ["worker"], levels)
            )
            await mesh.config.set_log_level("worker", NAME, "DEBUG")
            await until(lambda: level() == logging.DEBUG, "it is set")
            await mesh.server.stop()
            with pytest.raises(RetriableError):
                await client.list_log_levels()
            assert level() == logging.DEBUG
            await mesh.store.close()
            async with serving(mesh.folder):
                await mesh.config.set_log_level("worker", NAME, "")
                await until(lambda: level() == logging.NOTSET, "it is taken away")
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

    mesh(test)
