"""The drivers that every test of this folder runs with."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from penstock.store.etcd import EtcdStore
from penstock.store.etcd_format import EtcdFormat
from penstock.store.port import Store
from penstock.store.postgresql.store import PostgresqlStore
from penstock.store.sealed_store import Seal, SealedStore
from penstock.store.sqlite import SqliteStore
from support.etcd import EtcdServers
from support.postgresql import PostgresqlServer

Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
Test: TypeAlias = Callable[[Store], Awaitable[None]]

_names = (f"t{n}" for n in itertools.count())

DRIVERS = ("sqlite", "sealed", "etcd", "restored", "postgresql")
"""`restored`: that of etcd, whose revisions a restore has put ahead of etcd's own."""

BASE = 1 << 40


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    """One etcd for all tests that only read and write."""
    with EtcdServers(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """One PostgreSQL for all tests that only read and write."""
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    """Which driver a test runs with."""
    return str(request.param)


@pytest.fixture
def opened(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens the same state, as often as it is called."""
    if driver == "sqlite":
        return _closing(lambda: SqliteStore.open(tmp_path / "state.db"))
    if driver == "sealed":
        return _closing(lambda: _sealed(tmp_path / "state.db"))
    if driver == "postgresql":
        server = request.getfixturevalue("postgresql")
        settings = server.settings(next(_names))
        return _closing(lambda: PostgresqlStore.open(settings))
    server = request.getfixturevalue("etcd")
    settings = server.patient_settings(cluster=next(_names))
    if driver == "restored":
        value = EtcdFormat(revision_base=BASE).encode().decode()
        server.control(0, "put", f"{settings.prefix}format", value)
    return _closing(lambda: EtcdStore.open(settings))


async def _sealed(path: Path) -> Store:
    return SealedStore(await SqliteStore.open(path), Seal([bytes(32)]))


def _closing(make: Callable[[], Awaitable[Store]]) -> Opened:
    @asynccontextmanager
    async def open_and_close() -> AsyncIterator[Store]:
        store = await make()
        try:
            yield store
        finally:
            await store.close()

    return open_and_close


@pytest.fixture
def forget(driver: str, request: pytest.FixtureRequest) -> Callable[[Store], Awaitable[int]]:
    """Writes, and makes the store forget what came before; returns the newest revision."""

    async def run(store: Store) -> int:
        if driver in {"etcd", "restored"}:
            await store.write([], [("p/x", b"1")])
            revision = await store.write([], [("p/x", b"2")])
            in_etcd = str(revision - (BASE if driver == "restored" else 0))
            request.getfixturevalue("etcd").control(0, "compact", in_etcd)
            return revision
        for _ in range(20):
            writes = (store.write([], [("p/x", b"1")]) for _ in range(300))
            revision = max(await asyncio.gather(*writes))
        return revision

    return run


@pytest.fixture
def with_store(opened: Opened) -> Callable[[Test], None]:
    """Runs a test on a fresh store."""

    def run(test: Test) -> None:
        async def main() -> None:
            async with opened() as store, asyncio.timeout(60):
                await test(store)

        asyncio.run(main())

    return run
