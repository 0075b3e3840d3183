"""`databend-sink`: rows of datasets in tables of Databend, exactly once.

What all table sinks have in common is in `penstock_connector.tables`.

- `config`    the keys, with the names and meanings of Databend's own connector
- `url`       where Databend is: a server behind HTTP, or a folder with an engine of our own
- `sql`       names and values, written so that they stay names and values
- `failing`   what Databend says, as errors for people
- `types`     types of rows as types of columns, and back; `ddl` the statements that make these
- `limits`    what a column can hold
- `writing`   the rows of a transaction as files and statements
- `ledger`    the commit row: how far a task is, and who may write for it
- `session`   the port to a Databend; `http` with `upload`, `embedded` with `child` fill it
- `sink`      the task
"""

from penstock_databases.databend_sink.config import DatabendSinkConfig
from penstock_databases.databend_sink.sink import DatabendSink

__all__ = ["DatabendSink", "DatabendSinkConfig"]
