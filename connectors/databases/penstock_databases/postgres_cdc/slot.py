"""The replication slot: what keeps the log until it was read. Made when missing, never dropped but
when asked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from psycopg import pq

from penstock_connector import ConfigError, ConnectorError, OffsetLostError, RetriableError
from penstock_databases.dialect import Connection
from penstock_databases.failing import one_line, sql_error
from penstock_databases.postgres_cdc.offsets import lsn_of, lsn_text

OLDEST_VERSION: Final = 110_000
_MAKE_WITHIN: Final = 60
"""Seconds to make a slot. The server waits for all transactions that run; longer only delays the
word that one of them does not end."""

_FREE_WITHIN: Final = 5.0
"""Seconds for the server to notice that a stream has ended."""

_FIND: Final = (
    "SELECT plugin, database, active_pid, confirmed_flush_lsn::text, restart_lsn IS NULL, "
    "COALESCE(to_jsonb(s) ->> 'wal_status', '') = 'lost', current_database() "
    "FROM pg_catalog.pg_replication_slots s WHERE slot_name = %s"
)
_SERVER: Final = (
    "SELECT current_setting('wal_level'), current_setting('server_version_num')::int, "
    "pg_catalog.pg_is_in_recovery(), "
    "(SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user), "
    "current_setting('server_encoding')"
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as it is.

    Attributes:
        name: Its name.
        confirmed: All before this place is forgotten.
        lost: The server threw away what it should have kept.
    """

    name: str
    confirmed: int
    lost: bool


def check_server(connection: Connection, where: object) -> int:
    """Refuse a server that cannot give its changes; returns its version."""
    ((level, version, standby, allowed, encoding),) = connection.execute(_SERVER)
    if int(version) < OLDEST_VERSION:
        raise ConfigError(
            "cdc.server_too_old",
            f"{where}: PostgreSQL {int(version) // 10_000}; it must be 11 or newer",
            fix="Use `jdbc-source`, or upgrade the server.",
        )
    if level != "logical":
        raise ConfigError(
            "cdc.wal_level",
            f"{where}: `wal_level` is {level!r}, so the log has no changes of rows",
            fix="Run ALTER SYSTEM SET wal_level = 'logical', and restart the server.",
        )
    if standby:
        raise ConfigError(
            "cdc.standby", f"{where}: this is a standby", fix="Connect to the primary server."
        )
    if not allowed:
        raise ConfigError(
            "cdc.no_replication_right",
            f"{where}: the user may not read the log",
            fix="Run ALTER ROLE … REPLICATION (on managed servers: grant their role for it).",
            config_path="database.user",
        )
    if encoding == "SQL_ASCII":
        raise ConfigError(
            "cdc.encoding",
            f"{where}: the database's encoding is SQL_ASCII, so nobody knows what its texts mean",
            fix="Make it anew with an encoding, for instance UTF8.",
        )
    return int(version)


def log_end(connection: Connection) -> int:
    """Return the place behind all that was written to the log."""
    ((place,),) = connection.execute("SELECT pg_catalog.pg_current_wal_lsn()::text")
    return lsn_of(place)


def find_slot(connection: Connection, name: str) -> Slot | None:
    """Return a slot; None when there is none.

    Raises:
        ConfigError: `cdc.slot_foreign`: it is another database's, or of another plugin.
    """
    rows = connection.execute(_FIND, (name,))
    if not rows:
        return None
    ((plugin, database, _, confirmed, no_restart, lost, here),) = rows
    if plugin != "pgoutput" or database != here:
        raise ConfigError(
            "cdc.slot_foreign",
            f"the slot {name!r} is of plugin {plugin!r} and database {database!r}",
            fix="Set `slot.name` to a name that is not taken.",
            config_path="slot.name",
        )
    return Slot(name, lsn_of(confirmed) if confirmed else 0, bool(lost or no_restart))


