"""The driver for millions of keys: a schema of a PostgreSQL database, shared by many processes.

- `settings`  which database and schema
- `schema`    the tables, made on first use
- `errors`    asyncpg's errors as coded ones
- `group`     pure: what several waiting writes become, decided in order
- `writer`    one transaction for a group of writes, repeated safely when its end is not known
- `tail`      follows the writes of all processes, for watches
- `store`     the driver

**Revisions** are the order of commits: a write locks the one row of `state` until it is committed,
so no revision is visible before a smaller one. That makes writers wait for each other, also across
processes; several writes of one process share a transaction, so they wait for few.

The extra `postgresql` installs asyncpg.
"""

from penstock.store.postgresql.settings import PostgresqlSettings
from penstock.store.postgresql.store import PostgresqlStore

__all__ = ["PostgresqlSettings", "PostgresqlStore"]
