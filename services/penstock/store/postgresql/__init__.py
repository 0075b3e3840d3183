"""The driver for millions of keys: a schema of a PostgreSQL database, shared by many processes.

- `settings`  database and schema, connections, errors of asyncpg with their codes
- `writer`    one transaction for a group of waiting writes, repeated safely when its outcome is
  unknown; `decide` is its pure core
- `store`     the driver: tables, reads, and watches that follow the writes of all processes

**Revisions** are the order of commits: a write locks the one row of `state` until it is committed,
so no revision is visible before a smaller one. Writers therefore wait for each other, also across
processes. Waiting writes of one process share a transaction, so few transactions wait.

The extra `postgresql` installs asyncpg.
"""
