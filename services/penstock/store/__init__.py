"""Stores: services keep their state as versioned keys behind one port, with three drivers.

- `port`           `Store`: get, range, write (compare-and-put of several keys), watch, close
- `feed`           bounded list of recent changes, which feeds the watches of a driver
- `sqlite`         the driver for one machine; `sqlite_writer`: its write thread, errors of SQLite
- `etcd`           the driver for a cluster; `etcd_format`: its format, where revisions begin
- `postgresql/`    the driver for millions of keys
- `sealed_store`   encrypts the values of another store

Every driver passes `tests/contract/store`.
"""
