"""Connectors in a store: generations, revisions, races."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.config import Connectors
from penstock.model.connector import Connector, RestartRequest, TargetState
from penstock.model.errors import ConfigError, RetriableError


def wanted(name="orders", **config):
    return Connector(name, config)


def test_a_created_connector_is_read_as_it_was_written(room):
    async def test(room):
        made = await room.connectors.create(wanted(a="1"))
        assert await room.connectors.get("orders") == made
        assert made.connector.generation
        assert made.connector.revision > 0
        assert made.updated_at == 1000.5
        page = await room.connectors.read_page()
        assert page.connectors == (made,)
        assert page.revision == made.connector.revision
        assert not page.more

    room(test)


def test_a_name_is_created_once(room):
    async def test(room):
        attempts = (room.connectors.create(wanted(a=str(i))) for i in range(20))
        results = await asyncio.gather(*attempts, return_exceptions=True)
        refused = [r for r in results if isinstance(r, ConfigError)]
        assert len(refused) == 19
        assert {error.code for error in refused} == {"config.exists"}

    room(test)


def test_a_namesake_has_another_generation(room):
    async def test(room):
        one = await room.connectors.create(wanted())
        await room.connectors.delete("orders", 0)
        two = await room.connectors.create(wanted())
        assert one.connector.generation != two.connector.generation

    room(test)


def test_an_equal_configuration_writes_nothing(room):
    async def test(room):
        first, changed = await room.connectors.put(wanted(a="1"), 0)
        assert changed
        writes = room.store.statistics()["writes"]
        second, changed = await room.connectors.put(wanted(a="1"), 0)
        assert not changed
        assert second == first
        assert (await room.connectors.set_target_state("orders", TargetState.RUNNING)) == first
        assert room.store.statistics()["writes"] == writes

    room(test)


def test_of_two_clients_that_read_the_same_revision_one_is_refused(room):
    async def test(room):
        made = await room.connectors.create(wanted(a="1"))
        seen = made.connector.revision
        await room.connectors.put(wanted(a="2"), seen)
        with pytest.raises(ConfigError, match=r"config\.revision_changed"):
            await room.connectors.put(wanted(a="3"), seen)
        with pytest.raises(ConfigError, match=r"config\.revision_changed"):
            await room.connectors.delete("orders", seen)
        assert (await room.connectors.get("orders")).connector.config == {"a": "2"}

    room(test)


def test_racing_writers_with_one_expected_revision_have_one_winner(room):
    async def test(room):
        seen = (await room.connectors.create(wanted(a="0"))).connector.revision
        puts = (room.connectors.put(wanted(a=str(i)), seen) for i in range(1, 21))
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert sum(isinstance(r, tuple) for r in results) == 1

    room(test)


def test_an_expected_revision_of_a_connector_that_is_gone_is_refused(room):
    async def test(room):
        with pytest.raises(ConfigError, match=r"config\.not_found"):
            await room.connectors.put(wanted(a="1"), 7)

    room(test)


@pytest.mark.parametrize("state", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_target_state_is_kept_by_later_configurations(room, state):
    async def test(room):
        await room.connectors.create(wanted(a="1"))
        await room.connectors.set_target_state("orders", state)
        stored, _ = await room.connectors.put(wanted(a="2"), 0)
        assert stored.connector.target_state is state

    room(test)


def test_secret_keys_of_an_equal_configuration_are_stored_as_no_new_version(room):
    async def test(room):
        made, _ = await room.connectors.put(wanted(pin="1"), 0)
        again = replace(wanted(pin="1"), secret_keys=("pin",))
        stored, is_new = await room.connectors.put(again, 0)
        assert not is_new
        assert stored == await room.connectors.get("orders")
        assert stored.connector.secret_keys == ("pin",)
        assert stored.connector.version == made.connector.version
        found = await room.revisions.list("orders")
        assert [one.version for one in found] == [1]

    room(test)


def test_a_connector_may_be_created_stopped(room):
    async def test(room):
        made = await room.connectors.create(
            Connector("orders", {}, target_state=TargetState.STOPPED)
        )
        assert made.connector.target_state is TargetState.STOPPED

    room(test)


def test_every_method_refuses_a_connector_that_does_not_exist(room):
    async def test(room):
        await room.connectors.create(wanted("orders"))
        for call in (
            room.connectors.get("order"),
            room.connectors.delete("order", 0),
            room.connectors.set_target_state("order", TargetState.PAUSED),
            room.connectors.patch("order", {}, (), 0),
            room.connectors.request_restart("order", RestartRequest(0)),
            room.revisions.list("order"),
            room.revisions.rollback("order", 1, 0),
        ):
            with pytest.raises(ConfigError, match=r"config\.not_found.*Did you mean orders"):
                await call

    room(test)


def test_changes_of_state_and_configuration_lose_nothing_to_each_other(room):
    async def test(room):
        await room.connectors.create(wanted(a="0"))
        states = (
            room.connectors.set_target_state("orders", s)
            for s in [TargetState.PAUSED, TargetState.STOPPED] * 3
        )
        puts = (room.connectors.put(wanted(a=str(i)), 0) for i in range(1, 7))
        await asyncio.gather(*states, *puts)
        stored = (await room.connectors.get("orders")).connector
        assert stored.config["a"] != "0"
        assert stored.target_state is not TargetState.RUNNING

    room(test)


def test_a_storm_of_other_writers_ends_in_a_retriable_error(room):
    async def test(room):
        await room.connectors.create(wanted(a="1"))
        other = Connectors(room.store)
        write, busy = room.store.write, False

        async def storm(checks, puts):
            nonlocal busy
            if not busy:
                busy = True
                state = (await other.get("orders")).connector.target_state
                flipped = (
                    TargetState.PAUSED if state is TargetState.RUNNING else TargetState.RUNNING
                )
                await other.set_target_state("orders", flipped)
                busy = False
            return await write(checks, puts)

        room.store.write = storm
        with pytest.raises(RetriableError, match=r"config\.contended"):
            await room.connectors.put(wanted(a="2"), 0)

    room(test)
