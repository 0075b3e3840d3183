"""The commit row of a task: how far it is, and who may write for it.

It is written in the same transaction as the rows. Each task has a table of its own: Databend finds
conflicts table by table, and two tasks must not be in each other's way. Inside a transaction
Databend reads what others commit until the transaction has written to that table: so the row is
written first, and read after; from then on anybody else's commit to it ends the transaction.
"""

# Names in statements are quoted by `table_sql`, values are given beside them.
# ruff: noqa: S608

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError, ConnectorError
from penstock_connector.tables.ledger import LastTxn, TaskLedger
from penstock_connector.tables.names import TableId
from penstock_databases.databend_sink.session import Session, transaction
from penstock_databases.databend_sink.sql import table_sql

_TABLE: Final = "penstock_commits"
_COLUMNS: Final = (
    '"task" STRING NOT NULL, "epoch" BIGINT UNSIGNED NOT NULL, "serial" BIGINT UNSIGNED NOT NULL, '
    '"txn" BIGINT UNSIGNED NOT NULL, "token" STRING NOT NULL'
)
_PROBE: Final = "__probe"

_CLEANED_EVERY: Final = 200
"""Commits after which older versions of the row are removed: each leaves four files."""


@dataclass(frozen=True, slots=True)
class Last(LastTxn):
    """What the row says. `serial` counts the task's transactions; it only grows."""

    serial: int = 0


class _UndoneError(Exception):
    """Rolls a transaction back."""


class Ledger(TaskLedger):
    """The commit row, as one task at one epoch sees it."""

    def __init__(self, session: Session, database: str, task_id: str, epoch: int) -> None:
        super().__init__(task_id, epoch, "databend.fenced")
        self._session = session
        self.folder = self.key[:12]
        self._sql = table_sql(TableId(f"{_TABLE}_{self.folder}", catalog=database))
        self._commits = 0

    def claim(self) -> Last:
        """Fence older epochs of the task (invariant 4), and see how far it came.

        Raises:
            FencedError: `databend.fenced`: this epoch is the older one.
            ConfigError: `databend.no_transactions`: nothing could be exactly once here.
        """
        self._session.execute(f"CREATE TABLE IF NOT EXISTS {self._sql} ({_COLUMNS})")
        self._probe()
        with transaction(self._session):
            self._session.execute(
                f'UPDATE {self._sql} SET "epoch" = %s WHERE "task" = %s AND "epoch" <= %s',
                (self._epoch, self._task_id, self._epoch),
            )
            last = self.read()
            if last is None:
                self._session.execute(
                    f"INSERT INTO {self._sql} VALUES (%s, %s, 0, 0, '')",
                    (self._task_id, self._epoch),
                )
                return Last(self._epoch)
            self.refuse_newer(last.epoch)
        return last

    def read(self) -> Last | None:
        """Return what the row says; None when there is none."""
        rows = self._session.query(
            'SELECT to_string("epoch"), to_string("serial"), to_string("txn"), "token" '
            f'FROM {self._sql} WHERE "task" = %s',
            (self._task_id,),
        )
        if not rows:
            return None
        epoch, serial, txn, token = (value or "" for value in rows[0])
        return Last(int(epoch), int(txn), token.encode("latin-1"), int(serial))

    def done(self, serial: int) -> bool:
        """Return whether a transaction was committed: an answer may be lost where the rows are not.

        Raises:
            FencedError: `databend.fenced`.
        """
        last = self.read() or Last()
        self.refuse_newer(last.epoch)
        return last.serial >= serial

    def advance(self, last: Last) -> None:
        """Write the row in an open transaction, before anything else is written in it.

        Raises:
            FencedError: `databend.fenced`.
        """
        # offsets are text nearly always; latin-1 keeps any bytes, and lets people read these
        self._session.execute(
            f'UPDATE {self._sql} SET "serial" = %s, "txn" = %s, "token" = %s '
            'WHERE "task" = %s AND "epoch" = %s',
            (last.serial, last.txn_id, last.token.decode("latin-1"), self._task_id, self._epoch),
        )
        if self.read() != last:
            raise self._fenced((self.read() or Last()).epoch)

    def tidy(self) -> None:
        """Remove older versions of the row now and then. It is no harm when that fails."""
        self._commits += 1
        if self._commits % _CLEANED_EVERY:
            return
        with contextlib.suppress(ConnectorError), self._session.alone():
            self._session.execute("SET data_retention_time_in_days = 0")
            try:
                self._session.execute(f"OPTIMIZE TABLE {self._sql} PURGE")
            finally:
                self._session.execute("UNSET data_retention_time_in_days")

    def _probe(self) -> None:
        """Find out whether a rollback undoes anything: older servers take BEGIN for nothing."""
        probe = (f"{_PROBE} {self._epoch}",)
        with contextlib.suppress(_UndoneError), transaction(self._session):
            self._session.execute(f"INSERT INTO {self._sql} VALUES (%s, 0, 0, 0, '')", probe)
            raise _UndoneError
        where = f'FROM {self._sql} WHERE "task" = %s'
        if self._session.query(f'SELECT "task" {where}', probe):
            self._session.execute(f"DELETE {where}", probe)
            raise ConfigError(
                "databend.no_transactions",
                "this Databend has no transactions over several statements",
                fix="Use a newer one: 1.2.453 has them.",
            )