def make_slot(connection: Connection, name: str, where: object) -> Slot:
    """Make a slot. It begins where all transactions that run now have ended."""
    try:
        connection.execute(f"SET statement_timeout TO '{_MAKE_WITHIN}s'")
        try:
            ((lsn,),) = connection.execute(
                "SELECT lsn::text "
                "FROM pg_catalog.pg_create_logical_replication_slot(%s, 'pgoutput')",
                (name,),
            )
        finally:
            connection.execute("SET statement_timeout TO 0")
    except ConnectorError as error:
        raise _not_made(error, name, where) from error
    return Slot(name, lsn_of(lsn), lost=False)


def _not_made(error: ConnectorError, name: str, where: object) -> ConnectorError:
    if "(53400)" in error.message:
        return ConfigError(
            "cdc.no_free_slot",
            f"{where}: all replication slots are in use",
            fix="Raise `max_replication_slots` and restart the server, or drop an unused slot.",
        )
    if "(57014)" in error.message:
        return RetriableError(
            "cdc.slot_waits",
            f"{where}: the slot {name!r} waits for a transaction that does not end",
            fix="Look for old transactions in pg_stat_activity and pg_prepared_xacts.",
        )
    return error


def drop_slot(connection: Connection, name: str) -> None:
    """Drop a slot, when it is there. The server may hold it a moment longer than we do."""
    end = time.monotonic() + _FREE_WITHIN
    while True:
        try:
            connection.execute(
                "SELECT pg_catalog.pg_drop_replication_slot(slot_name) "
                "FROM pg_catalog.pg_replication_slots WHERE slot_name = %s",
                (name,),
            )
        except ConnectorError as error:
            if "(55006)" not in error.message or time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


def check_slot(slot: Slot | None, name: str, lsn: int) -> Slot:
    """Return the slot of an offset.

    Raises:
        OffsetLostError: `cdc.slot_lost`: it is gone, or its log is; `cdc.slot_ahead`: it was moved
            past the offset.
    """
    if slot is None or slot.lost:
        raise slot_lost(name, "it does not exist" if slot is None else "its log was removed")
    if slot.confirmed > lsn:
        raise OffsetLostError(
            "cdc.slot_ahead",
            f"the slot {name!r} is at {lsn_text(slot.confirmed)}, beyond the offset "
            f"{lsn_text(lsn)}: the changes in between are gone",
            fix="Something else read from it. Reset the offsets to read the tables again.",
        )
    return slot


def slot_lost(name: str, why: object) -> OffsetLostError:
    """Return the error for changes that the server has no more."""
    return OffsetLostError(
        "cdc.slot_lost",
        f"the slot {name!r} is lost, and changes with it: {one_line(why)}",
        fix="Drop the slot if it is still there, and reset the offsets: it is made anew, and the "
        "tables are read again; snapshot.mode=when_needed does so by itself. What the server keeps "
        "is bounded by `max_slot_wal_keep_size`.",
    )


def replication_error(result: Any, slot: str, where: object) -> ConnectorError:
    """Return what the server answered on the replication connection as an error for people."""
    if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
        return sql_error("lost", where, "the server ended the stream")
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    said = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(
        "utf-8", "replace"
    )
    text = one_line(f"{said} ({state})")
    if state == "55006":
        return RetriableError(
            "cdc.slot_active",
            f"{where}: {text}",
            fix="Another connector reads this slot: give each its own `slot.name`. Right after a "
            "crash the server still holds it; it is tried again.",
        )
    if state == "42704" and "publication" in said:
        return ConfigError(
            "cdc.no_publication",
            f"{where}: {text}, or did not when the slot was made",
            fix="Drop the slot, so that it is made after the publication.",
            config_path="publication.name",
        )
    if state in {"42704", "55000", "58P01", "58P02"}:
        return slot_lost(slot, text)
    if state in {"42501", "28000"}:
        return sql_error("denied", where, text)
    if not state or state[:2] in {"57", "08", "XX", "53"}:
        return sql_error("lost", where, text)
    return sql_error("failed", where, text)
