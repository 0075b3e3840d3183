"""Asks others whether a connector's offsets may be changed by hand: is it stopped, does it run?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.model.connector import Connector, TargetState
from penstock.model.errors import ConfigError, RetriableError


class Found(Protocol):
    """A connector as it was read."""

    @property
    def connector(self) -> Connector | None:
        """The connector; None when there is none."""


class ConnectorReader(Protocol):
    """What is needed of the config service; its client has it."""

    async def find_generation(self, generation: str) -> Found:
        """Read the living connector of a generation."""


class Held(Protocol):
    """What runs, as it was read."""

    @property
    def tasks(self) -> Sequence[str]:
        """The tasks that a worker still holds."""

    @property
    def revision(self) -> int:
        """Where the counter was that epochs are from: what is given out later is above it."""


class TaskReader(Protocol):
    """What is needed of the scheduler; its client has it."""

    async def held(self, generation: str) -> Held:
        """Read what of a generation is held."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A connector that does not run. One that is not `alive` can never be started again.

    `epoch` is the floor of who alters its offsets now, together with the newest epoch that claimed
    (`head.fenced`). It is the scheduler's revision and not the config service's, which may count in
    another store: a floor of a counter that is ahead would fence every start, one that is behind
    nobody. It is right on both sides:

    - A task that began before is not above it. The leader names no task, so it knows of each one
      that it was let go, and knew its epoch before. Had another leader given out a newer one
      meanwhile, and this one not heard of it, then its task either has claimed, and is below the
      floor by that, or claims after the change and reads offsets as they were altered.
    - The next start is above it: its epoch is the revision of a write that comes after the answer.
      One that came before would have been named, or been let go again.
    """

    epoch: int
    alive: bool


class Owner:
    """Whose offsets they are, and whether a person may change them."""

    def __init__(self, connectors: ConnectorReader, tasks: TaskReader) -> None:
        """Ask `connectors` what is to run, and `tasks` what does."""
        self._connectors, self._tasks = connectors, tasks

    async def lives(self, generation: str) -> bool:
        """Tell whether a connector is of this generation; if not, there never is one again."""
        return (await self._connectors.find_generation(generation)).connector is not None

    async def stopped(self, name: str, generation: str, *, must_exist: bool) -> Stopped:
        """Return how the connector of a generation stands, if it is not to run, and does not.

        A generation that is not alive can never be started again, so it counts as stopped; what
        would only matter to its next start is refused with `must_exist`.

        Raises:
            ConfigError: `offset.not_stopped`, `offset.connector_not_found`,
                `offset.generation_mismatch`.
            RetriableError: `offset.still_held`.
        """
        owner = (await self._connectors.find_generation(generation)).connector
        if owner is None and must_exist:
            raise _not_found(name, generation)
        if owner is not None:
            _check(owner, name, generation)
        held = await self._tasks.held(generation)
        if held.tasks:
            raise _held(name, held.tasks)
        return Stopped(held.revision, owner is not None)


def _check(owner: Connector, name: str, generation: str) -> None:
    if owner.name != name:
        raise ConfigError(
            "offset.generation_mismatch",
            f"generation {generation} is of connector {owner.name}, not of {name[:200]!r}",
            fix="Take name and generation from the same connector.",
        )
    if owner.target_state is not TargetState.STOPPED:
        raise ConfigError(
            "offset.not_stopped",
            f"{name} is {owner.target_state.name}: its tasks would overwrite the change",
            fix=f"Stop it first: set the target state of {name} to STOPPED.",
        )


def _not_found(name: str, generation: str) -> ConfigError:
    return ConfigError(
        "offset.connector_not_found",
        f"there is no connector {name[:200]!r} of generation {generation}",
        fix="Read the connector again: it may have been deleted and made anew.",
    )


def _held(name: str, held: Sequence[str]) -> RetriableError:
    """A zombie: fenced here, and yet its end outside may still write what it has."""
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return RetriableError(
        "offset.still_held",
        f"{name[:200]} is to be stopped, and a worker still holds task {held[0]}{more}",
        fix="Wait until its tasks have ended. End a worker that hangs: its tasks are given up when "
        "its membership ends.",
        retry_after=1.0,
    )
