"""Typed clients of the services. They take an address and return values of the model.

- `service_client`  ServiceClient: one channel, timeouts, bounded retries, errors of the model;
  ProcessClient: the metrics of a process of any service
- `config`  ConfigClient: connectors, revisions, target states, restarts, task plans, log levels
- `config_watch`  the current connectors, and the current log levels, kept up to date by a watch
- `offset`  OffsetClient: claim, commit, get, list, history, alter, reset, rewind
- `scheduler`  SchedulerClient: worker sessions, cluster, statuses, drain
- `worker`  WorkerClient: plugins, validation, plans, previews; tasks, live rows, logs of a worker
"""

from penstock.client.config import (
    ConfigClient,
    ConnectorList,
    ConnectorsChanged,
    FoundConnector,
    StoredTaskPlan,
)
from penstock.client.config_watch import Connectors, apply_log_levels, watch_connectors
from penstock.client.offset import Claim, OffsetChange, OffsetClient, OffsetVersion, RewindProgress
from penstock.client.scheduler import HeldTasks, SchedulerClient
from penstock.client.service_client import ProcessClient, ServiceClient
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
    "RewindProgress",
    "SchedulerClient",
    "ServiceClient",
    "StoredTaskPlan",
    "ValidatedConnector",
    "WorkerClient",
    "apply_log_levels",
    "watch_connectors",
]
