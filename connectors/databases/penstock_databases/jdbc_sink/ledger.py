"""The table `penstock_commits`: how far each task is, and which epoch may write for it.

A row of it changes in the same transaction as the rows of tables, so that both are there or
neither. Every transaction locks the task's row first and compares the epoch: an older owner that
wakes up can never commit (invariant 4).
"""

# Names in SQL are quoted by `Naming`, values are parameters or the wire's own text.
# ruff: noqa: S608

from __future__ import annotations

from typing import Final

from penstock_connector import AuthError, ConnectorError
from penstock_connector.tables.ledger import LastTxn, TaskLedger
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection
from penstock_databases.writing import Writer

NAME: Final = "penstock_commits"
_MAX_READABLE: Final = 255


class Ledger(TaskLedger):
    """The row of one task."""

    def __init__(self, writer: Writer, task_id: str, epoch: int) -> None:
        super().__init__(task_id, epoch, "jdbc.fenced")
        self._readable = task_id[:_MAX_READABLE]
        self._writer = writer
        self._sql = ""

    def claim(self, connection: Connection) -> LastTxn | None:
        """Raise the stored epoch to ours, and return the last transaction.

        Whoever has the task in a session of its own loses it: its open transaction would keep the
        row locked for as long as it is paused.

        Raises:
            FencedError: `jdbc.fenced`: a newer owner was here.
        """
        table = self._made(connection)
        self._sql = table.sql(self._writer.naming)
        self.refuse_newer(self._stored(connection, ""))
        self._writer.evict(connection, self.key)
        self._enter(connection)
        connection.begin()
        self.refuse_newer(self._stored(connection, self._writer.locking))
        connection.changed(
            f"UPDATE {self._sql} SET epoch = %s WHERE task_key = %s",
            (self._epoch, self.key),
        )
        last = self._last(connection)
        connection.commit()
        return last

    def lock(self, connection: Connection) -> None:
        """Lock the row for the transaction that was begun.

        Raises:
            FencedError: `jdbc.fenced`.
        """
        self.refuse_newer(self._stored(connection, self._writer.locking))

    def store(self, connection: Connection, txn_id: int, token: bytes) -> None:
        """Store how far the task is, with the rows."""
        connection.changed(
            f"UPDATE {self._sql} SET txn_id = %s, txn_epoch = %s, token = %s, "
            "updated_at = CURRENT_TIMESTAMP WHERE task_key = %s",
            (txn_id, self._epoch, token, self.key),
        )

    def _made(self, connection: Connection) -> TableId:
        """Return the table. Two tasks that make it at once do no harm."""
        table, statement = self._writer.ledger(connection, NAME)
        for last in (False, True):
            if self._writer.shape(connection, table) is not None:
                return table
            try:
                connection.execute(statement)
            except AuthError as error:
                fix = f"Let the user make tables, or make it: {statement}"
                raise AuthError(error.code, error.message, fix=fix) from error
            except ConnectorError:
                if last:
                    raise
        return table

    def _enter(self, connection: Connection) -> None:
        """Make the task's row, unless it is there."""
        if self._stored(connection, "") is not None:
            return
        connection.changed(
            f"INSERT INTO {self._sql} (task_key, task_id, epoch) VALUES (%s, %s, %s)",
            (self.key, self._readable, self._epoch),
        )

    def _stored(self, connection: Connection, locking: str) -> int | None:
        rows = connection.execute(
            f"SELECT epoch FROM {self._sql} WHERE task_key = %s{locking}",
            (self.key,),
        )
        return int(rows[0][0]) if rows else None

    def _last(self, connection: Connection) -> LastTxn | None:
        rows = connection.execute(
            f"SELECT txn_id, txn_epoch, token FROM {self._sql} "
            "WHERE task_key = %s AND token IS NOT NULL",
            (self.key,),
        )
        return LastTxn(int(rows[0][1]), int(rows[0][0]), bytes(rows[0][2])) if rows else None
