"""A store, and connectors on it, inside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.config import Connectors, LogLevels, Revisions, Topics
from penstock.model import faults
from penstock.store.sqlite import SqliteStore


@dataclass
class Room:
    """What a test works with."""

    store: SqliteStore
    connectors: Connectors
    revisions: Revisions
    levels: LogLevels
    topics: Topics


@pytest.fixture
def room(tmp_path: Path) -> Callable[[Callable[[Room], Awaitable[None]]], None]:
    """Runs a test on a fresh store."""

    def run(test: Callable[[Room], Awaitable[None]]) -> None:
        async def main() -> None:
            store = await SqliteStore.open(tmp_path / "state.db")
            connectors = Connectors(store, clock=lambda: 1000.5)
            room = Room(
                store,
                connectors,
                Revisions(store, connectors),
                LogLevels(store, clock=lambda: 1000.5),
                Topics(store, connectors),
            )
            try:
                async with asyncio.timeout(60):
                    await test(room)
            finally:
                await store.close()

        asyncio.run(main())

    return run


@pytest.fixture
def arm():
    """Arms fault points as a start with that environment would; disarms afterwards."""
    yield lambda text: faults.load({faults.VARIABLE: text})
    faults.load({})
