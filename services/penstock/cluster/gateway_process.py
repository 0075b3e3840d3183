"""The gateway, as a process: REST over the services that it finds in etcd."""

from __future__ import annotations

import logging

from penstock.client import ConfigClient, OffsetClient, SchedulerClient
from penstock.cluster.instance import Instance, make_route
from penstock.cluster.keys import KEYS
from penstock.cluster.settings import InstanceSettings
from penstock.gateway.access.guard import guard_from_settings
from penstock.gateway.app import build_app
from penstock.gateway.clients import Processes, ServiceClients, Workers
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import certificate_from_settings, listeners_from_settings
from penstock.gateway.routes.connectors import connector_rules_from_settings

log = logging.getLogger(__name__)


async def gateway(settings: InstanceSettings) -> None:
    """Run a gateway until cancelled. Its gRPC server answers probes, as that of every service."""
    async with Instance(settings) as instance:
        enter = instance.stack.enter_async_context
        members = {service: await instance.follow(service) for service in KEYS}
        config = await enter(
            ConfigClient(make_route("config", members["config"]), dial=instance.dial("config"))
        )
        instance.apply_log_levels(config.watch_log_levels)
        offset = await enter(
            OffsetClient(make_route("offset", members["offset"]), dial=instance.dial("offset"))
        )
        scheduler = await enter(
            SchedulerClient(
                make_route("scheduler", members["scheduler"]), dial=instance.dial("scheduler")
            )
        )
        workers = Workers(scheduler, instance.dial("worker"))
        instance.stack.push_async_callback(workers.close)
        processes = Processes(
            lambda: {service: make_route(service, found)() for service, found in members.items()},
            instance.dial,
        )
        instance.stack.push_async_callback(processes.close)
        listeners = listeners_from_settings(settings.values)
        guard = guard_from_settings(settings.values, listeners)
        instance.stack.push_async_callback(guard.close)
        clients = ServiceClients(config, offset, scheduler, workers, processes)
        app = build_app(
            clients, settings.etcd.cluster, guard, connector_rules_from_settings(settings.values)
        )
        for url in await enter(serve(app, listeners, certificate_from_settings(settings.values))):
            log.info("REST at %s", url)
        await enter(instance.server())
        instance.join()
        await instance.wait_until_lost()
