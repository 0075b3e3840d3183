"""`jdbc-source`: rows of tables, polled, with Kafka Connect's keys.

- `config`, `tables`   what is read: keys, discovery, names of datasets
- `relation`           one table or query: its columns and how they are selected
- `modes`              WHERE and ORDER BY, pure
- `places`             offsets and their texts; `gaps` and `window` design out the known losses
- `incrementing`, `stamped`, `bulk`   one reader for each mode
- `session`, `ahead`   connections that are waited for; a first load over several of them
- `source`             the task: tables take turns
"""

from penstock_databases.jdbc_source.config import JdbcSourceConfig
from penstock_databases.jdbc_source.source import JdbcSource

__all__ = ["JdbcSource", "JdbcSourceConfig"]
