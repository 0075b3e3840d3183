"""The table of signals: the statement that makes it, and rows that users add by the REST API or the
CLI. A row is in the log, so it is obeyed once, in its order among the changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock_connector import ConfigError
from penstock_connector.tables.names import Naming
from penstock_databases.cdc.signal_keys import SOURCE, SignalKeys
from penstock_databases.cdc.signals import read_signal
from penstock_databases.dialect import Connection
from penstock_databases.failing import RefusedRowError

_UNIQUE = frozenset({"unique key", "primary key"})


def creation_of(table: str) -> str:
    """Return the statement that makes a table of signals."""
    return f"CREATE TABLE {table} (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32), data TEXT)"


def signal_table(config: SignalKeys, example: str) -> str:
    """Return the full name of the table that signals are written to.

    Args:
        config: The keys of signals.
        example: A full name, for the message.

    Raises:
        ConfigError: `cdc.signal_table`: there is none.
    """
    if config.signals_table:
        return config.signals_table
    why, fix = "`signal.data.collection` names none", ""
    if config.signal_data_collection:
        why = "`signal.enabled.channels` does not name `source`"
        fix = f"Add `{SOURCE}` to `signal.enabled.channels`."
    raise ConfigError(
        "cdc.signal_table",
        f"a signal is not sent: it would be a row of the table of signals, and {why}",
        fix=fix or f"Run {creation_of(example)}; and set signal.data.collection={example}.",
        config_path="signal.enabled.channels" if fix else "signal.data.collection",
    )


def insert_signal(
    connection: Connection, naming: Naming, table: str, signal: Mapping[str, Any]
) -> None:
    """Write a signal; one whose id is there already is not written again.

    Args:
        connection: A session with the server.
        naming: How it quotes names.
        table: The full name of the table, as `database.table` or `schema.table`.
        signal: `id`, `type`, and `data` as an object.

    Raises:
        ConfigError: `cdc.signal`: it would not be obeyed.
        ConnectorError: `sql.…`: the table is not there, or takes no row of this user.
    """
    read_signal(signal)
    outer, _, name = table.partition(".")
    columns = ", ".join(map(naming.quoted, ("id", "type", "data")))
    sql = f"INSERT INTO {naming.dotted(outer, name)} ({columns}) VALUES (%s, %s, %s)"  # noqa: S608
    data = json.dumps(signal["data"], ensure_ascii=False) if signal["data"] else ""
    try:
        connection.execute(sql, (signal["id"], signal["type"], data))
    except RefusedRowError as error:
        if error.rule is None or error.rule.kind not in _UNIQUE:
            raise
