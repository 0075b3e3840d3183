"""The config and the offset service, as processes."""

from __future__ import annotations

from penstock.api.config.v1.config_service_pb2_grpc import add_ConfigServiceServicer_to_server
from penstock.api.offset.v1.offset_service_pb2_grpc import add_OffsetServiceServicer_to_server
from penstock.client import ConfigClient, SchedulerClient, WorkerClient
from penstock.cluster.instance import Instance
from penstock.cluster.settings import InstanceSettings
from penstock.config.log_levels import LogLevels
from penstock.config.service import ConfigService
from penstock.offset.service import OffsetService


async def config(settings: InstanceSettings) -> None:
    """Be a config service until cancelled."""
    async with Instance(settings) as instance:
        workers = WorkerClient(await instance.route("worker"), dial=instance.dial("worker"))
        await instance.stack.enter_async_context(workers)
        store = await instance.store()
        instance.keep_levels(LogLevels(store).watch_all)
        service = ConfigService(store, workers)
        instance.stack.push_async_callback(service.close)
        await service.start()
        await instance.serve(add_ConfigServiceServicer_to_server, service)
        instance.join()
        await instance.stay()


async def offset(settings: InstanceSettings) -> None:
    """Be an offset service until cancelled."""
    async with Instance(settings) as instance:
        store = await instance.store()
        connectors = ConfigClient(await instance.route("config"), dial=instance.dial("config"))
        await instance.stack.enter_async_context(connectors)
        instance.keep_levels(connectors.watch_log_levels)
        route = await instance.route("scheduler")
        schedulers = SchedulerClient(route, dial=instance.dial("scheduler"))
        await instance.stack.enter_async_context(schedulers)
        kept = settings.values["offsets.deleted.retention"]
        service = OffsetService(store, connectors, schedulers, kept=kept)
        instance.stack.push_async_callback(service.close)
        await service.start()
        await instance.serve(add_OffsetServiceServicer_to_server, service)
        instance.join()
        await instance.stay()
