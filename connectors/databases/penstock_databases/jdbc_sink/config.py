"""The keys of `jdbc-sink`: those of Kafka Connect's JDBC sinks, with their meanings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final
from zoneinfo import ZoneInfo

from penstock_connector import ConfigError, ConnectorError, key
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.config import TableKeys
from penstock_connector.tables.names import Naming, table_parts
from penstock_databases.url import parse_url, require_target

_DIALECTS: Final = {
    "mysql": "mysql", "mariadb": "mysql", "mysqldatabasedialect": "mysql",
    "mariadbdatabasedialect": "mysql", "postgresql": "postgresql",
    "postgresqldatabasedialect": "postgresql", "sqlite": "sqlite",
    "sqlitedatabasedialect": "sqlite",
}  # fmt: skip
"""What `dialect.name` may be, in lower case → our name."""

_SIMPLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")


@dataclass(frozen=True)
class JdbcSinkConfig(TableKeys):
    """Where the tables are, and how rows are written."""

    code_prefix: ClassVar[str] = "jdbc"

    connection_url: str = key(
        doc="jdbc:postgresql://host:5432/database, jdbc:mysql://…, jdbc:mariadb://…, or "
        "jdbc:sqlite:/file.",
        required=True,
        group="Connection",
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
    handle_tombstone: bool = key(
        False, doc="Without `delete.enabled`: pass deletions over.", group="Writes"
    )
    pk_mode: str = key(
        "none",
        doc="Where the primary key comes from: `none`, `record_key` (the key of the record; "
        "tables without one are only appended to), "
        "`record_value` (fields of the row), `kafka` (topic, partition and offset).",
        choices=("none", "kafka", "record_key", "record_value"),
        group="Data mapping",
        importance="high",
    )
    pk_fields: tuple[str, ...] = key(
        (),
        doc="Fields of the key. `record_key`: all of its fields when empty, and the name of the "
        "column when the key is a single value; `record_value`: all fields when empty; `kafka`: "
        "names of the three columns.",
        group="Data mapping",
    )
    table_name_normalize: bool = key(
        False, doc="Replace all but letters, digits and _ by _ in ${topic}.", group="Data mapping"
    )
    table_types: tuple[str, ...] = key(
        ("TABLE",),
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
    def verb(self) -> Verb:
        """What is done with rows; `multi` is Aiven's word for a way of inserting."""
        return Verb.INSERT if self.insert_mode == "multi" else Verb(self.insert_mode)

    def table_parts(self, dataset: str, naming: Naming) -> tuple[str, ...]:
        """Return the parts of the name of a dataset's table."""
        topic = re.sub(r"[^A-Za-z0-9_]", "_", dataset) if self.table_name_normalize else dataset
        parts = table_parts(self.table_name_format, topic, naming)
        return tuple(self.cased(part, naming) for part in parts)

    def cased(self, name: str, naming: Naming) -> str:
        """Return a name as the database would have it that a person wrote without quotes."""
        unquoted = self.quote_sql_identifiers == "never" and naming.database == "PostgreSQL"
        return name.lower() if unquoted and _SIMPLE.fullmatch(name) else name

    def problems(self) -> Iterator[ConnectorError]:
        """Yield what is wrong with values that have the right type. Pure."""
        try:
            target = parse_url(self.connection_url)
        except ConfigError as error:
            yield error
        else:
            wanted = _DIALECTS.get(self.dialect_name.lower())
            if self.dialect_name and wanted != target.dialect:
                yield self.wrong(
                    "dialect",
                    f"the URL is one of {target.dialect}, not of {self.dialect_name!r}",
                    "Leave `dialect.name` out: the URL says what it is.",
                    "dialect.name",
                )
        yield from super().problems()
        if self.batch_size < 0:
            yield self.wrong(
                "negative", "`batch.size` is at least 0", "Correct the number.", "batch.size"
            )
        try:
            ZoneInfo(self.db_timezone)
        except (OSError, ValueError, KeyError):
            yield self.wrong(
                "timezone",
                f"there is no time zone {self.db_timezone!r}",
                "Write a name like Europe/Berlin, or UTC.",
                "db.timezone",
            )
