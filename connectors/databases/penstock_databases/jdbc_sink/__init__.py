"""`jdbc-sink`: rows of datasets in tables of MariaDB, MySQL, PostgreSQL or SQLite, exactly once.

What all table sinks have in common is in `penstock_connector.tables`.

- `config`    the keys, with Kafka Connect's names and meanings
- `route`     rows of one schema on their way into one table, encoded and staged
- `ledger`    the table `penstock_commits`: how far a task is, and who may write for it
- `session`   the session of the task with the database
- `failed_rows`  rows that the database does not take: found, and named
- `sink`      the task
"""

from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.jdbc_sink.sink import JdbcSink

__all__ = ["JdbcSink", "JdbcSinkConfig"]
