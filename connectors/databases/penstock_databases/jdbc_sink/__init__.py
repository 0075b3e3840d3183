"""`jdbc-sink`: rows of datasets in tables of MariaDB, MySQL, PostgreSQL or SQLite, exactly once.

- `config`    the keys, with Kafka Connect's names and meanings
- `naming`    which table a dataset is in
- `keys`      which fields of a row are its key, and which its columns
- `evolve`    what has to be made or added to a table
- `route`     rows of one schema on their way into one table
- `staging`   rows of a slot that do not count yet
- `ledger`    the table `penstock_commits`: how far a task is, and who may write for it
- `owning`    the session of the task with the database
- `sink`      the task
"""

from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.jdbc_sink.sink import JdbcSink

__all__ = ["JdbcSink", "JdbcSinkConfig"]
