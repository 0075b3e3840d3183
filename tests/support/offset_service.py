"""An offset service in a process of its own: `python -m support.offset_service ADDRESS STORE`.

STORE is `sqlite:FILE`, `etcd:HOST:PORT,…` or the URL of a PostgreSQL. No connector is alive, so
everything may be altered.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from penstock.api.offset.v1.offset_service_pb2_grpc import add_OffsetServiceServicer_to_server
from penstock.etcd import EtcdSettings
from penstock.model.connector import Connector
from penstock.offset import OffsetService
from penstock.rpc.server import Server
from penstock.store.etcd import EtcdStore
from penstock.store.port import Store
from penstock.store.postgresql.settings import PostgresqlSettings
from penstock.store.postgresql.store import PostgresqlStore
from penstock.store.sqlite import SqliteStore
from penstock.telemetry.redaction import Secret


@dataclass(frozen=True)
class Nobody:
    """What the config service says of a connector that is not alive."""

    connector: Connector | None = None
    kept: bool = False


@dataclass(frozen=True)
class Nothing:
    """What a scheduler says of a connector that nobody holds."""

    tasks: tuple[str, ...] = ()
    revision: int = 0


class NothingHeld:
    """A scheduler that has given out nothing."""

    async def list_held_tasks(self, _: str) -> Nothing:
        """Find none."""
        return Nothing()


class NoConnectors:
    """A config service without connectors."""

    async def find_generation(self, _: str) -> Nobody:
        """Find none."""
        return Nobody()


async def open_store(where: str) -> Store:
    """Open the store that is named."""
    kind, _, rest = where.partition(":")
    if kind == "sqlite":
        return await SqliteStore.open(Path(rest))
    if kind == "etcd":
        return await EtcdStore.open(EtcdSettings(endpoints=tuple(rest.split(","))))
    return await PostgresqlStore.open(PostgresqlSettings(Secret(where)))


async def serve(address: str, where: str) -> None:
    """Serve until SIGTERM."""
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    store = await open_store(where)
    service = OffsetService(store, NoConnectors(), NothingHeld())
    server = Server(address)
    server.add(add_OffsetServiceServicer_to_server, service)
    async with server:
        await service.start()
        await end.wait()
    await service.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
