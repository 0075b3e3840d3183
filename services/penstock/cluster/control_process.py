"""The config service, the offset service and the scheduler, as processes."""

from __future__ import annotations

import asyncio

from penstock.api.config.v1.config_service_pb2_grpc import add_ConfigServiceServicer_to_server
from penstock.api.offset.v1.offset_service_pb2_grpc import add_OffsetServiceServicer_to_server
from penstock.api.scheduler.v1.scheduler_service_pb2_grpc import (
    add_SchedulerServiceServicer_to_server,
)
from penstock.client import ConfigClient, SchedulerClient, WorkerClient
from penstock.cluster.instance import Instance
from penstock.cluster.settings import InstanceSettings
from penstock.config.log_levels import LogLevels
from penstock.config.service import ConfigService
from penstock.etcd import Discovery, Election
from penstock.model.metrics import metrics_from_statistics
from penstock.offset.service import OffsetService
from penstock.scheduler import ClusterSettings, Leader, LeaderSettings, Scheduler, SchedulerService
from penstock.scheduler import Member as Worker
from penstock.scheduler.leader.connector_plans import ConnectorPlans, WorkerPlanner
from penstock.scheduler.leader.leadership import ElectedLeadership, run_election
from penstock.scheduler.leader.worker_logs import WorkerLogSource
from penstock.scheduler.state.records import SEALED_PREFIXES
from penstock.store.etcd import EtcdStore
from penstock.store.sealed_store import SealedStore


async def config(settings: InstanceSettings) -> None:
    """Run a config service until cancelled."""
    async with Instance(settings) as instance:
        workers = WorkerClient(await instance.route("worker"), dial=instance.dial("worker"))
        await instance.stack.enter_async_context(workers)
        store = await instance.store()
        instance.apply_log_levels(LogLevels(store).watch)
        service = ConfigService(store, workers)
        instance.stack.push_async_callback(service.close)
        await service.start()
        await instance.serve(add_ConfigServiceServicer_to_server, service)
        instance.join()
        await instance.wait_until_lost()


async def offset(settings: InstanceSettings) -> None:
    """Run an offset service until cancelled."""
    async with Instance(settings) as instance:
        store = await instance.store()
        connectors = ConfigClient(await instance.route("config"), dial=instance.dial("config"))
        await instance.stack.enter_async_context(connectors)
        instance.apply_log_levels(connectors.watch_log_levels)
        route = await instance.route("scheduler")
        schedulers = SchedulerClient(route, dial=instance.dial("scheduler"))
        await instance.stack.enter_async_context(schedulers)
        retention_s = settings.values["offsets.deleted.retention"]
        service = OffsetService(store, connectors, schedulers, retention_s=retention_s)
        instance.stack.push_async_callback(service.close)
        await service.start()
        await instance.serve(add_OffsetServiceServicer_to_server, service)
        instance.join()
        await instance.wait_until_lost()


async def scheduler(settings: InstanceSettings) -> None:
    """Run a scheduler until cancelled. It leads when elected, and otherwise names the leader."""
    async with Instance(settings) as instance:
        store = await EtcdStore.open(settings.etcd)
        instance.stack.push_async_callback(store.close)
        instance.metrics.append(lambda: metrics_from_statistics("store", store.statistics()))
        connectors = ConfigClient(await instance.route("config"), dial=instance.dial("config"))
        await instance.stack.enter_async_context(connectors)
        instance.apply_log_levels(connectors.watch_log_levels)
        workers = await instance.follow("worker")

        server = instance.server()
        leadership = ElectedLeadership(instance.address)
        plans = ConnectorPlans(connectors, WorkerPlanner(instance.dial("worker")))
        rules = LeaderSettings(ClusterSettings(settings.values["rebalance.delay"]))
        seal = instance.seal()
        readable = SealedStore(store, seal, *SEALED_PREFIXES)
        logs = WorkerLogSource(instance.dial("worker"))
        service = Scheduler(leadership, lambda: Leader(leadership, readable, plans, rules, logs))
        instance.metrics.append(service.metrics)
        server.add(add_SchedulerServiceServicer_to_server, SchedulerService(service))
        await instance.stack.enter_async_context(server)
        instance.join()
        election = Election(instance.etcd, "scheduler", instance.address, settings.ttl)
        async with asyncio.TaskGroup() as group:
            group.create_task(instance.wait_until_lost())
            group.create_task(_members(service, workers, store.revision_base))
            group.create_task(
                run_election(
                    service,
                    leadership,
                    election,
                    lambda won: SealedStore(store.led_by(won), seal, *SEALED_PREFIXES),
                )
            )


async def _members(service: Scheduler, workers: Discovery, revision_base: int) -> None:
    """Pass the list of members to the scheduler whenever it changes.

    Its revision is etcd's. The scheduler compares it with epochs, which are ahead of it by
    `revision_base`.
    """
    revision = 0
    while True:
        now = await workers.wait_for_change(revision)
        revision = now.revision
        alive = [
            Worker(id_, address=member.address, labels=member.labels)
            for id_, member in now.members.items()
        ]
        service.update_members(alive, revision_base + revision)
