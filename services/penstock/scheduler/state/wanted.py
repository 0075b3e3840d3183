"""What should run: connectors with their plans, as tasks that can be assigned. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.model.config_def import ConfigKey, read
from penstock.model.connector import Connector, TargetState, TaskPlan
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.identity import canonical_json
from penstock.scheduler.state.assignment import ANYWHERE, Placement, Task, parse_placement
from penstock.scheduler.state.resplit import content
from penstock.scheduler.state.scaling import ScalingRules

MOST_TASKS: Final = 10_000
"""Tasks of one connector (invariant 12). A round over all of them still takes well under a second;
a plan with more is a connector that should give a task more than one partition."""

KEYS: Final = (
    ConfigKey("tasks.max", "int", 1, doc="Most tasks the connector is split into."),
    ConfigKey("tasks.min", "int", 1, doc="Fewest tasks, where `lag.target` decides their number."),
    ConfigKey("lag.target", "duration", 0.0, doc="Lag above which tasks are added; 0: never."),
    ConfigKey("task.weight", "double", 1.0, doc="What a task costs, compared with others."),
    ConfigKey("placement", default="", doc="Labels of the workers that may run the tasks."),
    ConfigKey("restart.max", "int", -1, doc="Most restarts in a row; -1: no limit."),
)
"""The keys of a connector that the scheduler goes by. The worker checks them with all others, so
here what cannot be read falls back to its default."""


_MONITOR: Final = "-monitor"


def monitor_id(generation: str) -> str:
    """Return the id of a connector's monitor. It has a record and an epoch like a task."""
    return generation + _MONITOR


def is_monitor(task_id: str) -> bool:
    """Tell whether an id is that of a monitor."""
    return task_id.endswith(_MONITOR)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a connector's configuration says about its tasks."""

    placement: Placement = ANYWHERE
    weight: float = 1.0
    restart_max: int = -1
    scaling: ScalingRules = field(default_factory=ScalingRules)


def rules_of(config: Mapping[str, str]) -> Rules:
    """Return the rules of a configuration."""
    defaults = {key.name: key.default for key in KEYS}
    values = defaults | read(KEYS, {k: v for k, v in config.items() if k in defaults})[0]
    most = min(max(1, values["tasks.max"]), MOST_TASKS)
    return Rules(
        _placement(values["placement"]),
        max(0.0, values["task.weight"]),
        values["restart.max"],
        ScalingRules(min(max(1, values["tasks.min"]), most), most, values["lag.target"]),
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A connector with the plans in force.

    `plan_epoch` is the revision at which the plans were stored, 0 without plans. `planned_for` is
    the `config_digest` of the configuration that they were made for: another one means that they
    are out of date, and that tasks which run go on as they are until there are new ones.
    """

    connector: Connector
    plans: tuple[TaskPlan, ...] = ()
    plan_epoch: int = 0
    planned_for: str = ""
    monitor: bool = False
    """Whether it has a monitor."""
    form: str = field(init=False, repr=False)
    """The digest of the configuration."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", config_digest(self.connector))

    @property
    def generation(self) -> str:
        """The connector's generation, which is its identity (invariant 10)."""
        return self.connector.generation

    @property
    def current(self) -> bool:
        """Whether the plans are those of this configuration."""
        return self.plan_epoch > 0 and self.planned_for == self.form


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task that should run. `digest` None: its new form is not known yet, any form will do."""

    id: str
    connector: Connector
    plan: TaskPlan
    rules: Rules
    digest: str | None
    task: Task
    """It as the assignment sees it."""
    plan_epoch: int = 0
    """Of a monitor: the epoch of the plans that it should know."""

    @property
    def monitor(self) -> bool:
        """Whether it is the monitor of its connector."""
        return is_monitor(self.id)

    @property
    def generation(self) -> str:
        """The generation of its connector."""
        return self.connector.generation

    @property
    def paused(self) -> bool:
        """Whether it is to move no rows."""
        return self.connector.target_state is TargetState.PAUSED


def specs_of(wanted: Wanted) -> tuple[TaskSpec, ...]:
    """Return the tasks that a connector should have now; none while it is STOPPED."""
    connector = wanted.connector
    if connector.target_state is TargetState.STOPPED:
        return ()
    rules, current = rules_of(connector.config), wanted.current
    specs = [
        TaskSpec(
            plan.task_id,
            connector,
            plan,
            rules,
            task_digest(wanted.form, plan) if current else None,
            Task(plan.task_id, wanted.generation, rules.weight, rules.placement),
        )
        for plan in wanted.plans
    ]
    if wanted.monitor:
        specs.append(_monitor(wanted, rules))
    return tuple(specs)


def _monitor(wanted: Wanted, rules: Rules) -> TaskSpec:
    """Return the monitor of a connector. New plans are news to it, no reason to start it anew."""
    id_ = monitor_id(wanted.generation)
    return TaskSpec(
        id_,
        wanted.connector,
        TaskPlan(id_),
        rules,
        wanted.form if wanted.current else None,
        Task(id_, wanted.generation, placement=rules.placement),
        wanted.plan_epoch,
    )


def config_digest(connector: Connector) -> str:
    """Return what is equal for equal configurations. The target state is not of it: a connector
    that is paused and resumed keeps its plans and tasks.
    """
    return _digest([int(connector.kind), dict(connector.config)])


def task_digest(config: str, plan: TaskPlan) -> str:
    """Return what is equal as long as a running task need not be another one."""
    return _digest([config, content(plan)])


def too_many(count: int) -> Diagnostic:
    """Return why a plan is refused that has too many tasks."""
    return ConfigError(
        "scheduler.too_many_tasks",
        f"the plan has {count} tasks, at most {MOST_TASKS} are taken",
        fix="Give a task more partitions: set `tasks.max` to a smaller number.",
        config_path="tasks.max",
    ).diagnostic


def too_large(task_id: str, size: int, most: int) -> Diagnostic:
    """Return why a plan is refused that has a task of too many bytes."""
    return ConfigError(
        "scheduler.plan_too_large",
        f"the plan of {task_id} has {size >> 20} MiB, at most {most >> 20} are taken",
        fix="Divide the partitions among more tasks: set `tasks.max` to a larger number.",
        config_path="tasks.max",
    ).diagnostic


def _placement(text: str) -> Placement:
    try:
        return parse_placement(text or "")
    except ConfigError:
        return ANYWHERE


def _digest(value: object) -> str:
    text = canonical_json(value)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
