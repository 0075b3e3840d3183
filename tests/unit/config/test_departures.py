"""What a deleted connector owns outside is removed by its plugins, and no deletion waits for it."""

import asyncio
import logging

import pytest

from penstock.client import AppliedConnector
from penstock.config import departures
from penstock.config.departures import Departures
from penstock.config.stored import GONE
from penstock.config.sweeping import sweep_all
from penstock.model.connector import ApplyAction, Connector
from penstock.model.errors import RetriableError


class FakeWorker:
    """Removes what is outside; fails as often as it is told."""

    def __init__(self, failures=0):
        self.failures, self.asked = failures, []

    async def apply(self, connector, action):
        self.asked.append((connector.name, connector.config["slot"], action))
        if len(self.asked) <= self.failures:
            raise RetriableError("cdc.slot_active", "the slot is in use")
        return AppliedConnector(("drop the slot",))


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(departures, "DELAYS", (0.0, 0.0, 0.0))


async def notes(room):
    return (await room.store.range(GONE)).entries


async def left(room, worker):
    """Delete a connector, and let it be removed outside."""
    await room.connectors.create(Connector("orders", {"slot": "s"}))
    leaving = Departures(room.store, worker)
    await leaving.begin(await room.connectors.delete("orders", 0))
    await asyncio.gather(*leaving._running)
    return await notes(room)


REMOVAL = ("orders", "s", ApplyAction.DELETE)


@pytest.mark.parametrize("failures", [0, 2])
def test_it_is_removed_outside_even_when_its_tasks_are_still_ending(room, at_once, failures):
    async def test(room):
        worker = FakeWorker(failures)
        assert await left(room, worker) == ()
        assert worker.asked == [REMOVAL] * (failures + 1)

    room(test)


def test_a_removal_that_always_fails_is_given_up_with_a_code(room, at_once, caplog):
    async def test(room):
        worker = FakeWorker(99)
        with caplog.at_level(logging.WARNING, "penstock.config.departures"):
            assert await left(room, worker) == ()
        assert worker.asked == [REMOVAL] * 3
        assert "config.left_outside" in caplog.text
        assert "given up after 3 tries" in caplog.text

    room(test)


def test_a_removal_that_a_restart_cut_off_goes_on(room, at_once):
    async def test(room):
        await room.connectors.create(Connector("orders", {"slot": "s"}))
        await room.connectors.delete("orders", 0)
        (connector,) = await sweep_all(room.store)
        worker = FakeWorker()
        leaving = Departures(room.store, worker)
        await leaving.begin(connector)
        await asyncio.gather(*leaving._running)
        assert worker.asked == [REMOVAL]
        assert await notes(room) == ()

    room(test)


def test_what_a_namesake_owns_is_not_removed(room, at_once):
    async def test(room):
        await room.connectors.create(Connector("orders", {"slot": "s"}))
        deleted = await room.connectors.delete("orders", 0)
        await room.connectors.create(Connector("orders", {"slot": "s"}))
        worker = FakeWorker()
        leaving = Departures(room.store, worker)
        await leaving.begin(deleted)
        await asyncio.gather(*leaving._running)
        assert worker.asked == []
        assert await notes(room) == ()

    room(test)
