"""The keys of `jdbc-sink`: those of Kafka Connect's JDBC sinks, with their meanings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

from penstock_connector import ConfigError, ConnectorError, key
from penstock_connector.reach import Reaching
from penstock_databases.url import parse_url, require_target

COORDINATES: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
"""Columns of `pk.mode=kafka` when `pk.fields` names no others."""

_DIALECTS: Final = {
    "mysql": "mysql", "mariadb": "mysql", "mysqldatabasedialect": "mysql",
    "mariadbdatabasedialect": "mysql", "postgresql": "postgresql",
    "postgresqldatabasedialect": "postgresql", "sqlite": "sqlite",
    "sqlitedatabasedialect": "sqlite",
}  # fmt: skip
"""What `dialect.name` may be, in lower case → our name."""


@dataclass(frozen=True)
class JdbcSinkConfig(Reaching):
    """Where the tables are, and how rows are written."""

    connection_url: str = key(
        doc="jdbc:postgresql://host:5432/database, jdbc:mysql://…, jdbc:mariadb://…, or "
        "jdbc:sqlite:/file.",
        required=True,
        group="Connection",
    )
    connection_user: str = key("", doc="User of the database.", group="Connection")
    connection_password: str = key(
        "", doc="Password of the user.", type="password", group="Connection"
    )
    connection_attempts: int = key(3, doc="Most attempts to connect.", group="Connection")
    connection_backoff_ms: float = key(
        10.0, doc="Time between attempts to connect.", type="duration", group="Connection"
    )
    dialect_name: str = key(
        "",
        doc="The kind of database, when it should be checked against the URL.",
        group="Connection",
    )
    insert_mode: str = key(
        "insert",
        doc="`insert` fails when a row is there already, `upsert` replaces its columns, `update` "
        "changes only rows that are there.",
        choices=("insert", "upsert", "update", "multi"),
        group="Writes",
        importance="high",
    )
    batch_size: int = key(
        100_000,
        doc="Rows of a statement, about: what arrives together is not split. 0: no limit.",
        group="Writes",
    )
    delete_enabled: bool = key(
        False,
        doc="Delete the rows whose deletion arrives, and empty a table that was truncated. Needs a "
        "`pk.mode` that finds rows: `record_key` or `record_value`.",
        group="Writes",
    )
    handle_tombstone: bool = key(
        False, doc="Without `delete.enabled`: pass deletions over.", group="Writes"
    )
    pk_mode: str = key(
        "none",
        doc="Where the primary key comes from: `none`, `record_key` (the key of the record), "
        "`record_value` (fields of the row), `kafka` (topic, partition and offset).",
        choices=("none", "kafka", "record_key", "record_value"),
        group="Data mapping",
        importance="high",
    )
    pk_fields: list[str] = key(  # noqa: RUF009 - `key` makes a field with a factory
        [],
        doc="Fields of the key. `record_key`: all of its fields when empty, and the name of the "
        "column when the key is a single value; `record_value`: all fields when empty; `kafka`: "
        "names of the three columns.",
        group="Data mapping",
    )
    fields_whitelist: list[str] = key(  # noqa: RUF009 - as above
        [],
        doc="Fields of a row that are written, beside the key; all when empty.",
        group="Data mapping",
    )
    table_name_format: str = key(
        "${topic}",
        doc="The table: ${topic} is the rows' topic, split into schema and table at its dots "
        'unless it stands in quotes ("${topic}"); ${table} is what follows its last dot.',
        group="Data mapping",
    )
    table_name_normalize: bool = key(
        False, doc="Replace all but letters, digits and _ by _ in ${topic}.", group="Data mapping"
    )
    table_types: list[str] = key(  # noqa: RUF009 - as above
        ["TABLE"],
        doc="What may be written to: TABLE, PARTITIONED TABLE, VIEW.",
        group="Data mapping",
    )
    quote_sql_identifiers: str = key(
        "always",
        doc="`never`: simple names are in the case that the database gives unquoted ones. They are "
        "quoted either way.",
        choices=("always", "never"),
        group="Data mapping",
    )
    db_timezone: str = key(
        "UTC",
        doc="Where the wall clock stands of columns that have no time zone.",
        group="Data mapping",
    )
    text_nul: str = key(
        "refuse",
        doc="Texts with the character U+0000, which PostgreSQL has not: refuse their rows, or "
        "remove the character.",
        choices=("refuse", "remove"),
        group="Tables",
    )
    auto_create: bool = key(False, doc="Make a table that is missing.", group="DDL")
    auto_evolve: bool = key(False, doc="Add columns that are missing.", group="DDL")
    max_retries: int = key(10, doc="Most attempts to write a transaction again.", group="Retries")
    retry_backoff_ms: float = key(
        3.0, doc="Time between attempts.", type="duration", group="Retries"
    )
    staging_bytes: int = key(
        128 << 20,
        doc="Bytes of rows kept in memory until they are written; more go to a file.",
        type="size",
        group="Writes",
        importance="low",
    )

    def require_reach(self) -> None:
        """Refuse a database that may not be reached."""
        if not self.reach.everything:
            require_target(parse_url(self.connection_url), self.reach, "connection.url")

    @property
    def verb(self) -> str:
        """How rows are written; `multi` is Aiven's word for a way of inserting."""
        return "insert" if self.insert_mode == "multi" else self.insert_mode


def problems(config: JdbcSinkConfig) -> Iterator[ConnectorError]:
    """Yield what is wrong with values that have the right type. Pure."""
    try:
        target = parse_url(config.connection_url)
    except ConfigError as error:
        yield error
    else:
        wanted = _DIALECTS.get(config.dialect_name.lower())
        if config.dialect_name and wanted != target.dialect:
            yield _wrong(
                "jdbc.dialect",
                f"the URL is one of {target.dialect}, not of {config.dialect_name!r}",
                "Leave `dialect.name` out: the URL says what it is.",
                "dialect.name",
            )
    yield from _key_problems(config)
    if config.connection_attempts < 1 or config.batch_size < 0 or config.max_retries < 0:
        yield _wrong(
            "jdbc.negative",
            "`connection.attempts` is at least 1, `batch.size` and `max.retries` at least 0",
            "Correct the number.",
            "batch.size",
        )
    try:
        ZoneInfo(config.db_timezone)
    except (OSError, ValueError, KeyError):
        yield _wrong(
            "jdbc.timezone",
            f"there is no time zone {config.db_timezone!r}",
            "Write a name like Europe/Berlin, or UTC.",
            "db.timezone",
        )


def _key_problems(config: JdbcSinkConfig) -> Iterator[ConnectorError]:
    if config.verb != "insert" and config.pk_mode == "none":
        yield _wrong(
            "jdbc.pk_mode",
            f"`insert.mode={config.insert_mode}` has to know by which key a row is found",
            "Set `pk.mode` to record_key or record_value.",
            "pk.mode",
        )
    if config.delete_enabled and config.pk_mode not in {"record_key", "record_value"}:
        yield _wrong(
            "jdbc.delete_needs_key",
            f"`delete.enabled` cannot find rows with `pk.mode={config.pk_mode}`",
            "Set `pk.mode` to record_key.",
            "delete.enabled",
        )
    if config.pk_mode == "kafka" and len(config.pk_fields) not in {0, len(COORDINATES)}:
        yield _wrong(
            "jdbc.pk_fields",
            "`pk.mode=kafka` has three columns: topic, partition and offset",
            "Name three columns in `pk.fields`, or none.",
            "pk.fields",
        )


def _wrong(code: str, message: str, fix: str, path: str) -> ConfigError:
    return ConfigError(code, message, fix=fix, config_path=path)
