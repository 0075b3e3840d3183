"""The REST API of a node: Kafka Connect's, over the services of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from penstock.gateway.access.guard import guard_of
from penstock.gateway.app import application
from penstock.gateway.clients import Asks, Processes, Workers
from penstock.gateway.routes.topics import tracking_of
from penstock.gateway.server.certificates import shown_of
from penstock.gateway.server.http_server import answering
from penstock.gateway.server.listeners import places
from penstock.standalone.node import Node


@asynccontextmanager
async def fronted(node: Node, values: Mapping[str, Any]) -> AsyncIterator[list[str]]:
    """Answer requests while inside, as the `values` of the gateway's keys say: where, and who may
    what; gives the URLs.

    Raises:
        ConfigError: `config.bad_value`, `rpc.address_in_use`, `access.open`, `access.file`,
            `tls.file`.
    """
    wanted = places(values["listeners"], values["admin.listeners"])
    asked = guard_of(values, wanted)
    workers = Workers(node.scheduler)
    processes = Processes(node.addresses)
    asks = Asks(node.config, node.offset, node.scheduler, workers, processes)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asked.close)
        stack.push_async_callback(workers.close)
        stack.push_async_callback(processes.close)
        app = application(asks, "standalone", asked, tracking_of(values))
        yield await stack.enter_async_context(answering(app, wanted, shown_of(values)))
