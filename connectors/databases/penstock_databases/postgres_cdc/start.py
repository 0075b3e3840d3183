"""How a task begins: the publication and the slot are made, the offset is checked against them.

And what is removed from the server when its connector is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock_connector import OffsetLostError
from penstock_databases.dialect import Connection
from penstock_databases.postgres_cdc.config import PostgresCdcConfig
from penstock_databases.postgres_cdc.offsets import Position, position_of, progress_of, tables_of
from penstock_databases.postgres_cdc.progress import TableProgress
from penstock_databases.postgres_cdc.publication import drop_publication, is_made_here, published
from penstock_databases.postgres_cdc.slot import (
    check_server,
    check_slot,
    drop_slot,
    find_slot,
    make_slot,
)
from penstock_databases.postgres_cdc.tables import Tables
from penstock_databases.postgresql.connection import PostgresqlConnection

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a task begins.

    Attributes:
        position: Place in the log.
        acknowledged: What the server may forget: at least what it did forget already.
        tables: The tables.
        version: The server's.
        is_new: There was no offset: the start has to be durable before the first row (invariant 3).
    """

    position: Position
    acknowledged: int
    tables: Tables
    version: int
    is_new: bool


def try_out(config: PostgresCdcConfig) -> None:
    """Look at all that a beginning needs, and change nothing; raises what is wrong."""
    connection = PostgresqlConnection(config.target(), config.login())
    try:
        check_server(connection, config.target())
        find_slot(connection, config.slot_name)
        published(connection, config.publication_name, config.wanted)
    finally:
        connection.close()


def start(
    connection: Connection, config: PostgresCdcConfig, offset: Mapping[str, Any] | None
) -> Start:
    """Return where to begin; raises `cdc.…` when that is not possible."""
    where = config.target()
    version = check_server(connection, where)
    if offset is None:
        return _anew(connection, config, version, again=False)
    slot = find_slot(connection, config.slot_name)
    position = position_of(offset)
    try:
        slot = check_slot(slot, config.slot_name, position.lsn)
    except OffsetLostError:
        if not config.reads_when_lost:
            raise
        _log.warning("changes are lost: all tables are read again; deletes meanwhile are not known")
        if slot is not None and slot.lost:
            drop_slot(connection, config.slot_name)
        begun = _anew(connection, config, version, again=True)
        begun.tables.progress.signals = progress_of(offset).signals
        return begun
    known, progress = tables_of(offset), progress_of(offset)
    tables = Tables(config, known or (), progress)
    tables.leave_out(connection)
    tables.look(connection, version, first=True)
    if known is None:
        for table in [work.table for work in progress.work.values() if not work.begun]:
            progress.work.pop(table)  # an offset of a person: the log from there on
    if config.reads_at_every_start:
        tables.read_all(again=True)
    return Start(position, max(position.lsn, slot.confirmed), tables, version, is_new=False)


def _anew(connection: Connection, config: PostgresCdcConfig, version: int, *, again: bool) -> Start:
    """Begin without an offset. The publication is made first: the log before it knows none."""
    tables = Tables(config, (), TableProgress())
    tables.look(connection, version, first=True, new=True)
    tables.check_keys(connection)  # the log from the slot on would not have them, mended or not
    slot = find_slot(connection, config.slot_name)
    if slot is not None:
        check_slot(slot, config.slot_name, slot.confirmed)
    else:
        slot = make_slot(connection, config.slot_name, config.target())
    if again:
        tables.read_all(again=True)
    return Start(Position(slot.confirmed), slot.confirmed, tables, version, is_new=True)


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
