"""What is asked of the server beside its log: settings, places, character sets, tables.

And where a task begins, and which server it gets the log from.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock_connector import ConfigError, ConnectorError, RetriableError
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.names import TableId
from penstock_databases.cdc.signal_table import creation_of
from penstock_databases.mysql.catalog import shape
from penstock_databases.mysql.connection import MysqlConnection
from penstock_databases.mysql_cdc import texts
from penstock_databases.mysql_cdc.config import MysqlCdcConfig
from penstock_databases.mysql_cdc.layouts import no_charset
from penstock_databases.mysql_cdc.offsets import Offset
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.progress import TableProgress
from penstock_databases.mysql_cdc.statements import TableName
from penstock_databases.mysql_cdc.stream import Dump, purged
from penstock_databases.mysql_cdc.tables import Tables
from penstock_databases.names import MYSQL

_LOG = logging.getLogger(__name__)

_SETTINGS: Final = (
    "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "gtid_mode",
    "binlog_row_value_options", "version", "server_id", "server_uuid", "server_uid",
)  # fmt: skip

_DEMANDS: Final = {
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
}

_SYNTAX: Final = 1064


_TABLES: Final = (
    "SELECT table_schema, table_name FROM information_schema.tables "
    "WHERE table_type = 'BASE TABLE' ORDER BY 1, 2"
)


class Link:
    """Sessions with the server of a configuration, and one of them for questions."""

    def __init__(self, config: MysqlCdcConfig) -> None:
        self._target, self._login = config.target, config.login
        self._kept: MysqlConnection | None = None

    def open(self) -> MysqlConnection:
        """Open a session."""
        return MysqlConnection(self._target, self._login)

    def asked(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Ask a question; over a new session when the old one is lost."""
        if self._kept is not None:
            try:
                return self._kept.execute(sql, values)
            except RetriableError:
                self.close()
        return self.connection().execute(sql, values)

    def connection(self) -> MysqlConnection:
        """Return the session for questions."""
        if self._kept is None:
            self._kept = self.open()
        return self._kept

    def close(self) -> None:
        """End the session for questions."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None


class Server:
    """A server, and what it said."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._charsets: dict[int, str] = {}
        self._decoders: dict[str, texts.Decode] = {}
        self.settings: Mapping[str, str] = {}

    def learn(self) -> None:
        """Ask for the settings."""
        rows = self._ask("SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", (_SETTINGS,))
        self.settings = {str(name).lower(): str(value) for name, value in rows}

    @property
    def mariadb(self) -> bool:
        """Whether it is MariaDB."""
        return "mariadb" in self.settings.get("version", "").lower()

    @property
    def identity(self) -> str:
        """What tells this server from others with the same data."""
        settings = self.settings
        return f"{settings.get('server_id')}/{settings.get('server_uuid', '')}" + settings.get(
            "server_uid", ""
        )

    @property
    def has_gtids(self) -> bool:
        """Whether transactions in its log have GTIDs."""
        return self.mariadb or self.settings.get("gtid_mode", "").upper() == "ON"

    def demand(self) -> None:
        """Refuse a server whose log does not tell all.

        Raises:
            ConfigError: `cdc.binlog_off`, `cdc.binlog_format`, `cdc.binlog_row_image`,
                `cdc.binlog_row_metadata`, `cdc.binlog_row_value_options`.
        """
        if self.settings.get("log_bin", "").upper() not in {"ON", "1"}:
            raise _demand("off", "the server writes no binary log", "Start it with --log-bin.")
        for name, wanted in _DEMANDS.items():
            found = self.settings.get(name, "not there")
            if found.upper() != wanted:
                raise _demand(
                    name.removeprefix("binlog_"),
                    f"{name} is {found}, and must be {wanted}",
                    f"SET GLOBAL {name} = '{wanted}'; sessions that are open keep what they had.",
                )
        if self.settings.get("binlog_row_value_options"):
            raise _demand(
                "row_value_options",
                "the log has only parts of JSON values",
                "SET GLOBAL binlog_row_value_options = '';",
            )

    def place(self) -> Place:
        """Return where its log ends now."""
        try:
            rows = self._ask("SHOW MASTER STATUS")
        except ConnectorError as error:
            if str(_SYNTAX) not in error.message:
                raise
            rows = self._ask("SHOW BINARY LOG STATUS")  # MySQL 8.4 and above
        if not rows:
            raise _demand("off", "the server writes no binary log", "Start it with --log-bin.")
        file, pos = str(rows[0][0]), int(rows[0][1])
        if self.mariadb:
            gtid = self.gtid_at(file, pos)
        else:
            gtid = str(rows[0][4]) if self.has_gtids and len(rows[0]) > 4 else ""
        return Place(file, pos, gtid.replace("\n", ""))

    def gtid_at(self, file: str, pos: int) -> str:
        """Return MariaDB's GTIDs of all transactions up to a place."""
        ((gtid,),) = self._ask("SELECT BINLOG_GTID_POS(%s, %s)", (file, pos))
        return str(gtid or "")

    def first(self) -> Place:
        """Return where the oldest log that is left begins."""
        rows = self._ask("SHOW BINARY LOGS")
        return Place(str(rows[0][0]), 4)

    def has_file(self, file: str) -> bool:
        """Return whether a log file is still there."""
        return any(row[0] == file for row in self._ask("SHOW BINARY LOGS"))

    def charset(self, collation: int) -> str:
        """Return the character set of a collation."""
        if not self._charsets:
            rows = self._ask("SELECT id, character_set_name FROM information_schema.collations")
            self._charsets = {int(id_): str(name) for id_, name in rows if id_ and name}
            if self.mariadb:
                self._charsets |= self._applicable()
        return self._charsets.get(collation, "utf8mb4")

    def _applicable(self) -> dict[int, str]:
        """Newer MariaDB has collations that are of several character sets."""
        try:
            rows = self._ask(
                "SELECT id, character_set_name "
                "FROM information_schema.collation_character_set_applicability"
            )
        except ConnectorError:  # before 10.10 the table has no numbers, and there is no need
            return {}
        return {int(id_): str(name) for id_, name in rows if id_ and name}

    def decode(self, charset: str) -> texts.Decode:
        """Return what decodes a character set. Those of one byte are as the server has them."""
        found = self._decoders.get(charset)
        if found is None:
            found = texts.multibyte(charset) or texts.singlebyte(self._table(charset))
            self._decoders[charset] = found
        return found

    def _table(self, charset: str) -> str:
        if not charset.isalnum():
            raise no_charset(charset)
        parts = [
            f"CONVERT(CONVERT(X'{byte:02x}' USING {charset}) USING utf8mb4)" for byte in range(256)
        ]
        try:
            row = self._ask(f"SELECT {', '.join(parts)}")[0]
        except ConnectorError as error:
            raise no_charset(charset) from error
        table = [str(text) if text else "\ufffd" for text in row]
        if any(len(text) != 1 for text in table):
            raise no_charset(charset)
        return "".join(table)

    def shape(self, database: str, table: str) -> Shape | None:
        """Return the columns that a table has now."""
        self._ask("SELECT 1")  # a lost session is replaced here
        return shape(self._link.connection(), TableId(table, catalog=database))

    def tables(self) -> list[tuple[str, str]]:
        """Return all tables: database and name."""
        return [(str(database), str(name)) for database, name in self._ask(_TABLES)]

    def _ask(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self._link.asked(sql, values)


def _demand(name: str, what: str, fix: str) -> ConfigError:
    return ConfigError(f"cdc.binlog_{name}", what, fix=fix)


class Origin:
    """The server of a task.

    Attributes:
        link: Sessions with it.
        server: What it says.
        tables: Its tables.
        identity: The server that places in offsets are of.
    """

    def __init__(self, config: MysqlCdcConfig) -> None:
        self.link = Link(config)
        self.server = Server(self.link)
        self.identity = ""
        self._config = config
        self._replica = config.database_server_id or (1 << 31) + secrets.randbelow(1 << 30)

    def learn(self) -> None:
        """Ask the server what it is; refuse it when its log does not tell all."""
        self.server.learn()
        self.server.demand()
        self.identity = self.identity or self.server.identity
        self.tables = Tables(self._config, self.server, mariadb=self.server.mariadb)

    def tell_signals(self) -> None:
        """Tell of a table of signals that is not there. It is found when it comes."""
        name = self._config.signals_table
        if not name or name in map(".".join, self.server.tables()):
            return
        _LOG.warning(
            "`signal.data.collection` names %s, and there is no such table: no signal is read. "
            "Run: %s;",
            name,
            creation_of(name),
        )

    @property
    def exact(self) -> bool:
        """Whether the server tells the exact place of a snapshot."""
        return self.server.mariadb

    def chosen(self) -> list[TableName]:
        """Return the tables that are meant."""
        return [
            (database, name)
            for database, name in self.server.tables()
            if self.tables.meant(database, name)
        ]

    def add_tables(
        self,
        progress: TableProgress,
        tables: Iterable[TableName],
        *,
        keep: bool = False,
        condition: str = "",
        anew: bool = False,
        incremental: bool = False,
    ) -> None:
        """Plan to read tables, from their beginning.

        Args:
            progress: Where that is noted.
            tables: The tables.
            keep: Rows of them were given before: no change of theirs may be left out.
            condition: SQL that the rows meet that are read; empty: all.
            anew: Their work was forgotten just now, for this: a pause stays.
            incremental: A signal asks for them.
        """
        for name in tables:
            partial = ".".join(name) in self._config.snapshot_statements
            inexact = keep or partial or not self.exact
            progress.add(
                [name], keep=inexact, condition=condition, anew=anew, incremental=incremental
            )

    def has_rows(self, table: TableName) -> bool:
        """Return whether a table has rows now; one that is read by a statement may have some."""
        if ".".join(table) in self._config.snapshot_statements:
            return True
        name = TableId(table[1], catalog=table[0]).sql(MYSQL)
        try:
            return bool(self.link.asked(f"SELECT 1 FROM {name} LIMIT 1"))  # noqa: S608 - quoted
        except ConnectorError as error:
            if error.code != "sql.no_table":
                raise
            return False

    def beginning(self, *, again: bool = False) -> Offset:
        """Return where to begin when there is no offset.

        Args:
            again: Rows were given before: changes of rows that are read later count, too.
        """
        if self._config.snapshot_mode == "never" and not again:
            return Offset(self.server.first(), self.server.identity)
        offset = Offset(self.server.place(), self.server.identity)
        if again or self._config.reads_tables:
            self.add_tables(offset.progress, self.chosen(), keep=again)
        return offset

    def dial(self, place: Place, second: bool, elsewhere: Callable[[Place], None]) -> Dump:
        """Ask for the log. It may be another server than the one before.

        Args:
            place: From where on.
            second: Beside another one. A server ends the log of a replica when another one of the
                same number comes.
            elsewhere: Called when it is another server, with the place where its log ends.
        """
        self.server.learn()
        by_gtid = bool(place.gtid) and self.server.has_gtids
        if self.server.identity != self.identity:
            if not by_gtid:
                raise purged(f"it was the log of another server ({self.identity})")
            elsewhere(self.server.place())
            self.identity = self.server.identity
        elif not by_gtid and not self.server.has_file(place.file):
            raise purged(f"{place.file} is not there")
        return Dump(
            self.link.open(),
            place,
            server_id=self._replica + second,
            mariadb=self.server.mariadb,
            by_gtid=by_gtid,
        )
