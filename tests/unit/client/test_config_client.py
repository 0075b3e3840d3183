"""The config service over gRPC, end to end."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.connector import (
    Connector,
    ConnectorKind,
    RevisionCause,
    TargetState,
)
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


@pytest.mark.parametrize("name", ["a\nb", "", "a" * 201])
def test_bad_names_are_refused_over_the_wire(mesh, name):
    async def test(mesh):
        with pytest.raises(ConfigError, match=r"config\.name"):
            await mesh.config.create(wanted(name))

    mesh(test)


def test_a_configuration_is_patched_compared_and_rolled_back(mesh):
    async def test(mesh):
        made = await mesh.config.create(wanted(a="1", b="2", password="x"))
        patched, changed = await mesh.config.patch(
            "orders", {"a": "9", "b": None, "password": "y"}, made.revision
        )
        assert changed
        assert patched.config == {"a": "9", "password": "y"}
        with pytest.raises(ConfigError, match=r"config\.revision_changed") as caught:
            await mesh.config.patch("orders", {"a": "8"}, made.revision)
        assert caught.value.diagnostic.suggestion == str(patched.revision)
        told = {d.key: (d.before, d.after) for d in await mesh.config.diff_revisions("orders", 1)}
        assert told == {"a": ("1", "9"), "b": ("2", None), "password": ("***", "***")}
        back, changed = await mesh.config.rollback("orders", 1)
        assert (back.config, changed) == (made.config, True)
        causes = [r.cause for r in await mesh.config.list_revisions("orders")]
        assert causes == [RevisionCause.ROLLED_BACK, RevisionCause.PATCHED, RevisionCause.CREATED]
        assert (await mesh.config.get_revision("orders", 2)).config == patched.config

    mesh(test)


def test_a_request_to_restart_is_in_the_connector(mesh):
    async def test(mesh):
        await mesh.config.create(wanted())
        asked = await mesh.config.request_restart("orders", include_tasks=True, only_failed=True)
        assert asked.marker == 1
        assert (await mesh.config.get("orders")).restarts == (asked,)

    mesh(test)


def test_a_list_goes_over_all_pages(mesh):
    async def test(mesh):
        names = [f"c{n:02d}" for n in range(25)]
        for name in names:
            await mesh.config.create(wanted(name))
        pages = [page async for page in mesh.config.list_pages("c", 10)]
        assert [len(page.connectors) for page in pages] == [10, 10, 5]
        assert [c.name for c in (await mesh.config.list("c")).connectors] == names
        assert (await mesh.config.list("c1")).connectors[0].name == "c10"

    mesh(test)


def test_levels_of_loggers_are_set_and_watched(mesh):
    async def test(mesh):
        watch = mesh.config.watch_log_levels("worker")
        assert await anext(watch) == ()
        await mesh.config.set_log_level("worker", "root", "DEBUG")
        (level,) = await anext(watch)
        assert (level.logger, level.level) == ("root", "DEBUG")
        assert await mesh.config.list_log_levels() == (level,)
        await watch.aclose()

    mesh(test)


def test_without_a_worker_only_our_own_rules_are_checked(mesh):
    async def test(mesh):
        (found,) = (await mesh.config.validate(wanted("a\nb"))).diagnostics
        assert found.code == "config.name"
        with pytest.raises(RetriableError, match=r"config\.no_worker"):
            await mesh.config.validate(wanted())

    mesh(test)
