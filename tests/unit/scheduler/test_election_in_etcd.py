"""Two instances of the scheduler with a real etcd: one is elected, late writes are fenced."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from penstock.api.config.v1.config_service_pb2_grpc import add_ConfigServiceServicer_to_server
from penstock.api.scheduler.v1.scheduler_service_pb2_grpc import (
    add_SchedulerServiceServicer_to_server,
)
from penstock.client import ConfigClient, SchedulerClient
from penstock.config import ConfigService
from penstock.etcd import Discovery, Election, Etcd, Membership
from penstock.etcd import Member as EtcdMember
from penstock.model.connector import Connector
from penstock.model.errors import FencedError, RetriableError
from penstock.rpc.server import Server
from penstock.scheduler import (
    ConnectorPlans,
    ElectedLeadership,
    Leader,
    LeaderSettings,
    Member,
    Scheduler,
    SchedulerService,
    run_election,
)
from penstock.scheduler.leader.stored_plans import CHUNK_BYTES, PlanStore
from penstock.scheduler.state.records import PlanRecord
from penstock.store.etcd import EtcdStore
from support.etcd import EtcdServers
from support.waiting import until
from unit.scheduler.conftest import FakePlans, FakeWorker

TTL = 60.0
"""Seconds of a lease: none ends by itself, however busy the machine is."""


class Instance:
    """One scheduler, wired as its process wires it."""

    def __init__(self, name, tmp_path, settings):
        self.address = f"unix:{tmp_path}/{name}"
        self.settings, self.tmp_path = settings, tmp_path
        self.leadership = ElectedLeadership(self.address)
        self.scheduler = None

    @asynccontextmanager
    async def run(self):
        async with AsyncExitStack() as stack:
            client = await Etcd.connect(self.settings)
            store = EtcdStore(client)
            stack.push_async_callback(store.close)
            config = await stack.enter_async_context(ConfigClient(f"unix:{self.tmp_path}/config"))
            plans = ConnectorPlans(config, FakePlans())
            self.scheduler = Scheduler(
                self.leadership, lambda: Leader(self.leadership, store, plans, LeaderSettings())
            )
            server = Server(self.address, grace_s=0.2)
            server.add(add_SchedulerServiceServicer_to_server, SchedulerService(self.scheduler))
            await stack.enter_async_context(server)
            discovery = Discovery(client, "worker")
            discovery.start()
            stack.push_async_callback(discovery.stop)
            self.election = Election(client, "scheduler", self.address, TTL)
            tasks = [
                asyncio.create_task(self._follow(discovery)),
                asyncio.create_task(
                    run_election(self.scheduler, self.leadership, self.election, store.led_by)
                ),
            ]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def leads(self):
        """Return whether it was elected, and has begun."""
        with suppress(RetriableError):
            return self.scheduler.leader() is not None
        return False

    async def _follow(self, discovery):
        revision = 0
        while True:
            now = await discovery.wait_for_change(revision)
            revision = now.revision
            members = [Member(id_, "", m.address, m.labels) for id_, m in now.members.items()]
            self.scheduler.update_members(members, revision)


async def refused(late, store):
    """Write late, also plans: all of it is refused, and nothing is changed."""
    before = (await store.range("plan")).entries
    assert len(before) == 3  # the record, the index, a chunk
    with pytest.raises((FencedError, RetriableError)):
        await late.write([], [("late", b"")])
    for size in (1, 2 * CHUNK_BYTES):
        with pytest.raises((FencedError, RetriableError)):
            await PlanStore(late, store).put("late", PlanRecord(), [bytes(size)])
    assert (await store.range("plan")).entries == before
    assert not await store.get("late")


def test_one_instance_is_elected_and_the_other_is_fenced(tmp_path):
    async def main(servers):
        settings = servers.settings()
        async with asyncio.timeout(180), AsyncExitStack() as stack:
            store = await EtcdStore.open(settings)
            stack.push_async_callback(store.close)
            config = Server(f"unix:{tmp_path}/config", grace_s=0.2)
            config.add(add_ConfigServiceServicer_to_server, ConfigService(store))
            await stack.enter_async_context(config)
            first, second = (Instance(name, tmp_path, settings) for name in ("a", "b"))
            running = await stack.enter_async_context(AsyncExitStack())
            await running.enter_async_context(first.run())
            await until(first.leads, "the first leads")
            await stack.enter_async_context(second.run())
            await until(lambda: second.leadership.leader_address() == first.address, "it is known")
            async with SchedulerClient(second.address) as client:
                with pytest.raises(RetriableError, match=r"scheduler\.not_leader") as caught:
                    await client.get_cluster()
                assert caught.value.diagnostic.suggestion == first.address

            client = await Etcd.connect(settings)
            stack.push_async_callback(client.close)
            worker = FakeWorker("w1")
            lease = Membership(client, "worker", "w1", EtcdMember("unix:/w1"), TTL)
            lease.start()
            await lease.wait_until_registered()
            worker.connect(first.address)
            stack.push_async_callback(worker.disconnect)
            async with ConfigClient(f"unix:{tmp_path}/config") as configs:
                await configs.put(Connector("orders", {"partitions": "3", "tasks.max": "3"}))
            await until(lambda: len(worker.held) == 3, "tasks run")
            page = await store.range("assignment/")
            assert {e.key.removeprefix("assignment/"): e.revision for e in page.entries} == {
                id_: status.epoch for id_, status in worker.held.items()
            }

            late = first.leadership._store
            await running.aclose()  # the first one stops
            await until(second.leads, "the second leads")
            await refused(late, store)
            await worker.disconnect()
            worker.connect(second.address)
            leader = second.scheduler.leader()
            await until(lambda: len(leader.sessions) == 1, "it is there")
            # who was never seen in the list of members is not missed there either
            await until(lambda: "w1" in leader.cluster.workers.members, "it is a member")
            await leader.wait_for_turn()
            await leader.wait_for_turn()
            assert len(worker.starts) == 3

            await lease.stop()
            await until(lambda: worker.error is not None, "its session ended with its lease")
            assert worker.error.code == "scheduler.member_gone"

    with EtcdServers(tmp_path / "etcd") as servers:
        asyncio.run(main(servers))
