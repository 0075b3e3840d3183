"""Checks that a connector is stopped before its offsets are altered: it should not run, and it does
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, RetriableError


class FoundConnector(Protocol):
    """The result of a search for a connector."""

    @property
    def connector(self) -> Connector | None:
        """The connector; None when it does not exist."""

    @property
    def kept(self) -> bool:
        """Whether it is deleted, and a connector of its name takes up its offsets."""


class ConnectorReader(Protocol):
    """The part of the config service's client that is needed here."""

    async def find_generation(self, generation: str) -> FoundConnector:
        """Read the connector that has a generation."""


class HeldTasks(Protocol):
    """The tasks of a connector that workers still hold."""

    @property
    def tasks(self) -> Sequence[str]:
        """Their ids."""

    @property
    def revision(self) -> int:
        """The revision of the scheduler's store. Every epoch that it assigns later is larger."""


class TaskReader(Protocol):
    """The part of the scheduler's client that is needed here."""

    async def list_held_tasks(self, generation: str) -> HeldTasks:
        """Read which tasks of a generation are held."""


@dataclass(frozen=True, slots=True)
class StoppedConnector:
    """A connector that does not run. When it no longer `exists`, it can never be started again.

    `epoch` becomes the floor of its offsets, together with the newest epoch that claimed
    (`Manifest.with_fence`). It is the revision of the scheduler, not that of the config service,
    which may count in another store: a floor from a counter that is ahead would fence every start,
    and one from a counter that is behind would fence nothing. It is right on both sides:

    - No task that started before is above it. The leader names no task, so it knows of each one
      that it was released, and knew its epoch before. Suppose another leader assigned a newer epoch
      meanwhile, and this one does not know it: then its task has either claimed, and the newest
      claimed epoch covers it, or it claims after the change and reads the altered offsets.
    - The next start is above it: its epoch is the revision of a write after the response. A task
      with an earlier one would have been named, or would have been released again.
    """

    epoch: int
    exists: bool


class StopGuard:
    """Checks whether the offsets of a connector may be altered."""

    def __init__(self, connectors: ConnectorReader, tasks: TaskReader) -> None:
        """`connectors` knows what should run, `tasks` what runs."""
        self._connectors, self._tasks = connectors, tasks

    async def connector_exists(self, generation: str) -> bool:
        """Return whether a connector has this generation, or may have it again because its offsets
        are kept. Once neither is so, none ever will.
        """
        found = await self._connectors.find_generation(generation)
        return found.connector is not None or found.kept

    async def require_stopped(
        self, name: str, generation: str, *, must_exist: bool
    ) -> StoppedConnector:
        """Return the connector of a generation, if it should not run, and does not.

        A connector that no longer exists counts as stopped. `must_exist` refuses it, for a change
        that only its next start would read. One whose offsets are kept is refused: a namesake may
        start at any time.

        Raises:
            ConfigError: `offset.not_stopped`, `offset.connector_not_found`,
                `offset.generation_mismatch`.
            RetriableError: `offset.still_held`.
        """
        found = await self._connectors.find_generation(generation)
        connector = found.connector
        if connector is None and (must_exist or found.kept):
            raise _not_found(name, generation)
        if connector is not None:
            _check_stopped(connector, name, generation)
        held = await self._tasks.list_held_tasks(generation)
        if held.tasks:
            raise _still_held(name, held.tasks)
        return StoppedConnector(held.revision, connector is not None)


def _check_stopped(connector: Connector, name: str, generation: str) -> None:
    if connector.name != name:
        raise ConfigError(
            "offset.generation_mismatch",
            f"generation {generation} belongs to connector {connector.name}, not to {name[:200]!r}",
            fix="Take the name and the generation from the same connector.",
        )
    if connector.target_state is not TargetState.STOPPED:
        raise ConfigError(
            "offset.not_stopped",
            f"{name} is {connector.target_state.name}: its tasks would overwrite the change",
            fix=f"Stop it first: set the target state of {name} to STOPPED.",
        )


def _not_found(name: str, generation: str) -> ConfigError:
    return ConfigError(
        "offset.connector_not_found",
        f"no connector {name[:200]!r} of generation {generation} exists",
        fix="Read the connector again: it may have been deleted and created again.",
    )


def _still_held(name: str, held: Sequence[str]) -> RetriableError:
    """Return the error for a task that still runs. It is fenced here, but its sink may still write
    what it has.
    """
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return RetriableError(
        "offset.still_held",
        f"{name[:200]} should be stopped, but task {held[0]}{more} is not released yet",
        fix="Wait until its tasks have ended. End a worker that hangs: its tasks are released when "
        "its membership ends.",
        retry_after_s=1.0,
    )
