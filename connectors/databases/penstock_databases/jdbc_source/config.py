"""The keys of `jdbc-source`: Kafka Connect's, with its meanings, and a few of its own."""

from __future__ import annotations

import dataclasses
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock_connector import ConfigError, Pattern, key
from penstock_connector.connection import ConnectionKeys
from penstock_databases.dialect import Dialect, Login
from penstock_databases.dialects import DIALECTS
from penstock_databases.java.url import any_url
from penstock_databases.jdbc_source.table_modes import TableMode, parse_table_modes
from penstock_databases.url import Target, require_target

_POLL = 0.05
"""Seconds between two polls of a quiet table. Shorter costs both ends CPU (about 0.2 ms a poll),
longer is latency: a row waits half of it on average. Tables take at most a tenth of the time."""

_POLL_BULK = 5.0
"""The same for whole tables, as Kafka Connect has it."""

_DIALECT_NAMES = {
    "": "",
    "MySqlDatabaseDialect": "mysql",
    "MariaDbDatabaseDialect": "mysql",
    "PostgreSqlDatabaseDialect": "postgresql",
    "SqliteDatabaseDialect": "sqlite",
}


@dataclass(frozen=True)
class JdbcSourceConfig(ConnectionKeys):
    """Which database, which rows of it, how often."""

    connection_url: str = key(
        doc="JDBC URL without credentials: MySQL, MariaDB, PostgreSQL, SQLite, any with a driver.",
        required=True,
        group="Connection",
    )
    dialect_name: str = key(
        "", doc="Kind of database, when the URL does not decide it.", choices=tuple(_DIALECT_NAMES)
    )
    mode: str = key(
        doc="How new rows are found: all of them each time, by a growing column, by a time.",
        required=True,
        choices=("bulk", "incrementing", "timestamp", "timestamp+incrementing"),
        group="Mode",
    )
    table_modes: tuple[str, ...] = key(
        (),
        doc="Tables with a mode of their own: `PATTERN=MODE`, as `shop.countries=bulk` or "
        "`shop.logs=timestamp(written_at)`. The first pattern that fits counts.",
        group="Mode",
    )
    incrementing_column_name: str = key(
        "", doc="The growing column. Empty: the one that the database numbers.", group="Mode"
    )
    timestamp_column_name: tuple[str, ...] = key(
        (), doc="Columns of the time; the first that is not null counts.", group="Mode"
    )
    validate_non_null: bool = key(
        True, doc="Refuse tables whose growing column, or all times, can be null.", group="Mode"
    )
    timestamp_initial: int | None = key(
        doc="Milliseconds since 1970 where a first read begins; -1: now; empty: all rows.",
        group="Mode",
    )
    timestamp_initial_ms: int | None = key(doc="The same, Aiven's name.", group="Mode")
    timestamp_delay_interval_ms: float = key(
        0.0, doc="Rows younger than this are not read yet.", type="duration", group="Mode"
    )
    timestamp_late_ms: float = key(
        10.0,
        doc="How much later than its time a row may become visible and is still found.",
        type="duration",
        group="Mode",
    )
    gap_wait_ms: float = key(
        60.0,
        doc="How long a gap in the growing column is looked at again: a transaction may fill it.",
        type="duration",
        group="Mode",
    )
    poll_interval_ms: float | None = key(
        doc="Time between two polls of a table: 50 ms, and 5 s for `bulk`.", type="duration"
    )
    table_poll_interval_ms: float = key(
        60.0, doc="Time between two looks for new and dropped tables.", type="duration"
    )
    batch_max_rows: int = key(50_000, doc="Most rows of a batch.")
    read_parallelism: int = key(2, doc="Connections of a large first load by a whole number.")
    table_whitelist: tuple[str, ...] = key((), doc="Tables to read: `table`, `database.table`.")
    table_blacklist: tuple[str, ...] = key((), doc="Tables not to read.")
    table_include_list: tuple[str, ...] = key(
        (), doc="Patterns of `database.table` (`schema.table` in PostgreSQL) to read."
    )
    table_exclude_list: tuple[str, ...] = key((), doc="Patterns not to read.")
    table_types: tuple[str, ...] = key(("TABLE",), doc="Kinds of tables: TABLE, VIEW, …")
    schema_pattern: str | None = key(doc="Pattern (%, _) of schemas that are looked in.")
    catalog_pattern: str | None = key(doc="Pattern (%, _) of databases that are looked in.")
    query: str = key("", doc="Rows of this query instead of tables.")
    query_suffix: str = key("", doc="What ends every statement that reads rows.")
    topic_prefix: str = key("", doc="Begins the dataset's name; with `query` it is all of it.")
    numeric_mapping: str = key(
        "none",
        doc="Decimals become whole numbers or floats where they fit.",
        choices=("none", "precision_only", "best_fit", "best_fit_eager_double"),
    )
    numeric_precision_mapping: bool = key(False, doc="Old name of `precision_only`.")
    db_timezone: str = key(
        "", doc="Zone of times that have none; they become points in time. Empty: they stay."
    )
    quote_sql_identifiers: str = key(
        "always",
        doc="Names are always quoted; `never` is taken for it.",
        choices=("always", "never"),
    )
    odd_values: str = key(
        "",
        doc="What becomes of a value that rows cannot hold (infinity, year 0). Empty: fail; "
        "in MySQL `zeroDateTimeBehavior` of the URL.",
        choices=("", "fail", "null", "round"),
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        target = any_url(self.connection_url)
        wanted = _DIALECT_NAMES[self.dialect_name]
        if wanted not in {"", target.dialect}:
            raise _invalid("dialect.name", f"the URL is one of {target.dialect}")
        if self.table_whitelist and self.table_blacklist:
            raise _invalid("table.blacklist", "there is a whitelist, too: only one of them counts")
        if self.query and (self.table_whitelist or self.table_blacklist):
            raise _invalid("query", "with a query, no tables can be named")
        if self.query and self.table_modes:
            raise _invalid("table.modes", "with a query, no tables can be named")
        for mode in (self.mode, *(one.mode for one in self.modes if not one.timestamp_columns)):
            if "timestamp" in mode and not self.timestamp_column_name:
                raise _invalid("timestamp.column.name", f"mode {mode} needs it")
        if min(self.batch_max_rows, self.read_parallelism, self.connection_attempts) < 1:
            raise _invalid("batch.max.rows", "counts begin at 1")
        self.included, self.excluded  # noqa: B018 - raise for what is no pattern
        _check_zone(self.db_timezone)

    def require_reach(self) -> None:
        """Refuse a database that may not be reached."""
        require_target(self.target, self.reach, "connection.url")

    @property
    def included(self) -> tuple[Pattern, ...]:
        """Patterns of tables that are read; none: all."""
        return _compiled("table.include.list", self.table_include_list)

    @property
    def excluded(self) -> tuple[Pattern, ...]:
        """Patterns of tables that are left out."""
        return _compiled("table.exclude.list", self.table_exclude_list)

    @property
    def modes(self) -> tuple[TableMode, ...]:
        """Modes of single tables."""
        return parse_table_modes(self.table_modes)

    def in_mode(self, mode: TableMode) -> JdbcSourceConfig:
        """Return the configuration with the mode of a table."""
        return dataclasses.replace(
            self,
            mode=mode.mode,
            table_modes=(),
            timestamp_column_name=mode.timestamp_columns or self.timestamp_column_name,
            incrementing_column_name=mode.incrementing_column or self.incrementing_column_name,
        )

    @property
    def target(self) -> Target:
        """Where the database is."""
        target = any_url(self.connection_url)
        odd = self.odd_values or (target.zero_dates if target.dialect == "mysql" else "fail")
        return dataclasses.replace(target, zero_dates=odd)

    @property
    def login(self) -> Login:
        """Who connects."""
        return Login(self.connection_user, self.connection_password)

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""
        return DIALECTS[self.target.dialect]

    @property
    def poll_every(self) -> float:
        """Seconds between two polls of a table."""
        if self.poll_interval_ms is not None:
            return self.poll_interval_ms
        return _POLL_BULK if self.mode == "bulk" else _POLL

    def initial(self, now: datetime) -> datetime | None:
        """Return the time, in UTC, from which on a first read takes rows; None: all."""
        given = self.timestamp_initial
        given = self.timestamp_initial_ms if given is None else given
        if given == -1:
            return now
        return (
            None
            if given is None
            else datetime.fromtimestamp(given / 1000, UTC).replace(tzinfo=None)
        )


def _compiled(path: str, patterns: tuple[str, ...]) -> tuple[Pattern, ...]:
    return tuple(Pattern.compile(pattern, path) for pattern in patterns)  # `regex` remembers them


def _check_zone(name: str) -> None:
    try:
        zoneinfo.ZoneInfo(name or "UTC")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise _invalid("db.timezone", f"there is no zone {name!r}") from error


def _invalid(path: str, message: str) -> ConfigError:
    return ConfigError(
        "config.invalid_value", f"`{path}`: {message}", fix=f"Correct `{path}`.", config_path=path
    )
