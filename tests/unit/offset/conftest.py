"""A store, and commits on it, inside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.model import faults
from penstock.model.connector import Connector, TargetState
from penstock.offset import Commits, Edits
from penstock.store import SqliteStore

GENERATION = "g1"


@dataclass
class Listed:
    """What the config service answers."""

    connectors: list[Connector]
    revision: int = 100


@dataclass
class FakeConnectors:
    """The config service, as far as the offset service asks it."""

    state: TargetState = TargetState.STOPPED
    listed: Listed = field(default_factory=lambda: Listed([]))

    async def list(self) -> Listed:
        """Answer one connector, in the state that the test set."""
        connector = Connector("orders", {}, target_state=self.state, generation=GENERATION)
        return Listed([connector, *self.listed.connectors], self.listed.revision)


@dataclass
class Room:
    """What a test works with."""

    store: SqliteStore
    commits: Commits
    connectors: FakeConnectors
    edits: Edits


@pytest.fixture
def room(tmp_path: Path) -> Callable[[Callable[[Room], Awaitable[None]]], None]:
    """Runs a test on a fresh store."""

    def run(test: Callable[[Room], Awaitable[None]]) -> None:
        async def main() -> None:
            store = await SqliteStore.open(tmp_path / "state.db")
            connectors = FakeConnectors()
            try:
                async with asyncio.timeout(60):
                    await test(Room(store, Commits(store), connectors, Edits(store, connectors)))
            finally:
                await store.close()

        asyncio.run(main())

    return run


@pytest.fixture
def arm():
    """Arms fault points as a start with that environment would; disarms afterwards."""
    yield lambda text: faults.load({faults.VARIABLE: text})
    faults.load({})
