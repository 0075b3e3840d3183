"""The config service: what should be. Connectors, their history, target states and task plans.

- `rules`       pure: what a connector becomes, and what is refused
- `plan_chunks` pure: task plans as chunks under a generation
- `stored`      the keys, and the stored forms
- `connectors`  reads and writes connectors in a store
- `revisions`   versions of a configuration: list, diff, the way back
- `task_plans`  reads and writes task plans in a store
- `log_levels`  levels of loggers, for every instance of a service
- `topics`      which topics connectors have rows of
- `validation`  checks a configuration with the help of a worker
- `sweeping`    removes what deleted connectors leave
- `service`     the gRPC surface, thin

Invariant 10 is upheld here: plans and versions are kept by generation, never by name. State is in
the store alone, so several instances may serve it.
"""

from penstock.config.connectors import KEPT_REVISIONS, ConnectorPage, Connectors
from penstock.config.log_levels import LogLevels
from penstock.config.revisions import Revisions
from penstock.config.service import ConfigService
from penstock.config.stored import Stored
from penstock.config.task_plans import TaskPlans
from penstock.config.topics import Topics
from penstock.config.validation import Validator

__all__ = [
    "KEPT_REVISIONS",
    "ConfigService",
    "ConnectorPage",
    "Connectors",
    "LogLevels",
    "Revisions",
    "Stored",
    "TaskPlans",
    "Topics",
    "Validator",
]
