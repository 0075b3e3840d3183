"""The scheduler, as a process: one of several leads, and knows the members by their leases."""

from __future__ import annotations

import asyncio

from penstock.api.scheduler.v1.scheduler_service_pb2_grpc import (
    add_SchedulerServiceServicer_to_server,
)
from penstock.client import ConfigClient
from penstock.cluster.instance import Instance
from penstock.cluster.settings import InstanceSettings
from penstock.etcd import Discovery, Election
from penstock.model.metrics import numbers_of
from penstock.scheduler import ClusterSettings, Leader, LeaderSettings, Scheduler, SchedulerService
from penstock.scheduler import Member as Worker
from penstock.scheduler.leading.election import ElectedLeadership, stand
from penstock.scheduler.leading.plans import Plans, WorkerPlans
from penstock.store import EtcdStore


async def scheduler(settings: InstanceSettings) -> None:
    """Be a scheduler until cancelled: lead when elected, else name who does."""
    async with Instance(settings) as instance:
        store = await EtcdStore.open(settings.etcd)
        instance.stack.push_async_callback(store.close)
        instance.numbers.append(lambda: numbers_of("store", store.statistics()))
        connectors = ConfigClient(await instance.route("config"), dial=instance.dial("config"))
        await instance.stack.enter_async_context(connectors)
        instance.keep_levels(connectors.watch_log_levels)
        workers = await instance.follow("worker")

        server = instance.server()
        leadership = ElectedLeadership(instance.address)
        plans = Plans(connectors, WorkerPlans(instance.dial("worker")))
        rules = LeaderSettings(ClusterSettings(settings.values["rebalance.delay"]))
        service = Scheduler(leadership, lambda: Leader(leadership, store, plans, rules))
        instance.numbers.append(service.numbers)
        server.add(add_SchedulerServiceServicer_to_server, SchedulerService(service))
        await instance.stack.enter_async_context(server)
        instance.join()
        election = Election(instance.etcd, "scheduler", instance.address, settings.ttl)
        async with asyncio.TaskGroup() as group:
            group.create_task(instance.stay())
            group.create_task(_members(service, workers))
            group.create_task(stand(service, leadership, election, store.led_by))


async def _members(service: Scheduler, workers: Discovery) -> None:
    """Tell the scheduler who is alive, whenever that changes."""
    revision = 0
    while True:
        now = await workers.after(revision)
        revision = now.revision
        alive = [
            Worker(id_, address=member.address, labels=member.labels)
            for id_, member in now.members.items()
        ]
        service.members(alive, revision)
