"""The session of a task with the database: opened when it is needed, thrown away when it failed."""

from __future__ import annotations

import contextlib
import threading

from penstock_connector import ConnectorError
from penstock_connector.tables.ledger import LastTxn
from penstock_databases.dialect import Connection, Login
from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.jdbc_sink.ledger import Ledger
from penstock_databases.url import Target
from penstock_databases.writing import Session, Writer


class TaskSession:
    """One session at a time, which owns the task's row in the ledger.

    Attributes:
        last: The last transaction of the task, as of the last time a session was opened.
    """

    def __init__(
        self,
        config: JdbcSinkConfig,
        target: Target,
        writer: Writer,
        ledger: Ledger,
        stopping: threading.Event,
    ) -> None:
        self.last: LastTxn | None = None
        self._config, self._target = config, target
        self._writer, self._ledger = writer, ledger
        self._stopping = stopping
        self._connection: Connection | None = None
        self._session: Session | None = None

    def connection(self) -> Connection:
        """Return the connection; opens it within the attempts of the configuration."""
        if self._connection is None:
            retry = self._config.connection_retry
            self._connection = retry.call(self._claimed, self._stopping.wait)
        return self._connection

    def session(self) -> Session:
        """Return what writes over the connection."""
        if self._session is None:
            self._session = self._writer.session(self.connection())
        return self._session

    def lose(self) -> None:
        """Throw the session away, and with it what is not committed."""
        connection, self._connection = self._connection, None
        self._session = None
        if connection is not None:
            with contextlib.suppress(ConnectorError):
                connection.rollback()
            connection.close()

    def _claimed(self) -> Connection:
        login = Login(self._config.connection_user, self._config.connection_password)
        connection = self._writer.connect(self._target, login)
        try:
            self.last = self._ledger.claim(connection)
        except BaseException:
            connection.close()
            raise
        return connection
