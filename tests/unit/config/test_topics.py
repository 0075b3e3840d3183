"""The topics of which connectors have rows."""

from __future__ import annotations

import pytest

from penstock.config import topics
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError


async def made(room, name="orders"):
    return (await room.connectors.create(Connector(name, {}))).connector


def test_topics_are_kept_until_they_are_reset(room):
    async def test(room):
        orders = await made(room)
        await room.topics.record(orders.generation, ["b", "a/c", "a"])
        await room.topics.record(orders.generation, ["a"])
        assert await room.topics.get("orders") == ["a", "a/c", "b"]
        await room.topics.reset("orders")
        assert await room.topics.get("orders") == []

    room(test)


def test_what_is_known_is_not_written_again(room):
    async def test(room):
        orders = await made(room)
        await room.topics.record(orders.generation, ["a"])
        before = (await room.store.range("")).revision
        await room.topics.record(orders.generation, ["a"])
        assert (await room.store.range("")).revision == before

    room(test)


def test_a_namesake_has_none_of_them(room):
    async def test(room):
        first = await made(room)
        await room.topics.record(first.generation, ["a"])
        await room.connectors.delete("orders", 0)
        await made(room)
        await room.topics.record(first.generation, ["late"])
        assert await room.topics.get("orders") == []
        assert (await room.store.range(f"topic/{first.generation}")).entries == ()

    room(test)


def test_they_are_bounded(room, monkeypatch):
    async def test(room):
        orders = await made(room)
        monkeypatch.setattr(topics, "MAX_TOPICS", 250)
        await room.topics.record(orders.generation, [f"t{n:04}" for n in range(300)])
        assert len(await room.topics.get("orders")) == 250
        await room.topics.record(orders.generation, ["one more"])
        assert len(await room.topics.get("orders")) == 250
        with pytest.raises(ConfigError, match=r"config\.too_many_topics"):
            await room.topics.record(orders.generation, [str(n) for n in range(1001)])

    room(test)
