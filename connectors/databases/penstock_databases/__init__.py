"""Relational databases, in one plugin: `python -m penstock_databases`.

Connectors:

- `jdbc_source`    rows of tables, by polling
- `jdbc_sink`      rows in tables; exactly once
- `databend_sink`  rows in tables of Databend, over HTTP or in a folder; exactly once
- `mysql_cdc`      changes of MariaDB and MySQL: a snapshot, then the binary log
- `postgres_cdc`   changes of PostgreSQL: a snapshot, then logical replication
- `cdc`            what these two share: the snapshot in chunks beside a log

What they share:

- `mysql`, `postgresql`, `sqlite`   a room for each: sessions, catalog, types, reading, writing
- `java`   any other database, through its JDBC driver in a JVM
- `dialect`, `dialects`, `writing`, `writers`   the ports that those rooms fill, and who is whose
- `url`, `names`, `types`, `failing`   connection URLs; names in SQL; types; errors for people
- `cells`, `casting`, `fitting`, `encode`   texts ↔ Arrow columns, both ways, exactly
- `changes`   what inserts, updates and deletes of a transaction come to

`plugin.toml` is the manifest by which a host finds them. The README has every key.
"""

from penstock_databases.databend_sink import DatabendSink
from penstock_databases.jdbc_sink import JdbcSink
from penstock_databases.jdbc_source import JdbcSource
from penstock_databases.mysql_cdc import MysqlCdc
from penstock_databases.postgres_cdc import PostgresCdcSource

__all__ = [
    "CONNECTORS",
    "DatabendSink",
    "JdbcSink",
    "JdbcSource",
    "MysqlCdc",
    "PostgresCdcSource",
]

CONNECTORS = (JdbcSource, JdbcSink, MysqlCdc, PostgresCdcSource, DatabendSink)
"""What the plugin serves."""
