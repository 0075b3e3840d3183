"""A real etcd, and clients that end with their test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator

import pytest

from penstock.etcd import Etcd
from support.etcd import EtcdServers

_names = (f"u{n}" for n in itertools.count())


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    """One member for all tests that do it no harm."""
    with EtcdServers(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


@pytest.fixture
def with_client(servers: EtcdServers) -> Callable[[Callable[[Etcd], Awaitable[None]]], None]:
    """Runs a test with a client in a Penstock cluster of its own."""

    def run(test: Callable[[Etcd], Awaitable[None]]) -> None:
        async def main() -> None:
            client = await Etcd.connect(servers.patient_settings(cluster=next(_names)))
            try:
                async with asyncio.timeout(60):
                    await test(client)
            finally:
                await client.close()

        asyncio.run(main())

    return run
