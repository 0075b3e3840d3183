"""Offsets of a deleted connector that its namesake takes up, by taking up its generation."""

import asyncio
import logging

import pytest

from penstock.config import rules
from penstock.config.deletions import ResourceRemover
from penstock.config.kept_offsets import list_kept_offsets
from penstock.config.records import DELETED_PREFIX, connector_key
from penstock.model.connector import Connector, ConnectorKind, RestartRequest, TargetState
from penstock.model.errors import ConfigError, InternalError
from penstock.store.port import Check, Conflict

ORDERS = Connector("orders", {"connector.class": "file-source", "file": "a"}, ConnectorKind.SOURCE)


async def put(room, new):
    return (await room.connectors.put(new, 0))[0]


CREATED = {
    "create": lambda room, new: room.connectors.create(new),
    "put": put,
}


async def refused(code, call):
    with pytest.raises(ConfigError) as error:
        await call
    assert error.value.code == code
    assert error.value.diagnostic.fix
    return error.value.diagnostic


@pytest.mark.parametrize("way", sorted(CREATED))
def test_a_namesake_takes_up_the_generation_and_counts_on(room, way):
    async def test(room):
        first = (await room.connectors.create(ORDERS)).connector
        await room.connectors.put(Connector("orders", {"file": "b"}, ConnectorKind.SOURCE), 0)
        await room.connectors.request_restart("orders", RestartRequest(0))
        await room.topics.record(first.generation, ["t"])
        await room.connectors.keep("orders", 0)

        assert await room.connectors.find_generation(first.generation) == (
            None,
            (await room.store.range("")).revision,
        )
        assert await room.connectors.is_kept(first.generation)
        (kept,) = await list_kept_offsets(room.store)
        assert (kept.name, kept.kind, kept.generation) == (
            "orders", ConnectorKind.SOURCE, first.generation,
        )  # fmt: skip
        assert kept.kept_at == 1000.5

        again = (await CREATED[way](room, ORDERS)).connector
        assert (again.generation, again.version) == (first.generation, 3)
        assert again.restarts[-1].marker == 1  # the scheduler may have carried it out: it counts on
        assert [one.version for one in await room.revisions.list("orders")] == [3, 2, 1]
        assert await room.topics.get("orders") == []
        assert await list_kept_offsets(room.store) == []
        assert (await room.connectors.find_generation(first.generation))[0] is not None
        assert (await room.store.range(DELETED_PREFIX)).entries == ()
        assert (await room.store.range("kept")).entries == ()

    room(test)


def test_a_plain_deletion_keeps_nothing(room):
    async def test(room):
        first = (await room.connectors.create(ORDERS)).connector
        await room.connectors.delete("orders", 0)
        assert not await room.connectors.is_kept(first.generation)
        assert (await room.connectors.create(ORDERS)).connector.generation != first.generation

    room(test)


def test_a_plain_deletion_of_the_namesake_ends_what_was_kept(room):
    async def test(room):
        first = (await room.connectors.create(ORDERS)).connector
        await room.connectors.keep("orders", 0)
        await room.connectors.create(ORDERS)
        await room.connectors.delete("orders", 0)
        assert not await room.connectors.is_kept(first.generation)
        assert (await room.connectors.create(ORDERS)).connector.generation != first.generation

    room(test)


