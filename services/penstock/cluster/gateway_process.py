"""The gateway, as a process: REST over the services that it finds."""

from __future__ import annotations

import logging

from penstock.client import ConfigClient, OffsetClient, SchedulerClient
from penstock.cluster.instance import Instance, way_to
from penstock.cluster.keys import KEYS
from penstock.cluster.settings import InstanceSettings
from penstock.gateway.access.guard import guard_of
from penstock.gateway.app import application
from penstock.gateway.clients import Asks, Processes, Workers
from penstock.gateway.routes.topics import tracking_of
from penstock.gateway.server.certificates import shown_of
from penstock.gateway.server.http_server import answering
from penstock.gateway.server.listeners import places

log = logging.getLogger(__name__)


async def gateway(settings: InstanceSettings) -> None:
    """Be a gateway until cancelled. Its gRPC server answers probes, as everybody's does."""
    async with Instance(settings) as instance:
        enter = instance.stack.enter_async_context
        found = {service: await instance.follow(service) for service in KEYS}
        config = await enter(ConfigClient(way_to(found["config"]), dial=instance.dial("config")))
        instance.keep_levels(config.watch_log_levels)
        offset = await enter(OffsetClient(way_to(found["offset"]), dial=instance.dial("offset")))
        scheduler = await enter(
            SchedulerClient(way_to(found["scheduler"]), dial=instance.dial("scheduler"))
        )
        workers = Workers(scheduler, instance.dial("worker"))
        instance.stack.push_async_callback(workers.close)
        processes = Processes(
            lambda: {service: way_to(members)() for service, members in found.items()},
            instance.dial,
        )
        instance.stack.push_async_callback(processes.close)
        wanted = places(settings.values["listeners"], settings.values["admin.listeners"])
        asked = guard_of(settings.values, wanted)
        instance.stack.push_async_callback(asked.close)
        asks = Asks(config, offset, scheduler, workers, processes)
        app = application(asks, settings.etcd.cluster, asked, tracking_of(settings.values))
        for url in await enter(answering(app, wanted, shown_of(settings.values))):
            log.info("REST at %s", url)
        await enter(instance.server())
        instance.join()
        await instance.stay()
