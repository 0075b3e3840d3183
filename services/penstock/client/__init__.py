"""Typed clients of the services. They take an address and return values of the model.

- `service_client`  ServiceClient: one channel, timeouts, bounded retries, errors of the model;
  ProcessClient: the metrics of a process of any service
- `config`  ConfigClient: connectors, revisions, target states, restarts, log levels
- `log_levels`  the log levels of a process, kept up to date by a watch
- `offset`  OffsetClient: claim, commit, get, list, history, alter, reset, rewind
- `scheduler`  SchedulerClient: worker sessions, cluster, statuses, task plans, drain
- `worker`  WorkerClient: plugins, validation, plans, previews; tasks, live rows, logs of a worker
"""

from penstock.client.config import ConfigClient
from penstock.client.log_levels import apply_log_levels
from penstock.client.offset import OffsetClient
from penstock.client.scheduler import SchedulerClient
from penstock.client.service_client import ProcessClient, ServiceClient
from penstock.client.worker import WorkerClient

__all__ = [
    "ConfigClient",
    "OffsetClient",
    "ProcessClient",
    "SchedulerClient",
    "ServiceClient",
    "WorkerClient",
    "apply_log_levels",
]
