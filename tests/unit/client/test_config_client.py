"""The config service over gRPC, end to end."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.connector import Connector, ConnectorKind, Partition, TargetState, TaskPlan
from penstock.model.errors import ConfigError, RetriableError


def wanted(name="orders", **config):
    return Connector(name, config, kind=ConnectorKind.SOURCE)


def test_the_life_of_a_connector(mesh):
    async def test(mesh):
        made = await mesh.config.create(wanted(a="1"))
        assert made.kind is ConnectorKind.SOURCE
        put, changed = await mesh.config.put(wanted(a="2"), made.revision)
        assert changed
        assert put.generation == made.generation
        assert (await mesh.config.put(wanted(a="2"))) == (put, False)
        paused = await mesh.config.set_target_state("orders", TargetState.PAUSED)
        assert await mesh.config.get("orders") == paused
        listed = await mesh.config.list()
        assert listed.connectors == (paused,)
        assert listed.revision == paused.revision
        await mesh.config.delete("orders", paused.revision)
        with pytest.raises(ConfigError, match=r"config\.not_found"):
            await mesh.config.get("orders")

    mesh(test)


def test_a_list_is_ordered_by_name(mesh):
    async def test(mesh):
        for name in ("b", "a", "c"):
            await mesh.config.create(wanted(name))
        assert [c.name for c in (await mesh.config.list()).connectors] == ["a", "b", "c"]

    mesh(test)


def test_plans_come_back_ordered_by_number_with_their_epoch(mesh):
    async def test(mesh):
        generation = (await mesh.config.create(wanted())).generation
        plans = [
            TaskPlan(
                f"{generation}-{i}",
                (Partition({"t": i}, offset={"pos": i, "when": "x"}, payload=b"\x00p"),),
                {"k": "v"},
            )
            for i in (10, 2, 1)
        ]
        epoch = await mesh.config.put_plans("orders", generation, plans)
        stored = await mesh.config.list_plans("orders", generation)
        assert [s.plan for s in stored] == plans[::-1]
        assert {s.epoch for s in stored} == {epoch}
        later = await mesh.config.put_plans("orders", generation, plans[:1])
        assert later > epoch
        assert [s.plan for s in await mesh.config.list_plans("orders", generation)] == plans[:1]

    mesh(test)


def test_a_plan_with_very_many_partitions_is_stored(mesh):
    async def test(mesh):
        generation = (await mesh.config.create(wanted())).generation
        plan = TaskPlan(
            f"{generation}-0", tuple(Partition({"table": f"table{i}"}) for i in range(50_000))
        )
        await mesh.config.put_plans("orders", generation, [plan])
        (stored,) = await mesh.config.list_plans("orders", generation)
        assert stored.plan == plan

    mesh(test)


def test_a_watch_from_a_list_misses_nothing(mesh):
    async def test(mesh):
        await mesh.config.create(wanted("before"))
        listed = await mesh.config.list()
        made = await mesh.config.create(wanted("orders"))
        await mesh.config.delete("before")
        watch = mesh.config.watch(listed.revision)
        change = await anext(watch)
        assert change.names == ("before", "orders")
        assert change.revision > made.revision
        waiting = asyncio.ensure_future(anext(watch))
        await mesh.config.set_target_state("orders", TargetState.PAUSED)
        assert (await waiting).names == ("orders",)
        await watch.aclose()

    mesh(test)


def test_a_watch_ends_with_a_retriable_error_when_the_service_ends(mesh):
    async def test(mesh):
        listed = await mesh.config.list()
        watch = mesh.config.watch(listed.revision)
        waiting = asyncio.ensure_future(anext(watch))
        await mesh.config.create(wanted())
        await waiting
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await mesh.server.stop()
        with pytest.raises(RetriableError, match=r"rpc\.(draining|unavailable)"):
            await waiting

    mesh(test)


@pytest.mark.parametrize("name", ["a/b", "", "a" * 200])
def test_bad_names_are_refused_over_the_wire(mesh, name):
    async def test(mesh):
        with pytest.raises(ConfigError, match=r"config\.name"):
            await mesh.config.create(wanted(name))

    mesh(test)
