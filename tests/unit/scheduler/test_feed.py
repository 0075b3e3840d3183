"""The connectors as the leader follows them: nothing is missed between a list and its watch."""

import asyncio

import pytest

from penstock.client import ConfigClient
from penstock.model.connector import Connector
from penstock.scheduler.leader.connector_plans import MAX_PACE_S, ConnectorFeed, pause_s
from support.waiting import until


def test_what_comes_before_the_watch_stands_is_seen_at_once(mesh, monkeypatch):
    """Invariant 7: else it would wait for the list that is made anyway, half a minute later."""

    async def test(mesh):
        seen: list[set[str]] = []
        listed, go = asyncio.Event(), asyncio.Event()
        watch = ConfigClient.watch

        async def late(self, after_revision=0):
            listed.set()
            await go.wait()
            async for change in watch(self, after_revision):
                yield change

        monkeypatch.setattr(ConfigClient, "watch", late)
        take = lambda listing: seen.append({one.name for one in listing.connectors})  # noqa: E731
        feed = ConnectorFeed(mesh.config, take)
        running = asyncio.create_task(feed.run())
        await asyncio.wait_for(listed.wait(), 60)
        await until(lambda: seen, "it lists")
        await mesh.config.put(Connector("orders", {}))
        go.set()
        await until(lambda: seen[-1] == {"orders"}, "it is seen")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    mesh(test)


def test_work_on_all_connectors_leaves_most_of_the_time_to_others_and_is_never_far_off():
    assert pause_s(0.0001) == pytest.approx(0.0003)
    assert pause_s(60.0) == MAX_PACE_S
