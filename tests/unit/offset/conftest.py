"""A store, and commits on it, inside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.model import faults
from penstock.model.connector import Connector, TargetState
from penstock.offset import BulkAdmin, Commits, Compactor, OffsetAdmin, OffsetView, StopGuard
from penstock.store.port import Store
from penstock.store.sqlite import SqliteStore
from support.etcd_limits import EtcdLimits

GENERATION = "g1"


@dataclass
class Found:
    """What the config service answers."""

    connector: Connector | None
    revision: int = 1_000_000_000
    """It counts in a store of its own, which may be far ahead of what epochs are from."""
    kept: bool = False


@dataclass
class FakeHeld:
    """What the scheduler answers."""

    tasks: list[str]
    revision: int


@dataclass
class FakeConnectors:
    """The config service and the scheduler, as far as the offset service asks them. `revision` is
    how far epochs are.
    """

    state: TargetState = TargetState.STOPPED
    names: dict[str, str] = field(default_factory=lambda: {GENERATION: "orders"})
    revision: int = 100
    running: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)

    async def list_held_tasks(self, _: str) -> FakeHeld:
        """Answer the tasks that the test lets run."""
        return FakeHeld(self.running, self.revision)

    async def find_generation(self, generation: str) -> Found:
        """Answer the connector of a generation, in the state that the test set."""
        name = self.names.get(generation)
        if name is None:
            return Found(None, kept=generation in self.kept)
        made = Connector(name, {}, target_state=self.state, generation=generation)
        return Found(made)


@dataclass
class Clock:
    """Seconds since the epoch, as the test says."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@dataclass
class Room:
    """What a test works with."""

    store: EtcdLimits
    connectors: FakeConnectors
    clock: Clock
    view: OffsetView
    folder: Compactor
    commits: Commits
    edits: OffsetAdmin
    bulk: BulkAdmin

    def another(self) -> Room:
        """Return a second instance on the same store."""
        return made(self.store, self.connectors, self.clock)


def made(store: Store, connectors: FakeConnectors, clock: Clock) -> Room:
    """Return an instance of the service, without its gRPC surface."""
    view = OffsetView(store)
    folder = Compactor(store, view, clock)
    return Room(
        store,
        connectors,
        clock,
        view,
        folder,
        Commits(store, view, folder, clock),
        OffsetAdmin(store, StopGuard(connectors, connectors), view, folder, clock),
        BulkAdmin(store, StopGuard(connectors, connectors), view, folder, clock),
    )


@pytest.fixture
def room(tmp_path: Path) -> Callable[[Callable[[Room], Awaitable[None]]], None]:
    """Runs a test on a fresh store."""

    def run(test: Callable[[Room], Awaitable[None]]) -> None:
        async def main() -> None:
            store = await SqliteStore.open(tmp_path / "state.db")
            bounded = EtcdLimits(store)
            here = made(bounded, FakeConnectors(), Clock())
            try:
                async with asyncio.timeout(60):
                    await test(here)
            finally:
                await here.folder.close()
                await store.close()

        asyncio.run(main())

    return run


@pytest.fixture
def arm():
    """Arms fault points as a start with that environment would; disarms afterwards."""
    yield lambda text: faults.load({faults.VARIABLE: text})
    faults.load({})
