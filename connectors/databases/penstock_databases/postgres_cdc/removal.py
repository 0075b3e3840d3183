"""What a connector leaves in the server is removed: its slot, and a publication that it made."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.publication import drop_publication, is_made_here
from penstock_databases.postgres_cdc.slot import drop_slot, find_slot
from penstock_databases.postgresql.connection import PostgresqlConnection


def remove(config: PostgresCdcConfig, *, publication: bool) -> Sequence[str]:
    """Remove the slot, and with `publication` the publication; return what was done.

    Raises:
        ConnectorError: the server cannot be reached or refuses; a task may still read the slot.
    """
    slot, published = config.slot_name, config.publication_name
    done = []
    connection = PostgresqlConnection(config.target(), config.login())
    try:
        if find_slot(connection, slot) is not None:
            done.append(f"drop the replication slot {slot}")
            drop_slot(connection, slot)
        if publication and is_made_here(connection, published):
            done.append(f"drop the publication {published}")
            drop_publication(connection, published)
    finally:
        connection.close()
    return done
