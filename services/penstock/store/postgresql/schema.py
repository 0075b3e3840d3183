"""The tables, made on first use, by whichever process comes first."""

from __future__ import annotations

import logging
from typing import Any, Final

from penstock.model.errors import ConfigError
from penstock.store.errors import newer
from penstock.store.port import FORMAT

log = logging.getLogger(__name__)

OLDEST: Final = 12
"""The oldest PostgreSQL that is taken. Nobody mends those before, and none of them was tried."""

_LOCK: Final = 0x50535444  # "PSTD": held while the tables are made
# Room in the pages lets a new value lie beside the old one, and the index stay as it is.
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS entry (
    key bytea PRIMARY KEY, revision bigint NOT NULL, value bytea NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE IF NOT EXISTS change (
    revision bigint PRIMARY KEY, nonce uuid NOT NULL, keys bytea[]
);
CREATE TABLE IF NOT EXISTS state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint NOT NULL,
    layout integer NOT NULL
) WITH (fillfactor = 10);
"""
_FIRST: Final = "INSERT INTO state (revision, layout) VALUES (1, $1) ON CONFLICT DO NOTHING"


async def prepare(connection: Any, schema: str) -> int:
    """Make what is missing; returns the revision of the store.

    Raises:
        ConfigError: `store.newer`: a newer version has written here; `store.unsupported_version`.
    """
    _refuse_older(connection.get_server_version())
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        if not await connection.fetchval("SELECT to_regclass($1)", f"{schema}.state"):
            await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            await connection.execute(_TABLES)
            await connection.execute(_FIRST, FORMAT)
        state = await connection.fetchrow("SELECT revision, layout FROM state")
    if state["layout"] > FORMAT:
        raise newer(f"schema {schema}", state["layout"])
    if await connection.fetchval("SHOW fsync") != "on":
        log.warning("PostgreSQL runs with fsync=off: a power cut loses what was acknowledged")
    return int(state["revision"])


def _refuse_older(version: Any) -> None:
    if version.major < OLDEST:
        raise ConfigError(
            "store.unsupported_version",
            f"the server is PostgreSQL {version.major}, the oldest that is taken is {OLDEST}",
            fix="Upgrade PostgreSQL.",
        )
