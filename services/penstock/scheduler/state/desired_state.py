"""What should run: each connector with its plans, as tasks that can be assigned. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.connector_config.keys import SCHEDULER_KEYS, to_framework_names
from penstock.model.config_def import parse_or_default
from penstock.model.connector import Connector, TargetState, TaskPlan
from penstock.model.errors import ConfigError, Diagnostic
from penstock.scheduler.state.assignment import ANY_WORKER, Placement, Task, parse_placement
from penstock_values.identity import canonical_json
from penstock_values.partition_ranges import PartitionRange

MAX_TASKS: Final = 10_000
"""Tasks of one connector (invariant 12). A round over all of them still takes well under a second;
a connector whose plan has more should give each task more than one partition."""

_MONITOR_SUFFIX: Final = "-monitor"


def monitor_id(generation: str) -> str:
    """Return the id of the monitor of a connector. It has a record and an epoch like a task."""
    return generation + _MONITOR_SUFFIX


def is_monitor_id(task_id: str) -> bool:
    """Return whether an id is that of a monitor."""
    return task_id.endswith(_MONITOR_SUFFIX)


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """Bounds of the number of tasks, and the lag to reach, in seconds.

    `target_lag_s` 0 disables scaling: the number of tasks is `max_tasks`. A lag above the target
    for `scale_up_after_s` seconds adds tasks; a lag below `target_lag_s * low_fraction` for
    `scale_down_after_s` seconds removes one. A shorter `scale_up_after_s` answers every burst with
    a restart; a shorter `scale_down_after_s` removes tasks between two bursts.
    """

    min_tasks: int = 1
    max_tasks: int = 1
    target_lag_s: float = 0.0
    low_fraction: float = 0.25
    scale_up_after_s: float = 30.0
    scale_down_after_s: float = 300.0


@dataclass(frozen=True, slots=True)
class TaskRules:
    """The part of a connector's configuration that concerns its tasks."""

    placement: Placement = ANY_WORKER
    weight: float = 1.0
    max_restarts: int = -1
    scaling: ScalingRules = field(default_factory=ScalingRules)


