"""The keys of `databend-sink`: those of Databend's connector for Kafka Connect, with their
meanings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock_connector import ConfigError, ConnectorError, key
from penstock_connector.reach import Reaching
from penstock_databases.databend_sink.sql import NAMING
from penstock_databases.databend_sink.url import parse_url


@dataclass(frozen=True)
class DatabendSinkConfig(Reaching):
    """Where the tables are, and how rows are written."""

    connection_url: str = key(
        doc="jdbc:databend://host:8000/database, or databend+local:///folder for an engine of our "
        "own on a folder.",
        required=True,
        group="Connection",
    )
    connection_user: str = key("", doc="User of the database.", group="Connection")
    connection_password: str = key(
        "", doc="Password of the user.", type="password", group="Connection"
    )
    connection_database: str = key(
        "",
        doc="Database of tables whose name has none, and of the commit rows; that of the URL, or "
        "`default`, when empty.",
        group="Connection",
    )
    connection_attempts: int = key(3, doc="Most attempts to connect.", group="Connection")
    connection_backoff_ms: float = key(
        10.0,
        doc="Time between attempts to connect; all together take 20 s at most.",
        type="duration",
        group="Connection",
    )
    insert_mode: str = key(
        "insert",
        doc="`insert` appends, `upsert` replaces the columns of the row with the same key.",
        choices=("insert", "upsert"),
        group="Writes",
        importance="high",
    )
    batch_size: int = key(
        0,
        doc="Passed over: all rows of a transaction are one statement. `flush.rows` and "
        "`flush.interval` say how many come together.",
        group="Writes",
        importance="low",
    )
    delete_enabled: bool = key(
        False,
        doc="Delete the rows whose deletion arrives, and empty a table that was truncated. Needs a "
        "`pk.mode` that finds rows.",
        group="Writes",
    )
    pk_mode: str = key(
        "none",
        doc="Where a row's key comes from: `none`, `record_key` (the key of the record), "
        "`record_value` (fields of the row).",
        choices=("none", "record_key", "record_value"),
        group="Data mapping",
        importance="high",
    )
    pk_fields: tuple[str, ...] = key(
        (),
        doc="Fields of the key. `record_key`: all of its fields when empty, and the name of the "
        "column when the key is a single value; `record_value`: all fields when empty.",
        group="Data mapping",
    )
    fields_whitelist: tuple[str, ...] = key(
        (),
        doc="Fields of a row that are written, beside the key; all when empty.",
        group="Data mapping",
    )
    table_name_format: str = key(
        "${topic}",
        doc="The table: ${topic} is the rows' topic, split into database and table at its dots "
        'unless it stands in quotes ("${topic}"); ${table} is what follows its last dot.',
        group="Data mapping",
    )
    auto_create: bool = key(False, doc="Make a table that is missing.", group="DDL")
    auto_evolve: bool = key(False, doc="Add columns that are missing.", group="DDL")
    max_retries: int = key(10, doc="Most attempts to write a transaction again.", group="Retries")
    retry_backoff_ms: float = key(
        3.0, doc="Longest time between these attempts.", type="duration", group="Retries"
    )

    def require_reach(self) -> None:
        """Refuse a server or a folder that may not be reached."""
        if not self.reach.everything:
            _require(self)


def _require(config: DatabendSinkConfig) -> None:
    target, reach = parse_url(config.connection_url), config.reach
    if target.folder:
        reach.require_path(target.folder, "connection.url")
    else:
        reach.require_host(target.host, "connection.url")
    reach.require_path(target.ca, "connection.url")


def database_of(config: DatabendSinkConfig) -> str:
    """Return the database of tables whose name has none."""
    return config.connection_database or parse_url(config.connection_url).database or "default"


def problems(config: DatabendSinkConfig) -> Iterator[ConnectorError]:
    """Yield what is wrong with values that have the right type. Pure."""
    yield from _place_problems(config)
    if config.insert_mode == "upsert" and config.pk_mode == "none":
        yield _wrong(
            "databend.pk_mode",
            "`insert.mode=upsert` has to know by which key a row is found",
            "Set `pk.mode` to record_key or record_value.",
            "pk.mode",
        )
    if config.delete_enabled and config.pk_mode == "none":
        yield _wrong(
            "databend.delete_needs_key",
            "`delete.enabled` cannot find rows with `pk.mode=none`",
            "Set `pk.mode` to record_key.",
            "delete.enabled",
        )
    if config.connection_attempts < 1 or config.max_retries < 0:
        yield _wrong(
            "databend.negative",
            "`connection.attempts` is at least 1, `max.retries` at least 0",
            "Correct the number.",
            "max.retries",
        )


def _place_problems(config: DatabendSinkConfig) -> Iterator[ConnectorError]:
    try:
        target = parse_url(config.connection_url)
        NAMING.quoted(database_of(config))
        NAMING.parts(config.table_name_format)
    except ConfigError as error:
        yield error
        return
    if target.database and config.connection_database not in {"", target.database}:
        yield _wrong(
            "databend.two_databases",
            f"the URL names the database {target.database!r}, `connection.database` another",
            "Leave one of them out.",
            "connection.database",
        )
    if target.folder and (config.connection_user or config.connection_password):
        yield _wrong(
            "databend.no_login",
            "a folder has no users and no passwords",
            "Leave `connection.user` and `connection.password` out.",
            "connection.user",
        )


def _wrong(code: str, message: str, fix: str, path: str) -> ConfigError:
    return ConfigError(code, message, fix=fix, config_path=path)
