"""The REST API of a node: Kafka Connect's, over the services of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from penstock.gateway.app import application
from penstock.gateway.asks import Asks
from penstock.gateway.everywhere import Workers
from penstock.gateway.listening import answering
from penstock.gateway.places import places
from penstock.standalone.node import Node


@asynccontextmanager
async def fronted(node: Node, listeners: Sequence[str]) -> AsyncIterator[list[str]]:
    """Answer requests at `listeners` while inside; gives the URLs.

    Raises:
        ConfigError: `config.bad_value`, `rpc.address_in_use`.
    """
    workers = Workers(node.scheduler)
    asks = Asks(node.config, node.offset, node.scheduler, workers)
    try:
        async with answering(application(asks, "standalone"), places(listeners)) as addresses:
            yield addresses
    finally:
        await workers.close()
