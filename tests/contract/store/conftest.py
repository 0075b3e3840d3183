"""The drivers that every test of this folder runs with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from penstock.store import SqliteStore, Store

Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Store]]
Test: TypeAlias = Callable[[Store], Awaitable[None]]


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[Store]:
    store = await SqliteStore.open(folder / "state.db")
    try:
        yield store
    finally:
        await store.close()


_DRIVERS = {"sqlite": _sqlite}


@pytest.fixture(params=sorted(_DRIVERS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens the same state, as often as it is called."""
    return lambda: _DRIVERS[request.param](tmp_path)


@pytest.fixture
def with_store(opened: Opened) -> Callable[[Test], None]:
    """Runs a test on a fresh store."""

    def run(test: Test) -> None:
        async def main() -> None:
            async with opened() as store, asyncio.timeout(60):
                await test(store)

        asyncio.run(main())

    return run
