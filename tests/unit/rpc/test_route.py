"""A channel to one of several instances: it stays, and goes on when that one does not answer."""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as api
from penstock.client import SchedulerClient
from penstock.model.errors import ConfigError, RetriableError
from penstock.rpc import channels as module
from penstock.rpc.channels import RoutedChannel, open_channel
from penstock.rpc.server import Server
from penstock.scheduler.leader.leadership import not_leader
from support.waiting import until


class Instance(api.SchedulerServiceServicer):
    """One of several: answers with its name, or refuses."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.refuse, self.asked = name, None, 0
        self.hangs = False
        self.server = Server(f"unix:{folder}/{name}", grace_s=0.1)
        self.server.add(api.add_SchedulerServiceServicer_to_server, self)

    @property
    def address(self) -> str:
        return self.server.address

    async def GetCluster(self, request, context):
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuse is not None:
            raise self.refuse
        return pb.GetClusterResponse(leader=self.name)

    async def DrainWorker(self, request, context):
        await self.GetCluster(request, context)
        return pb.DrainWorkerResponse()

    async def ListStatus(self, request, context):
        await self.GetCluster(request, context)
        yield pb.ListStatusResponse(connector=pb.ConnectorStatus(name=self.name))

    async def Session(self, requests, context):
        await self.GetCluster(None, context)
        kept = [pb.KeptTask(task_id=self.name)]
        yield pb.SessionResponse(kept=kept)
        await asyncio.Event().wait()


async def nothing() -> AsyncIterator[pb.SessionRequest]:
    yield pb.SessionRequest(worker_id="w")
    await asyncio.Event().wait()


@asynccontextmanager
async def two(folder: Path) -> AsyncIterator[tuple[Instance, Instance]]:
    one, other = Instance(folder, "one"), Instance(folder, "other")
    async with asyncio.timeout(60), one.server, other.server:
        yield one, other


def test_a_client_holds_on_to_one_instance(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            async with SchedulerClient(lambda: [one.address, other.address]) as client:
                for _ in range(10):
                    await client.get_cluster()
            assert sorted((one.asked, other.asked)) == [0, 10]

    asyncio.run(main())


@pytest.mark.parametrize("known", [True, False])
def test_the_leader_that_an_instance_names_is_asked_instead(tmp_path, known):
    """Also when discovery does not know it yet; and the client stays there."""

    async def main():
        async with two(tmp_path) as (one, other):
            one.refuse = not_leader(other.address)
            places = [one.address, other.address] if known else [one.address]
            async with SchedulerClient(lambda: places) as client:
                assert (await client.get_cluster()).leader == "other"
                assert client.address == other.address
                await client.get_cluster()
            assert one.asked <= 1

    asyncio.run(main())


def test_a_call_that_is_not_idempotent_follows_too_because_nobody_has_begun_with_it(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            one.refuse = not_leader(other.address)
            async with SchedulerClient(lambda: [one.address]) as client:
                method, request = client._stub.DrainWorker, pb.DrainWorkerRequest()
                await client._call("stage", method, request, idempotent=False)
            assert (one.asked, other.asked) == (1, 1)

    asyncio.run(main())


def test_a_stream_is_not_repeated_but_the_next_one_goes_where_it_was_sent(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            one.refuse = not_leader(other.address)
            async with SchedulerClient(lambda: [one.address]) as client:
                with pytest.raises(RetriableError, match=r"scheduler\.not_leader"):
                    await anext(client.open_session(nothing()))
                frame = await anext(client.open_session(nothing()))
                assert frame.kept[0].task_id == "other"

    asyncio.run(main())


def test_a_list_that_comes_as_a_stream_is_all_or_nothing_and_follows_like_a_call(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            one.refuse = not_leader(other.address)
            async with SchedulerClient(lambda: [one.address]) as client:
                assert [s.name for s in await client.list_statuses()] == ["other"]
            assert (one.asked, other.asked) == (1, 1)

    asyncio.run(main())


def test_two_that_name_each_other_are_asked_a_bounded_number_of_times(tmp_path):
    """Invariant 12: in an election each may believe in the other."""

    async def main():
        async with two(tmp_path) as (one, other):
            one.refuse, other.refuse = not_leader(other.address), not_leader(one.address)
            async with SchedulerClient(lambda: [one.address, other.address]) as client:
                with pytest.raises(RetriableError, match=r"scheduler\.not_leader"):
                    await client.get_cluster()
            assert one.asked + other.asked <= 5

    asyncio.run(main())


def test_an_instance_that_is_away_is_left_for_another(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            places = [one.address]
            async with SchedulerClient(lambda: places) as client:
                assert (await client.get_cluster()).leader == "one"
                await one.server.stop()
                places.append(other.address)
                assert (await client.get_cluster()).leader == "other"

    asyncio.run(main())


def test_an_instance_that_answers_but_is_listed_no_more_is_left(tmp_path):
    """It is cut off from its store, say: it refuses everything, and its lease has ended."""

    async def main():
        async with two(tmp_path) as (one, other):
            places = [one.address]
            async with SchedulerClient(lambda: places) as client:
                one.refuse = RetriableError("store.unreachable", "no store")
                with pytest.raises(RetriableError, match=r"store\.unreachable"):
                    await client.get_cluster()
                places[:] = []  # nothing is known: it may be as good as any
                with pytest.raises(RetriableError, match=r"store\.unreachable"):
                    await client.get_cluster()
                places[:] = [other.address]
                assert (await client.get_cluster()).leader == "other"

    asyncio.run(main())


def test_a_leader_that_was_named_is_kept_until_it_was_listed_and_is_no_more(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            one.refuse = not_leader(other.address)
            places = [one.address]
            async with SchedulerClient(lambda: places) as client:
                for _ in range(3):
                    assert (await client.get_cluster()).leader == "other"
                places.append(other.address)
                assert (await client.get_cluster()).leader == "other"
                places.remove(other.address)
                one.refuse = None
                assert (await client.get_cluster()).leader == "one"

    asyncio.run(main())


@pytest.mark.parametrize("alone", [True, False])
def test_an_instance_that_hangs_is_left_by_the_next_call_where_there_is_another(tmp_path, alone):
    async def main():
        async with two(tmp_path) as (one, other):
            places = [one.address]
            async with SchedulerClient(lambda: places, timeout_s=0.3) as client:
                await client.get_cluster()
                one.hangs = True
                places += [] if alone else [other.address]
                with pytest.raises(RetriableError, match=r"deadline\.exceeded"):
                    await client.get_cluster()
                assert client.address == (one.address if alone else other.address)
                one.hangs = False
                assert (await client.get_cluster()).leader == ("one" if alone else "other")

    asyncio.run(main())


def test_two_calls_that_fail_at_one_instance_move_the_channel_once(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            route = RoutedChannel(lambda: [one.address, other.address])
            route.switch(one.address)
            route.leave(one.address)
            route.leave(one.address)
            assert route.address == other.address
            await route.close()

    asyncio.run(main())


def test_every_instance_is_tried_before_one_is_tried_again():
    """Those whose leases outlive them are listed, too: four of them and one that answers."""

    async def main():
        places = [f"unix:/nowhere/{n}" for n in range(5)]
        route = RoutedChannel(lambda: places)
        for _ in range(20):
            visits = []
            for _ in places:
                route.switch()
                visits.append(route.address)
            assert sorted(visits) == places
        places.append("unix:/nowhere/5")
        places.remove(route.address)
        visited = set()
        for _ in places:
            route.switch()
            visited.add(route.address)
        assert visited == set(places)

    asyncio.run(main())


def test_one_that_answers_is_found_among_those_that_died_lately(tmp_path):
    async def main():
        async with two(tmp_path) as (one, _):
            dead = [f"unix:{tmp_path}/dead-{n}" for n in range(4)]
            async with SchedulerClient(lambda: [*dead, one.address]) as client:
                assert (await client.get_cluster()).leader == "one"

    asyncio.run(main())


def test_what_is_under_way_where_the_channel_left_fails_as_if_the_service_were_away(
    tmp_path, monkeypatch
):
    """And is no end of who asked: gRPC's way to end it is a cancellation."""
    monkeypatch.setattr(module, "CLOSE_GRACE_S", 0.05)

    async def main():
        async with (
            two(tmp_path) as (one, other),
            SchedulerClient(lambda: [one.address, other.address]) as client,
        ):
            client.prefer_address(one.address)
            session = client.open_session(nothing())
            assert (await anext(session)).kept[0].task_id == "one"
            one.hangs = True
            asking = asyncio.create_task(client.get_cluster())
            await until(lambda: one.asked == 2, "it is asked")
            client.prefer_address(other.address)
            assert (await asking).leader == "other"
            with pytest.raises(RetriableError, match=r"rpc\.unavailable.*left this instance"):
                await anext(session)

    asyncio.run(main())


