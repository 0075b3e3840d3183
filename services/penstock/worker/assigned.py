"""What an assignment names: units that are to be held, and units that go on."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.connector import Connector, TargetState, TaskPlan


@dataclass(frozen=True, slots=True)
class Assigned:
    """A task of an assignment, or a monitor.

    A monitor has a plan without partitions, and the `plan_epoch` of the plans that it should know.
    """

    connector: Connector
    plan: TaskPlan
    epoch: int
    plan_epoch: int = 0

    @property
    def monitor(self) -> bool:
        """Whether it is the monitor of its connector."""
        return self.plan_epoch > 0

    @property
    def paused(self) -> bool:
        """Whether it is to move no rows."""
        return self.connector.target_state is TargetState.PAUSED


@dataclass(frozen=True, slots=True)
class Kept:
    """A task that goes on at its epoch; only its target state may differ."""

    epoch: int
    target_state: TargetState
