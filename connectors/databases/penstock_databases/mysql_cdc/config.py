"""The configuration of `mysql-cdc`: Debezium's keys where it has one, the URL's beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from penstock_connector import CompatibilityKey, ConfigError, ConnectorError, key
from penstock_connector.connection import Retry
from penstock_databases.cdc.debezium_keys import debezium_key
from penstock_databases.cdc.keys import ChangeKeys
from penstock_databases.cdc.row_adjustments import BINARIES, DECIMALS, RowAdjustments
from penstock_databases.cdc.selection import Lists, TableFilter, compiled_list
from penstock_databases.dialect import Login
from penstock_databases.url import Target, parse_url, require_target

_TLS: Final = {
    "disabled": "disable", "preferred": "prefer", "required": "require",
    "verify_ca": "verify-ca", "verify_identity": "verify-full",
}  # fmt: skip
_PORT: Final = 3306
_DIGITS: Final = 0
"""Digits of fractions of seconds where a column does not say how many."""
_SYSTEM: Final = frozenset({"mysql", "information_schema", "performance_schema", "sys"})


@dataclass(frozen=True)
class MysqlCdcConfig(ChangeKeys):
    """Which server and tables are read, and how."""

    names_ignore_case: ClassVar[bool] = True

    connection_url: str = key("", doc="jdbc:mariadb://host:port/, instead of database.hostname.")
    connection_user: str = key("", doc="User; or database.user.")
    connection_password: str = key("", doc="Its password.", type="password")
    connection_attempts: int = key(3, doc="Attempts to connect before the host gets an error.")
    connection_backoff_ms: float = key(1.0, type="duration", doc="Time between two attempts.")
    database_hostname: str = key("", doc="The server.", importance="high")
    database_port: int = key(_PORT, doc="Its port.")
    database_user: str = key(
        "", doc="User; needs SELECT, REPLICATION SLAVE, REPLICATION CLIENT.", importance="high"
    )
    database_password: str = key("", doc="Its password.", type="password", importance="high")
    database_ssl_mode: str = key("preferred", doc="TLS.", choices=tuple(_TLS))
    database_server_id: int = key(
        0, doc="Number that no other replica of the server has; 0 draws one of 2^31 and above."
    )
    database_include_list: tuple[str, ...] = key((), doc="Regexes of databases; empty: all.")
    database_exclude_list: tuple[str, ...] = key((), doc="Regexes of databases left out.")
    table_include_list: tuple[str, ...] = key(
        (), doc="Regexes of database.table; empty: all.", importance="high"
    )
    table_exclude_list: tuple[str, ...] = key((), doc="Regexes of database.table left out.")
    column_include_list: tuple[str, ...] = key(
        (), doc="Regexes of database.table.column; empty: all. Keys are always given."
    )
    column_exclude_list: tuple[str, ...] = key((), doc="Regexes of database.table.column left out.")
    decimal_handling_mode: str = key(
        "precise", choices=DECIMALS, doc="Decimals as decimals, texts, or floating-point numbers."
    )
    binary_handling_mode: str = key(
        "bytes", choices=BINARIES, doc="Bytes as they are, or as texts."
    )
    snapshot_fetch_size: int = key(50_000, doc="Rows of a chunk of the snapshot.")
    snapshot_parallelism: int = key(2, doc="Chunks that are read at once.")
    heartbeat_interval_ms: float = key(
        10.0, type="duration", doc="How often the offset moves while no table of ours changes."
    )
    include_schema_changes: bool = key(
        False, doc="Give statements that change tables as rows of a dataset of their own."
    )
    include_before: bool = key(True, doc="Give the row before a change in the column __before.")
    offset_lost: str = key(
        "fail",
        doc="When the log was purged before it was read: fail, or read all tables again.",
        choices=("fail", "snapshot"),
    )
    zero_dates: str = key(
        "",
        doc="What dates of zeros become: null, 0001-01-01, or an error; empty: as in the URL.",
        choices=("", "null", "round", "fail"),
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of Debezium."""
        return debezium_key(name, value)

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if bool(self.connection_url) == bool(self.database_hostname):
            raise ConfigError(
                "config.missing",
                "the server must be named once",
                fix="Set `database.hostname`, or `connection.url`.",
                config_path="database.hostname",
            )
        for name, value, most in (
            ("snapshot.fetch.size", self.snapshot_fetch_size, 10_000_000),
            ("snapshot.parallelism", self.snapshot_parallelism, 64),
            ("connection.attempts", self.connection_attempts, 10_000),
            ("database.port", self.database_port, 65_535),
        ):
            if not 1 <= value <= most:
                raise _invalid(name, f"must be between 1 and {most}")
        if not 0 <= self.database_server_id < 1 << 32:
            raise _invalid("database.server.id", "must be between 1 and 4294967295")
        self.check_changes()
        self.chosen  # noqa: B018 - raises for what is no regex
        self.adjustments  # noqa: B018 - as above
        self.target  # noqa: B018 - raises for what is no URL

    def require_reach(self) -> None:
        """Refuse a server that may not be reached."""
        path = "connection.url" if self.connection_url else "database.hostname"
        require_target(self.target, self.reach, path)
        self.require_signal_reach()

    @property
    def target(self) -> Target:
        """Where the server is."""
        if self.connection_url:
            target = parse_url(self.connection_url)
            if target.dialect != "mysql":
                raise _invalid("connection.url", "is of another kind of database")
        else:
            hosts = ((self.database_hostname, self.database_port),)
            target = Target("mysql", hosts, tls=_TLS[self.database_ssl_mode])
        return replace(target, zero_dates=self.zero_dates or target.zero_dates)

    @property
    def login(self) -> Login:
        """Who connects."""
        return Login(
            self.connection_user or self.database_user,
            self.connection_password or self.database_password,
        )

    @property
    def retry(self) -> Retry:
        """When a connection that failed is opened again."""
        return Retry(self.connection_attempts, self.connection_backoff_ms)

    @property
    def lists(self) -> Lists:
        """The lists that say which tables are meant, by their keys; only those that are set."""
        lists = {
            "database.include.list": self.database_include_list,
            "database.exclude.list": self.database_exclude_list,
            "table.include.list": self.table_include_list,
            "table.exclude.list": self.table_exclude_list,
        }
        return {name: list(patterns) for name, patterns in lists.items() if patterns}

    @property
    def adjustments(self) -> RowAdjustments:
        """What is changed of the rows on their way out."""
        return RowAdjustments(
            self.topic_prefix,
            self.operations_skipped,
            compiled_list("column.include.list", self.column_include_list, ignore_case=True),
            compiled_list("column.exclude.list", self.column_exclude_list, ignore_case=True),
            self.decimal_handling_mode,
            self.binary_handling_mode,
            # a TIME may be longer than a day, and milliseconds of it have no place in 32 bits
            "adaptive_time_microseconds" if self.times == "adaptive" else self.times,
            _DIGITS,
        )

    @property
    def chosen(self) -> TableFilter:
        """Which tables are meant."""
        return table_filter(self.lists)

    def dataset(self, database: str, table: str) -> str:
        """Return the dataset of a table's rows."""
        return ".".join(filter(None, (self.topic_prefix, database, table)))

    @property
    def starts_anew(self) -> bool:
        """Whether a log that is gone means to read all tables again."""
        return self.offset_lost == "snapshot" or self.reads_when_lost


def table_filter(lists: Lists) -> TableFilter:
    """Return which tables lists mean. The databases of the system itself never are."""
    return TableFilter.of(lists, "database", _SYSTEM, ignore_case=True)


def _invalid(name: str, what: str) -> ConnectorError:
    return ConfigError("config.invalid_value", f"{name!r} {what}", config_path=name)
