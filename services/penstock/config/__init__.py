"""The config service: what should be. Connectors, their target states and their task plans.

- `rules`       pure: what a connector becomes, and what is refused
- `plans`       pure: task plans as chunks under a generation
- `stored`      the keys, and a connector's stored form
- `connectors`  reads and writes connectors in a store
- `taskplans`   reads and writes task plans in a store
- `service`     the gRPC surface, thin

Invariant 10 is upheld here: plans are kept by generation, never by name. State is in the store
alone, so several instances may serve it.
"""

from penstock.config.connectors import Connectors
from penstock.config.service import ConfigService
from penstock.config.stored import Stored
from penstock.config.taskplans import StoredPlans, TaskPlans

__all__ = ["ConfigService", "Connectors", "Stored", "StoredPlans", "TaskPlans"]