def test_of_many_creates_at_once_one_has_the_generation(room):
    async def test(room):
        first = (await room.connectors.create(ORDERS)).connector
        await room.connectors.keep("orders", 0)
        calls = [room.connectors.create(ORDERS) for _ in range(5)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        created = [one for one in answers if not isinstance(one, BaseException)]
        assert [one.connector.generation for one in created] == [first.generation]
        assert {one.code for one in answers if one not in created} == {"config.exists"}

    room(test)


def test_a_create_that_saw_nothing_kept_is_decided_again(room, monkeypatch):
    """Between its read and its write a namesake was created, and deleted with its offsets kept."""

    async def test(room):
        write, others = room.store.write, []

        async def overtaken(checks, puts):
            if not others:
                others.append(None)
                others.append((await room.connectors.create(ORDERS)).connector)
                await room.connectors.keep("orders", 0)
            return await write(checks, puts)

        monkeypatch.setattr(room.store, "write", overtaken)
        created = (await room.connectors.create(ORDERS)).connector
        assert created.generation == others[1].generation

    room(test)


EXISTING = {("keep", False), ("create", True)}


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("change", ["keep", "create", "purge"])
def test_a_crash_leaves_all_or_nothing(room, monkeypatch, change, stored):
    async def test(room):
        first = (await room.connectors.create(ORDERS)).connector
        if change != "keep":
            await room.connectors.keep("orders", 0)
        before = (await room.store.range("")).entries
        write = room.store.write

        async def crash(checks, puts):
            if stored:
                await write(checks, puts)
            raise InternalError("test.crash", "the process ended")

        monkeypatch.setattr(room.store, "write", crash)
        call = {
            "keep": lambda: room.connectors.keep("orders", 0),
            "create": lambda: room.connectors.create(ORDERS),
            "purge": lambda: room.connectors.purge("orders"),
        }[change]
        with pytest.raises(InternalError):
            await call()
        monkeypatch.setattr(room.store, "write", write)
        if not stored:
            assert (await room.store.range("")).entries == before
        exists = await room.connectors.is_kept(first.generation)
        assert exists is (not stored or change != "purge")
        names = [one.connector.name for one in (await room.connectors.read_page()).connectors]
        assert names == (["orders"] if (change, stored) in EXISTING else [])

    room(test)


def test_another_kind_is_refused(room):
    async def test(room):
        await room.connectors.create(ORDERS)
        await room.connectors.keep("orders", 0)
        sink = Connector("orders", {}, ConnectorKind.SINK)
        error = await refused("config.kept_kind", room.connectors.create(sink))
        assert "penstock offsets purge orders" in error.fix
        await room.connectors.purge("orders")
        assert (await room.connectors.create(sink)).connector.version == 1

    room(test)


def test_a_revision_that_changed_keeps_nothing(room):
    async def test(room):
        await room.connectors.create(ORDERS)
        await refused("config.revision_changed", room.connectors.keep("orders", 999))
        await refused("config.not_found", room.connectors.keep("none", 0))
        assert await list_kept_offsets(room.store) == []

    room(test)


def test_they_are_bounded(room, monkeypatch):
    monkeypatch.setattr(rules, "MAX_KEPT_OFFSETS", 2)

    async def test(room):
        for name in ("a", "b", "c"):
            await room.connectors.create(Connector(name, {}))
        await room.connectors.keep("a", 0)
        await room.connectors.keep("b", 0)
        await refused("config.too_many_kept", room.connectors.keep("c", 0))
        assert (await room.connectors.get("c")).connector.target_state is TargetState.RUNNING
        await room.connectors.purge("a")
        await room.connectors.keep("c", 0)
        assert [one.name for one in await list_kept_offsets(room.store)] == ["b", "c"]

    room(test)


def test_what_is_purged_goes_like_any_deleted_connector(room):
    async def test(room):
        first = (await room.connectors.create(ORDERS)).connector
        await room.connectors.keep("orders", 0)
        await refused("config.nothing_kept", room.connectors.purge("orderz"))
        assert (await room.connectors.purge("orders")).config == ORDERS.config
        assert not await room.connectors.is_kept(first.generation)
        (gone,) = (await room.store.range(DELETED_PREFIX)).entries
        assert gone.key.endswith(first.generation)
        assert (await room.store.range("revision/")).entries == ()
        await refused("config.nothing_kept", room.connectors.purge("orders"))

    room(test)


def test_a_purge_that_a_namesake_overtakes_finds_nothing(room, monkeypatch):
    async def test(room):
        await room.connectors.create(ORDERS)
        await room.connectors.keep("orders", 0)
        write, others = room.store.write, []

        async def overtaken(checks, puts):
            if not others:
                others.append(None)
                await room.connectors.create(ORDERS)
            return await write(checks, puts)

        monkeypatch.setattr(room.store, "write", overtaken)
        await refused("config.nothing_kept", room.connectors.purge("orders"))
        assert (await room.connectors.get("orders")).connector.version == 2

    room(test)


def test_a_removal_leaves_what_a_kept_connector_owns(room, caplog):
    """The slot of a connector that was deleted plainly, and then of one that is kept."""

    async def test(room):
        await room.connectors.create(ORDERS)
        deleted = await room.connectors.delete("orders", 0)
        await room.connectors.create(ORDERS)
        await room.connectors.keep("orders", 0)
        with caplog.at_level(logging.WARNING):
            remover = ResourceRemover(room.store, worker=NoWorker())
            await remover.start(deleted)
            await asyncio.gather(*remover._tasks)
        assert caplog.text == ""
        assert (await room.store.range(DELETED_PREFIX)).entries == ()

    room(test)


def test_what_an_older_version_left_is_purged_when_its_namesake_is_kept(room):
    """An older version knows nothing of kept offsets, and creates a namesake beside them."""

    async def test(room):
        first = (await room.connectors.create(ORDERS)).connector
        await room.connectors.keep("orders", 0)
        kept = (await room.store.range("kept")).entries
        second = (await room.connectors.create(ORDERS)).connector
        key = connector_key("orders")
        stored = (await room.store.get(key))[key]
        value = stored.value.replace(first.generation.encode(), b"0" * 32)
        puts = [(key, value), *((one.key, one.value) for one in kept)]
        with pytest.raises(Conflict):
            await room.store.write([Check(key, 1)], puts)
        await room.store.write([], puts)
        await room.connectors.keep("orders", 0)
        assert second.generation == first.generation
        assert not await room.connectors.is_kept(first.generation)
        assert await room.connectors.is_kept("0" * 32)
        (gone,) = (await room.store.range(DELETED_PREFIX)).entries
        assert gone.key.endswith(first.generation)

    room(test)


class NoWorker:
    """Fails a test that lets it remove anything."""

    async def apply(self, connector, action):
        raise AssertionError(connector)
