"""`databend-sink`: rows of datasets in tables of Databend, exactly once.

- `config`    the keys, with the names and meanings of Databend's own connector
- `url`       where Databend is: a server behind HTTP, or a folder with an engine of our own
- `sql`       names and values, written so that they stay names and values
- `failing`   what Databend says, as errors for people
- `types`     types of rows as types of columns, and back
- `naming`    which table a dataset is in
- `keys`      which fields of a row are its key, and which its columns
- `evolve`    what has to be made or added to a table
- `fitting`   which values a column can hold
- `route`     rows of one schema on their way into one table
- `staging`   rows of a slot that do not count yet
- `writing`   the rows of a transaction as files and statements
- `ledger`    the commit row: how far a task is, and who may write for it
- `session`   the port to a Databend; `http` with `upload`, `embedded` with `child` fill it
- `opening`   opens a session, as often as the configuration says
- `sink`      the task
"""

from penstock_databases.databend_sink.config import DatabendSinkConfig
from penstock_databases.databend_sink.sink import DatabendSink

__all__ = ["DatabendSink", "DatabendSinkConfig"]
