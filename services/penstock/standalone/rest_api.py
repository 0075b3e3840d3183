"""The REST API of a standalone node, over the services of its process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from penstock.gateway.access.guard import guard_from_settings
from penstock.gateway.app import build_app
from penstock.gateway.clients import Processes, ServiceClients, Workers
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import certificate_from_settings, parse_listeners
from penstock.gateway.routes.connectors import topic_tracking_from_settings
from penstock.standalone.node import Node


@asynccontextmanager
async def serve_rest_api(node: Node, values: Mapping[str, Any]) -> AsyncIterator[list[str]]:
    """Serve the REST API in the block, by the `values` of the gateway's keys. Yields the URLs.

    Raises:
        ConfigError: `config.bad_value`, `rpc.address_in_use`, `access.open`, `access.file`,
            `tls.file`.
    """
    listeners = parse_listeners(values["listeners"], values["admin.listeners"])
    guard = guard_from_settings(values, listeners)
    workers = Workers(node.scheduler)
    processes = Processes(node.addresses)
    clients = ServiceClients(node.config, node.offset, node.scheduler, workers, processes)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(guard.close)
        stack.push_async_callback(workers.close)
        stack.push_async_callback(processes.close)
        app = build_app(clients, "standalone", guard, topic_tracking_from_settings(values))
        yield await stack.enter_async_context(
            serve(app, listeners, certificate_from_settings(values))
        )
