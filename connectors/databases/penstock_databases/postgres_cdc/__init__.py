"""`postgres-cdc`: tables of PostgreSQL and their changes, by logical replication.

What it shares with `mysql_cdc` is in `cdc`. From the outside in:

- `config`      the keys
- `source`      the task: the log and chunks of tables in turns, offsets, acknowledgements
- `start`       where a task begins, and what is removed with its connector
- `tables`      which tables are followed; `publication` puts them into the log
- `stream`      the connection that gives the log, and the session beside it; `slot` keeps the log
- `changes`     messages of the log → rows; `pgoutput` reads them, `progress` says which are given
- `chunks`      how a chunk of the snapshot is read
- `shapes`, `rows`   columns of tables; rows with the reserved columns
- `origins`     where in the log a row is from, for envelopes
- `offsets`     what is stored
"""

from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.source import PostgresCdcSource

__all__ = ["PostgresCdcConfig", "PostgresCdcSource"]
