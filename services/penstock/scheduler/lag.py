"""What workers say of how far a connector is behind, and the warning where they cannot. Pure."""

from __future__ import annotations

from penstock.model.config_def import no_effect
from penstock.model.connector import TaskStatus
from penstock.model.errors import Diagnostic
from penstock.scheduler.cluster import Cluster
from penstock.scheduler.wanted import Wanted


def reported(cluster: Cluster, wanted: Wanted) -> list[TaskStatus | None]:
    """Return what workers say of each task of a connector; None for one that none has spoken of."""
    owned = ((plan.task_id, cluster.owned.get(plan.task_id)) for plan in wanted.plans)
    return [cluster.workers.status(id_, one) if one else None for id_, one in owned]


def lacks_lag(cluster: Cluster, wanted: Wanted) -> bool:
    """Tell whether a source moves rows and does not say how many are left."""
    statuses = reported(cluster, wanted)
    return any(one is not None and one.rows_left < 0 < one.rows_written for one in statuses)


def without_lag(wanted: Wanted) -> Diagnostic:
    """Return the warning that the `lag.target` of a connector has no effect."""
    tasks = len(wanted.plans)
    return no_effect(
        "lag.target",
        f"the source does not say how many rows are left, so the number of tasks stays {tasks}",
        "Set `tasks.max` alone, or `tasks.min` to the number of tasks that it should have.",
    )