def parse_task_rules(config: Mapping[str, str]) -> TaskRules:
    """Return the task rules of a configuration. A value that cannot be parsed falls back to its
    default: validation by a worker has refused it.
    """
    values, _ = parse_or_default(SCHEDULER_KEYS, to_framework_names(config))
    max_tasks = min(max(1, values["tasks.max"]), MAX_TASKS)
    min_tasks = min(max(1, values["tasks.min"]), max_tasks)
    return TaskRules(
        _placement_or_any(values["placement"]),
        max(0.0, values["task.weight"]),
        values["restart.max"],
        ScalingRules(min_tasks, max_tasks, values["lag.target"]),
    )


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A connector with the plans in force.

    `plan_epoch` is the revision at which the plans were stored, 0 without plans. `planned_for` is
    the digest of the configuration that they were made for. When it differs from `digest`, the
    plans are out of date: running tasks continue unchanged until there are new plans.
    """

    connector: Connector
    plans: tuple[TaskPlan, ...] = ()
    plan_epoch: int = 0
    planned_for: str = ""
    has_monitor: bool = False
    digest: str = field(init=False, repr=False)
    """The digest of the configuration."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest_config(self.connector))

    @property
    def generation(self) -> str:
        """The generation of the connector, which is its identity (invariant 10)."""
        return self.connector.generation

    @property
    def has_current_plans(self) -> bool:
        """Whether the plans were made for this configuration."""
        return self.plan_epoch > 0 and self.planned_for == self.digest


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task that should run.

    `digest` identifies its configuration and plan. None: they are being planned again, and a task
    that runs is left as it is.
    """

    id: str
    connector: Connector
    plan: TaskPlan
    rules: TaskRules
    digest: str | None
    task: Task
    """The input of the assignment."""
    plan_epoch: int = 0
    """Only of a monitor: the epoch of the plans that it should know."""

    @property
    def is_monitor(self) -> bool:
        """Whether this is the monitor of its connector."""
        return is_monitor_id(self.id)

    @property
    def generation(self) -> str:
        """The generation of its connector."""
        return self.connector.generation


def build_task_specs(desired: DesiredConnector) -> tuple[TaskSpec, ...]:
    """Return the tasks that a connector should have now; none while it is STOPPED."""
    connector = desired.connector
    if connector.target_state is TargetState.STOPPED:
        return ()
    rules, has_plans = parse_task_rules(connector.config), desired.has_current_plans
    specs = [
        TaskSpec(
            plan.task_id,
            connector,
            plan,
            rules,
            digest_task(desired.digest, plan) if has_plans else None,
            Task(plan.task_id, desired.generation, rules.weight, rules.placement),
        )
        for plan in desired.plans
    ]
    if desired.has_monitor:
        specs.append(_monitor_spec(desired, rules))
    return tuple(specs)


def _monitor_spec(desired: DesiredConnector, rules: TaskRules) -> TaskSpec:
    """Return the spec of a monitor. New plans are sent to it; they do not restart it."""
    id_ = monitor_id(desired.generation)
    return TaskSpec(
        id_,
        desired.connector,
        TaskPlan(id_),
        rules,
        desired.digest if desired.has_current_plans else None,
        Task(id_, desired.generation, placement=rules.placement),
        desired.plan_epoch,
    )


def digest_config(connector: Connector) -> str:
    """Return a digest that is equal for equal configurations.

    The target state is not part of it: a connector that is paused and resumed keeps its plans and
    tasks.
    """
    return _digest([int(connector.kind), dict(connector.config)])


def digest_task(config_digest: str, plan: TaskPlan) -> str:
    """Return a digest that changes when a running task must restart."""
    return _digest([config_digest, plan_content(plan)])


def plan_content(plan: TaskPlan) -> tuple[object, ...]:
    """Return the part of a plan whose change restarts a running task.

    Offsets are not part of it, because the offset service owns them. Neither are the order of the
    partitions and their weights.
    """
    parts = sorted(
        (p.id, p.payload, p.datasets, p.bounded, p.finds_others, *_range_content(p.range))
        for p in plan.partitions
    )
    return (tuple(sorted(plan.config.items())), tuple(parts))


def _range_content(range_: PartitionRange | None) -> tuple[str, ...]:
    # nothing without a range: the plans of earlier versions keep their digests
    return () if range_ is None else (range_.field, range_.start, range_.end)


def too_many_tasks(count: int) -> Diagnostic:
    """Return the diagnostic of a plan that has too many tasks."""
    return ConfigError(
        "scheduler.too_many_tasks",
        f"the plan has {count} tasks, the maximum is {MAX_TASKS}",
        fix="Give each task more partitions: set `tasks.max` to a smaller number.",
        config_path="tasks.max",
    ).diagnostic


def plan_too_large(task_id: str, size: int, max_bytes: int) -> Diagnostic:
    """Return the diagnostic of a plan of one task that has too many bytes."""
    return ConfigError(
        "scheduler.plan_too_large",
        f"the plan of {task_id} has {size >> 20} MiB, the maximum is {max_bytes >> 20} MiB",
        fix="Divide the partitions among more tasks: set `tasks.max` to a larger number.",
        config_path="tasks.max",
    ).diagnostic


def plans_too_large(max_bytes: int) -> Diagnostic:
    """Return the diagnostic of plans of a connector that have too many bytes together."""
    return ConfigError(
        "scheduler.plan_too_large",
        f"the plans of the connector have more than {max_bytes >> 20} MiB",
        fix="Divide the connector: let each name a part of the tables, topics or files.",
    ).diagnostic


def _placement_or_any(text: str) -> Placement:
    try:
        return parse_placement(text or "")
    except ConfigError:
        return ANY_WORKER


def _digest(value: object) -> str:
    text = canonical_json(value)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
