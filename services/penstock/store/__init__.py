"""Where services keep their state: versioned keys behind one small port.

- `port`    the port: get, range, write (compare-and-put of several keys), watch, close
- `feed`    bounded memory of recent changes, which watches of every in-process driver are fed from
- `errors`  a driver's errors as coded ones
- `lock`    one process per state file
- `writer`  the single writer: several waiting writes share one durable transaction
- `sqlite`  the driver for one machine
- `etcd`    the driver for a cluster
- `postgresql/`  the driver for millions of keys
- `sealed`  a store over another one, which only sees values that it cannot read

Every driver passes `tests/contract/store`.
"""

from penstock.store.etcd import EtcdStore
from penstock.store.port import ANY, Change, Check, Conflict, Entry, Page, Put, Store
from penstock.store.postgresql import PostgresqlSettings, PostgresqlStore
from penstock.store.sqlite import SqliteStore

__all__ = [
    "ANY",
    "Change",
    "Check",
    "Conflict",
    "Entry",
    "EtcdStore",
    "Page",
    "PostgresqlSettings",
    "PostgresqlStore",
    "Put",
    "SqliteStore",
    "Store",
]
