"""The scheduler service plans connectors, and assigns their tasks to workers. One instance leads.

Its state machine has no I/O.

`state`, pure:

- `desired_state`  connectors with their plans, as tasks and monitors that can be assigned
- `workers`        which workers are alive, and which tasks each has released
- `assignment`     which worker should run which task: labels, sticky, even by weight, spread
- `rebalance`      one round: the changes from the current owners to the desired ones
- `restarts`       failed tasks by the class of their error; restart requests of operators
- `plans`          which connectors to plan, for how many tasks, and how partitions are divided
- `cluster`        the state machine: writes and assignments from all of the above
- `statuses`       the statuses of connectors, tasks and workers
- `numbered_log`   the latest items of a list, and which of them are not stored
- `events`         what happened, also what follows from reports of workers
- `log_lines`      warnings in the logs of workers
- `records`        the keys and their stored forms

`leader`, with I/O:

- `leadership`     the port of the leader with its fenced writes; the election
- `leader`         one term as the leader (`Leader`), and the instance (`Scheduler`)
- `sessions`       the sessions with workers, and their membership
- `connector_plans` follows the connectors; lets workers make plans, and has them stored
- `stored_plans`   reads and writes the plans
- `worker_logs`    follows the logs of workers
- `stored_state`   reads and writes the records

`service` is the gRPC service.

The record of a task names its owner; the revision of its last write is the epoch of the task. A
task changes its owner only when the old one has released it or is gone (invariants 4 and 11). A new
leader decides everything from lists, and restarts nothing that runs (invariant 7).

README.md describes the protocol from the side of a worker.
"""

from penstock.scheduler.leader.connector_plans import ConnectorPlans, Planner
from penstock.scheduler.leader.leader import Leader, LeaderSettings, Scheduler
from penstock.scheduler.leader.leadership import (
    ElectedLeadership,
    Leadership,
    SoleLeadership,
    run_election,
)
from penstock.scheduler.service import SchedulerService
from penstock.scheduler.state.cluster import ClusterSettings
from penstock.scheduler.state.workers import Member

__all__ = [
    "ClusterSettings",
    "ConnectorPlans",
    "ElectedLeadership",
    "Leader",
    "LeaderSettings",
    "Leadership",
    "Member",
    "Planner",
    "Scheduler",
    "SchedulerService",
    "SoleLeadership",
    "run_election",
]
