"""The config and the offset service behind one socket, and their clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.api.config.v1.config_service_pb2_grpc import add_ConfigServiceServicer_to_server
from penstock.api.offset.v1.offset_service_pb2_grpc import add_OffsetServiceServicer_to_server
from penstock.client import ConfigClient, OffsetClient
from penstock.config import ConfigService
from penstock.offset import OffsetService
from penstock.rpc.server import Server
from penstock.store.sqlite import SqliteStore
from support.offset_service import NothingHeld


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[Server, SqliteStore]]:
    """Serve both from one state."""
    address = f"unix:{folder}/s"
    store = await SqliteStore.open(folder / "state.db")
    async with ConfigClient(address) as connectors:
        server = Server(address, grace_s=1)
        offset = OffsetService(store, connectors, NothingHeld())
        server.add(add_ConfigServiceServicer_to_server, ConfigService(store))
        server.add(add_OffsetServiceServicer_to_server, offset)
        async with server:
            yield server, store
    await store.close()


@dataclass
class Mesh:
    """What a test works with."""

    folder: Path
    server: Server
    store: SqliteStore
    config: ConfigClient
    offset: OffsetClient


@pytest.fixture(name="serving")
def serving_again():
    """Serves both once more, in the same folder."""
    return serving


@pytest.fixture
def mesh(tmp_path: Path) -> Callable[[Callable[[Mesh], Awaitable[None]]], None]:
    """Runs a test against the services."""

    def run(test: Callable[[Mesh], Awaitable[None]]) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(60),
                serving(tmp_path) as (server, store),
                ConfigClient(server.address) as config,
                OffsetClient(server.address) as offset,
            ):
                await test(Mesh(tmp_path, server, store, config, offset))

        asyncio.run(main())

    return run
