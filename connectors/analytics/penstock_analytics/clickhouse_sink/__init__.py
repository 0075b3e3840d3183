"""`clickhouse-sink`: rows of datasets in tables of ClickHouse, exactly once.

What all table sinks have in common is in `penstock_connector.tables`.

- `config`, `peer_keys`   the keys, with names and meanings of ClickHouse's own sink
- `session`    requests over HTTP; `failing` what ClickHouse says, as errors for people
- `sql`        names and values, written so that they stay names and values
- `types`      types of rows as types of columns, and back; `ddl` the statements that make these
- `limits`     what a column can hold
- `catalog`    a table as the server tells of it: its columns, its engine
- `writing`    the rows of a transaction as inserts with tokens
- `ledger`     the commit rows: how far a task is, and who may write for it
- `sink`       the task
"""

from penstock_analytics.clickhouse_sink.config import ClickHouseSinkConfig
from penstock_analytics.clickhouse_sink.sink import ClickHouseSink

__all__ = ["ClickHouseSink", "ClickHouseSinkConfig"]
