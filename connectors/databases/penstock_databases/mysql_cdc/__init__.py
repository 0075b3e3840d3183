"""`mysql-cdc`: rows of MariaDB and MySQL tables, and every change of them, in order, once.

What it shares with `postgres_cdc` is in `cdc`. From the outside in:

- `config`      the keys
- `source`      the task: batches of the log and of chunks, offsets, what statements mean
- `following`   the way along the log: transactions, table maps, rows; `stream` is the connection
- `chunks`      how a chunk of the snapshot is read; `progress` settles it with the log
- `gathering`   rows of events, by table, until they are a batch
- `tables`, `layouts`, `rows`   how rows of a table are read: as columns, all at once, by
  `arena`, `numbers`, `moments`, `texts`, `binaryjson`
- `events`, `tablemap`, `statements`, `position`, `offsets`   what stands in a log, and where
- `origins`     where in the log a row is from, for envelopes
- `server`      what is asked beside the log, and where a task begins
"""

from penstock_databases.mysql_cdc.config import MysqlCdcConfig
from penstock_databases.mysql_cdc.source import MysqlCdc

__all__ = ["MysqlCdc", "MysqlCdcConfig"]
