"""The keys of `databend-sink`: those of Databend's connector for Kafka Connect, with their
meanings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock_connector import ConfigError, ConnectorError, key
from penstock_connector.tables.config import TableKeys
from penstock_connector.tables.names import TableId, table_parts
from penstock_databases.databend_sink.sql import NAMING
from penstock_databases.databend_sink.url import DatabendTarget, parse_url


@dataclass(frozen=True)
class DatabendSinkConfig(TableKeys):
    """Where the tables are, and how rows are written."""

    code_prefix: ClassVar[str] = "databend"
    other_codes: ClassVar[Mapping[str, str]] = {
        "incompatible": "databend.column_type",
        "value": "databend.row",
        "delete_disabled": "databend.row",
        "patch": "databend.row",
    }

    connection_url: str = key(
        doc="jdbc:databend://host:8000/database, or databend+local:///folder for an engine of our "
        "own on a folder.",
        required=True,
        group="Connection",
    )
    connection_database: str = key(
        "",
        doc="Database of tables whose name has none, and of the commit rows; that of the URL, or "
        "`default`, when empty.",
        group="Connection",
    )
    batch_size: int = key(
        0,
        doc="Passed over: all rows of a transaction are one statement. `flush.rows` and "
        "`flush.interval` decide how many come together.",
        group="Writes",
        importance="low",
    )

    @property
    def target(self) -> DatabendTarget:
        """Where Databend is."""
        return parse_url(self.connection_url)

    @property
    def database(self) -> str:
        """The database of tables whose name has none."""
        return self.connection_database or self.target.database or "default"

    def require_reach(self) -> None:
        """Refuse a server or a folder that may not be reached."""
        if self.reach.everything:
            return
        target, reach = self.target, self.reach
        if target.folder:
            reach.require_path(target.folder, "connection.url")
        else:
            reach.require_host(target.host, "connection.url")
        reach.require_path(target.ca, "connection.url")

    def table(self, dataset: str) -> TableId:
        """Return the table of a dataset, as `table.name.format` has it.

        Raises:
            ConfigError: `databend.table_name`, `sql.bad_name`.
        """
        parts = table_parts(self.table_name_format, dataset, NAMING)
        if len(parts) > 2 or not all(parts):
            raise ConfigError(
                "databend.table_name",
                f"{'.'.join(parts)[:200]!r} is no table: Databend has databases with tables in "
                "them",
                fix='Set `table.name.format` to "${topic}" in quotes, or to default.${table}.',
                config_path="table.name.format",
                dataset=dataset,
            )
        database, name = parts if len(parts) > 1 else (self.database, parts[0])
        table = TableId(name, catalog=database)
        table.sql(NAMING)  # what cannot be a name is refused before anything is done
        return table

    def problems(self) -> Iterator[ConnectorError]:
        """Yield what is wrong with values that have the right type. Pure."""
        yield from self._place_problems()
        yield from super().problems()

    def _place_problems(self) -> Iterator[ConnectorError]:
        try:
            target = self.target
            NAMING.quoted(self.database)
            NAMING.parts(self.table_name_format)
        except ConfigError as error:
            yield error
            return
        if target.database and self.connection_database not in {"", target.database}:
            yield self.wrong(
                "two_databases",
                f"the URL names the database {target.database!r}, `connection.database` another",
                "Leave one of them out.",
                "connection.database",
            )
        if target.folder and (self.connection_user or self.connection_password):
            yield self.wrong(
                "no_login",
                "a folder has no users and no passwords",
                "Leave `connection.user` and `connection.password` out.",
                "connection.user",
            )
