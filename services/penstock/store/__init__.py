"""Where services keep their state: versioned keys behind one small port.

- `port`    the port: get, range, write (compare-and-put of several keys), watch, close
- `feed`    bounded memory of recent changes, which watches of every in-process driver are fed from
- `errors`  a driver's errors as coded ones
- `lock`    one process per state file
- `writer`  the single writer: several waiting writes share one durable transaction
- `sqlite`  the driver for one machine

Every driver passes `tests/contract/store`.
"""

from penstock.store.port import ANY, Change, Check, Conflict, Entry, Page, Store
from penstock.store.sqlite import SqliteStore

__all__ = ["ANY", "Change", "Check", "Conflict", "Entry", "Page", "SqliteStore", "Store"]
