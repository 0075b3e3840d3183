"""Typed clients of the services: an address in, values of the model out.

- `call`    one call: its deadline, its bounded retries, its errors as ours
- `config`  ConfigClient: connectors, target states, task plans, watch
- `offset`  OffsetClient: claim, commit, get, list, alter, reset
- `worker`  WorkerClient: plugins, validation, plans, tasks
"""

from penstock.client.call import Caller
from penstock.client.config import ConfigClient, ConnectorList, ConnectorsChanged, StoredTaskPlan
from penstock.client.offset import Claim, OffsetClient
from penstock.client.worker import PlannedConnector, ValidatedConnector, WorkerClient

__all__ = [
    "Caller",
    "Claim",
    "ConfigClient",
    "ConnectorList",
    "ConnectorsChanged",
    "OffsetClient",
    "PlannedConnector",
    "StoredTaskPlan",
    "ValidatedConnector",
    "WorkerClient",
]
