"""The keys of `postgres-cdc`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from penstock_connector import CompatibilityKey, ConfigError, Pattern, key
from penstock_connector.connection import Retry
from penstock_connector.tables.names import TableId
from penstock_databases.cdc.debezium_keys import debezium_key
from penstock_databases.cdc.keys import ChangeKeys
from penstock_databases.cdc.row_adjustments import BINARIES, DECIMALS, RowAdjustments
from penstock_databases.cdc.selection import TableFilter, compiled_list
from penstock_databases.dialect import Login
from penstock_databases.url import Target, parse_url, require_target

_SLOT: Final = re.compile(r"[a-z0-9_]{1,63}")
_SYSTEM: Final = frozenset({"pg_catalog", "information_schema", "pg_toast"})
_BACKOFF_MOST_S: Final = 10.0
_TLS: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True)
class PostgresCdcConfig(ChangeKeys):
    """Where, which tables, and how they are read."""

    connection_url: str = key("", doc="JDBC URL, in place of `database.hostname` and the others.")
    connection_user: str = key("", doc="The same as `database.user`.")
    connection_password: str = key("", type="password", doc="The same as `database.password`.")
    database_hostname: str = key("", doc="Server.", importance="high")
    database_port: int = key(5432, doc="Its port.")
    database_user: str = key(
        "", doc="User; it needs REPLICATION, and SELECT on the tables.", importance="high"
    )
    database_password: str = key("", type="password", doc="Its password.", importance="high")
    database_dbname: str = key("", doc="Database.", importance="high")
    database_sslmode: str = key("prefer", choices=_TLS, doc="TLS with the server.")
    database_sslrootcert: str = key(
        "", type="file", doc="File with the authorities that are trusted."
    )
    database_sslcert: str = key("", type="file", doc="File with the client's certificate.")
    database_sslkey: str = key("", type="file", doc="File with its key.")
    plugin_name: Literal["pgoutput"] = key("pgoutput", doc="Only `pgoutput` is there.")
    slot_name: str = key("penstock", doc="Replication slot; made when missing.")
    slot_drop_on_stop: bool = key(
        False, doc="Drop the slot when the task ends: what changes meanwhile is lost."
    )
    slot_drop_on_delete: bool = key(
        True, doc="Drop the slot, and a publication made here, when the connector is deleted."
    )
    publication_name: str = key("penstock", doc="Publication; see `publication.autocreate.mode`.")
    publication_autocreate_mode: Literal["filtered", "all_tables", "disabled"] = key(
        "filtered",
        doc="A missing publication: `filtered` makes it for the tables that are wanted, and adds "
        "those that come later; `all_tables` for all; `disabled` is an error.",
    )
    schema_include_list: tuple[str, ...] = key((), doc="Patterns of schemas; none: all.")
    schema_exclude_list: tuple[str, ...] = key((), doc="Patterns of schemas that are left out.")
    table_include_list: tuple[str, ...] = key(
        (), doc="Patterns of `schema.table`; none: all.", importance="high"
    )
    table_exclude_list: tuple[str, ...] = key(
        (), doc="Patterns of `schema.table` that are left out."
    )
    column_exclude_list: tuple[str, ...] = key(
        (), doc="Patterns of `schema.table.column` that are left out."
    )
    column_include_list: tuple[str, ...] = key(
        (), doc="Patterns of `schema.table.column`; none: all. Keys are always given."
    )
    decimal_handling_mode: str = key(
        "precise", choices=DECIMALS, doc="Decimals as decimals, texts, or floating-point numbers."
    )
    binary_handling_mode: str = key(
        "bytes", choices=BINARIES, doc="Bytes as they are, or as texts."
    )
    replica_identity_missing: Literal["fail", "warn"] = key(
        "fail",
        doc="Tables without primary key that a publication would make refuse updates and deletes.",
    )
    snapshot_fetch_size: int = key(20_000, doc="Rows of a chunk of the snapshot.")
    snapshot_parallelism: int = key(2, doc="Chunks that are read at once.")
    toast_missing: Literal["fail", "null"] = key(
        "fail",
        doc="Large values that an update left as they were, and the log does not have: an error, "
        "or null and a header `penstock.missing` that names the columns.",
    )
    heartbeat_interval_ms: float = key(
        10.0,
        type="duration",
        doc="How often the offset moves while nothing changes here; 0: never.",
    )
    table_poll_interval_ms: float = key(
        10.0, type="duration", doc="How often new tables are looked for; 0: never."
    )
    max_batch_size: int = key(20_000, doc="Changes after which the next commit ends a batch.")
    max_batch_bytes: int = key(8 << 20, type="size", doc="The same in bytes of the log.")
    connection_attempts: int = key(10, doc="Times that a lost connection is opened again.")
    connection_backoff_ms: float = key(
        1.0, type="duration", doc="Time before the second attempt; it doubles, up to 10 s."
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of Debezium."""
        return debezium_key(name, value)

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        if not _SLOT.fullmatch(self.slot_name):
            raise _bad("slot.name", "slots are named with a-z, 0-9 and _, at most 63")
        if self.snapshot_fetch_size < 1 or self.max_batch_size < 1 or self.connection_attempts < 1:
            raise ConfigError("config.invalid_value", "sizes and attempts are at least 1")
        if not 1 <= self.snapshot_parallelism <= 64:
            raise _bad("snapshot.parallelism", "must be between 1 and 64")
        target = self.target()
        if not target.database:
            raise _bad("database.dbname", "it names no database")
        self.check_changes()
        self.chosen  # noqa: B018 - raises for what is no regex
        self.hidden()
        self.adjustments  # noqa: B018 - raises for what is no pattern

    def require_reach(self) -> None:
        """Refuse a server that may not be reached."""
        path = "connection.url" if self.connection_url else "database.hostname"
        require_target(self.target(), self.reach, path)
        self.require_signal_reach()

    def target(self) -> Target:
        """Return where the database is."""
        if self.connection_url:
            target = parse_url(self.connection_url)
            if target.dialect != "postgresql":
                raise _bad("connection.url", "this is no URL of PostgreSQL")
            return target
        if not self.database_hostname:
            raise ConfigError(
                "config.missing",
                "there is neither `database.hostname` nor `connection.url`",
                fix="Set one of them.",
                config_path="database.hostname",
            )
        mode = "prefer" if self.database_sslmode == "allow" else self.database_sslmode
        return Target(
            "postgresql",
            ((self.database_hostname, self.database_port),),
            self.database_dbname,
            tls=mode,
            ca=self.database_sslrootcert,
            certificate=self.database_sslcert,
            certificate_key=self.database_sslkey,
        )

    def login(self) -> Login:
        """Return who connects."""
        return Login(
            self.database_user or self.connection_user,
            self.database_password or self.connection_password,
        )

    def wanted(self, table: TableId) -> bool:
        """Return whether a table is to be followed."""
        return self.chosen.includes(table.schema, table.name)

    def published(self, table: TableId) -> bool:
        """Return whether a table has to be in the publication: followed, or one of signals."""
        return self.wanted(table) or str(table) == self.signals_table

    def hidden(self) -> tuple[Pattern, ...]:
        """Return the patterns of columns that are left out."""
        return compiled_list("column.exclude.list", self.column_exclude_list)

    @cached_property
    def adjustments(self) -> RowAdjustments:
        """What is changed of the rows on their way out."""
        return RowAdjustments(
            self.topic_prefix,
            self.operations_skipped,
            compiled_list("column.include.list", self.column_include_list),
            decimals=self.decimal_handling_mode,
            binaries=self.binary_handling_mode,
            times=self.times,
        )

    @cached_property
    def chosen(self) -> TableFilter:
        """Which tables are meant."""
        lists = {
            "schema.include.list": self.schema_include_list,
            "schema.exclude.list": self.schema_exclude_list,
            "table.include.list": self.table_include_list,
            "table.exclude.list": self.table_exclude_list,
        }
        return TableFilter.of(lists, "schema", _SYSTEM)

    @property
    def retry(self) -> Retry:
        """When a connection that was lost is opened again."""
        return Retry(self.connection_attempts, self.connection_backoff_ms, _BACKOFF_MOST_S)


def _bad(path: str, why: str) -> ConfigError:
    return ConfigError("config.invalid_value", f"{path!r}: {why}", config_path=path)
