"""Plugins remove the external resources of deleted connectors, and no deletion waits for it."""

import asyncio
import logging

import pytest

from penstock.config import deletions
from penstock.config.deletions import ResourceRemover, resume_deletions
from penstock.config.records import DELETED_PREFIX
from penstock.model.admin import AppliedConnector
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
        return AppliedConnector()


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(deletions, "RETRY_DELAYS_S", (0.0, 0.0, 0.0))


async def notes(room):
    return (await room.store.range(DELETED_PREFIX)).entries


async def left(room, worker):
    """Delete a connector, and let it be removed outside."""
    await room.connectors.create(Connector("orders", {"slot": "s"}))
    leaving = ResourceRemover(room.store, worker)
    await leaving.start(await room.connectors.delete("orders", 0))
    await asyncio.gather(*leaving._tasks)
    return await notes(room)


REMOVAL = ("orders", "s", ApplyAction.DELETE)


@pytest.mark.parametrize("failures", [0, 2])
def test_resources_are_removed_even_when_the_tasks_are_still_ending(room, at_once, failures):
    async def test(room):
        worker = FakeWorker(failures)
        assert await left(room, worker) == ()
        assert worker.asked == [REMOVAL] * (failures + 1)

    room(test)


def test_a_removal_that_always_fails_is_abandoned_with_a_code(room, at_once, caplog):
    async def test(room):
        worker = FakeWorker(99)
        with caplog.at_level(logging.WARNING, "penstock.config.deletions"):
            assert await left(room, worker) == ()
        assert worker.asked == [REMOVAL] * 3
        assert "config.left_outside" in caplog.text
        assert "abandoned after 3 attempts" in caplog.text

    room(test)


def test_a_removal_that_a_restart_interrupted_continues(room, at_once):
    async def test(room):
        await room.connectors.create(Connector("orders", {"slot": "s"}))
        await room.connectors.delete("orders", 0)
        (connector,) = await resume_deletions(room.store)
        worker = FakeWorker()
        leaving = ResourceRemover(room.store, worker)
        await leaving.start(connector)
        await asyncio.gather(*leaving._tasks)
        assert worker.asked == [REMOVAL]
        assert await notes(room) == ()

    room(test)


def test_resources_of_a_new_connector_with_the_same_name_are_not_removed(room, at_once):
    async def test(room):
        await room.connectors.create(Connector("orders", {"slot": "s"}))
        deleted = await room.connectors.delete("orders", 0)
        await room.connectors.create(Connector("orders", {"slot": "s"}))
        worker = FakeWorker()
        leaving = ResourceRemover(room.store, worker)
        await leaving.start(deleted)
        await asyncio.gather(*leaving._tasks)
        assert worker.asked == []
        assert await notes(room) == ()

    room(test)
