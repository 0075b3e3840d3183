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


def test_the_topics_of_one_of_many_connectors_take_two_short_reads(room, monkeypatch):
    """Clients ask for those of every connector of a list: it must not grow with its square."""

    async def test(room):
        for number in range(500):
            one = await made(room, f"orders-{number}")
            if number % 100 == 0:
                await room.topics.record(one.generation, ["a"])
        reads, read_range = [], room.store.range

        async def counted(prefix, after="", limit=1000):
            page = await read_range(prefix, after, limit)
            reads.append(len(page.entries))
            return page

        monkeypatch.setattr(room.store, "range", counted)
        monkeypatch.setattr(room.store, "get", None)
        found = [await room.topics.get(f"orders-{number}") for number in range(500)]
        assert found.count(["a"]) == 5
        assert len(reads) == 2 * 500
        assert sum(reads) == 500 + 5, "each read has its connector or its topics, and nothing else"

    room(test)
