"""Where a task begins, and which server it gets the log from."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from penstock_databases.mysql_cdc.config import MysqlCdcConfig
from penstock_databases.mysql_cdc.offsets import Offset
from penstock_databases.mysql_cdc.position import Place
from penstock_databases.mysql_cdc.server import Link, Server
from penstock_databases.mysql_cdc.statements import TableName
from penstock_databases.mysql_cdc.stream import Dump, purged
from penstock_databases.mysql_cdc.tables import Tables


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

    def beginning(self, *, again: bool = False) -> Offset:
        """Return where to begin when there is no offset.

        Args:
            again: Rows were given before: changes of rows that are read later count, too.
        """
        if self._config.snapshot_mode == "never" and not again:
            return Offset(self.server.first(), self.server.identity)
        offset = Offset(self.server.place(), self.server.identity)
        if self._config.reads_tables:
            offset.progress.add(self.chosen(), keep=again or not self.exact)
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