def test_who_is_cancelled_ends(tmp_path):
    async def main():
        async with two(tmp_path) as (one, _):
            one.hangs = True
            async with SchedulerClient(lambda: [one.address]) as client:
                asking = asyncio.create_task(client.get_cluster())
                await until(lambda: one.asked, "it is asked")
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking

    asyncio.run(main())


def test_an_answer_that_stands_moves_nobody(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            one.refuse = ConfigError("scheduler.not_found", "no")
            async with SchedulerClient(lambda: [one.address]) as client:
                with pytest.raises(ConfigError):
                    await client.get_cluster()
                assert client.address == one.address
            assert (one.asked, other.asked) == (1, 0)

    asyncio.run(main())


def test_nobody_is_known_until_somebody_is(tmp_path):
    async def main():
        async with two(tmp_path) as (one, _):
            places: list[str] = []
            async with SchedulerClient(lambda: places) as client:
                asking = asyncio.create_task(client.get_cluster())
                await asyncio.sleep(0)
                places.append(one.address)
                assert (await asking).leader == "one"
            async with SchedulerClient(list) as client:
                with pytest.raises(RetriableError, match=r"discovery\.nobody"):
                    await client.get_cluster()

    asyncio.run(main())


def test_a_fixed_address_is_kept_whatever_happens(tmp_path):
    async def main():
        async with two(tmp_path) as (one, other):
            route = RoutedChannel(one.address)
            first = route.channel()
            route.leave(one.address, other.address)
            route.switch(other.address)
            assert (route.address, route.channel()) == (one.address, first)
            assert route.redirect(not_leader(other.address)) is None
            await route.close()

    asyncio.run(main())


def test_a_channel_that_was_left_answers_what_is_under_way_and_is_closed(tmp_path):
    async def main():
        dialled = []

        def dial(address):
            dialled.append((address, open_channel(address)))
            return dialled[-1][1]

        async with two(tmp_path) as (one, other):
            route = RoutedChannel(lambda: [one.address], dial)
            stub = api.SchedulerServiceStub(route.as_channel())
            under_way = stub.GetCluster(pb.GetClusterRequest())
            route.leave(one.address, other.address)
            assert (await under_way).leader == "one"
            assert (await stub.GetCluster(pb.GetClusterRequest())).leader == "other"
            await route.close()
            await route.close()
            assert [address for address, _ in dialled] == [one.address, other.address]
            assert not route._closing

    asyncio.run(main())
