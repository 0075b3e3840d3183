"""`postgres-cdc`: tables of PostgreSQL and their changes, by logical replication."""

from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.source import PostgresCdcSource

__all__ = ["PostgresCdcConfig", "PostgresCdcSource"]
