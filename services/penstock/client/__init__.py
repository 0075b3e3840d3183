"""Typed clients of the services: an address in, values of the model out.

- `call`    one call: its deadline, its bounded retries, its errors as ours
- `config`  ConfigClient: connectors, history, target states, restarts, plans, log levels, watch
- `follow`  the connectors as they are now, kept up from a list and a watch
- `levels`  the levels of this process's loggers, as the config service has them
- `plans`   task plans as an upload
- `offset`  OffsetClient: claim, commit, get, list, history, alter, reset, rewind
- `process` ProcessClient: what a process of any service counts of itself
- `scheduler`  SchedulerClient: sessions, who is there, how tasks are, drain
- `worker`  WorkerClient: plugins, validation, plans; `shown`: its tasks, rows, log
"""

from penstock.client.call import Caller
from penstock.client.config import (
    ConfigClient,
    ConnectorList,
    ConnectorsChanged,
    FoundConnector,
    StoredTaskPlan,
)
from penstock.client.follow import Connectors, follow
from penstock.client.levels import keep_levels
from penstock.client.offset import Claim, OffsetChange, OffsetClient, OffsetVersion, Rewound
from penstock.client.process import ProcessClient
from penstock.client.scheduler import HeldTasks, SchedulerClient
from penstock.client.worker import (
    AlteredOffsets,
    AppliedConnector,
    PlannedConnector,
    ValidatedConnector,
    WorkerClient,
)

__all__ = [
    "AlteredOffsets",
    "AppliedConnector",
    "Caller",
    "Claim",
    "ConfigClient",
    "ConnectorList",
    "Connectors",
    "ConnectorsChanged",
    "FoundConnector",
    "HeldTasks",
    "OffsetChange",
    "OffsetClient",
    "OffsetVersion",
    "PlannedConnector",
    "ProcessClient",
    "Rewound",
    "SchedulerClient",
    "StoredTaskPlan",
    "ValidatedConnector",
    "WorkerClient",
    "follow",
    "keep_levels",
]
