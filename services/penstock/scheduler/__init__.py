"""The scheduler service: who does what. One instance leads; the state machine at its heart has no
I/O.

`state`, pure:

- `assignment`  which worker should have which task: labels, sticky, even by weight, spread
- `resplit`     how partitions are divided again, changing as few tasks as possible
- `scaling`     how many tasks a connector should have, by its lag
- `wanted`      connectors with their plans, as tasks and monitors that can be assigned
- `rounds`      what changes between who has which task and who should
- `events`      what the state machine is told, and what it wants done
- `ownership`   who is alive, and what each has let go of
- `failures`    what becomes of a task that failed, by the class of its error, and when
- `plan_needs`  which connectors need plans, and who makes them
- `cluster`     all of it together; `statuses` how it is, `restart_requests`, `records` the keys

`leading`, at the edges:

- `leadership`  the port of who leads, with its fenced writes; `election`
- `stored`      how the records are read and written; `members` who is alive
- `sessions`    the way down to the workers
- `plans`, `planning`  workers are asked for plans, the config service is followed
- `leader`      one time of being the leader; `scheduler` an instance: leads again and again

`service` is the gRPC surface, thin.

A task's record names its owner; the revision of its last write is the task's epoch. Ownership moves
only when the old owner has let go or is gone (invariants 4 and 11), and everything is decided anew
from lists after a change of leaders, without a restart of what runs (invariant 7).

README.md tells the same from the side of a worker.
"""

from penstock.scheduler.leading.election import ElectedLeadership, stand
from penstock.scheduler.leading.leader import Leader, LeaderSettings
from penstock.scheduler.leading.leadership import Leadership, SoleLeader, StoreLeadership
from penstock.scheduler.leading.plans import PlanMaker, Plans
from penstock.scheduler.leading.scheduler import Scheduler
from penstock.scheduler.service import SchedulerService
from penstock.scheduler.state.cluster import ClusterSettings
from penstock.scheduler.state.events import Member
from penstock.scheduler.state.failures import RestartPolicy

__all__ = [
    "ClusterSettings",
    "ElectedLeadership",
    "Leader",
    "LeaderSettings",
    "Leadership",
    "Member",
    "PlanMaker",
    "Plans",
    "RestartPolicy",
    "Scheduler",
    "SchedulerService",
    "SoleLeader",
    "StoreLeadership",
    "stand",
]
