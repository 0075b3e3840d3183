"""The config service: connectors with their versions and target states.

- `rules`       pure: what a change makes of a connector, and which changes are refused
- `records`     the keys, and their stored forms
- `connectors`  reads and writes connectors, and the versions of their configurations
- `topics`      the topics of which connectors have rows
- `log_levels`  the log levels of every instance of a service
- `deletions`   deletes what belongs to deleted connectors, also in external systems
- `kept_offsets` offsets of deleted connectors that a connector of the same name takes up
- `service`     the gRPC service; validates configurations with the help of a worker

Invariant 10 is upheld here: versions and topics are stored by generation, never by name. All state
is in the store, so several instances may serve it.
"""

from penstock.config.connectors import MAX_REVISIONS, ConnectorPage, Connectors, Revisions
from penstock.config.log_levels import LogLevels
from penstock.config.records import StoredConnector
from penstock.config.service import ConfigService
from penstock.config.topics import Topics

__all__ = [
    "MAX_REVISIONS",
    "ConfigService",
    "ConnectorPage",
    "Connectors",
    "LogLevels",
    "Revisions",
    "StoredConnector",
    "Topics",
]
