"""The commit rows of a task: how far it is, and who may write for it.

One insert of one row is the commit of a transaction: it has the offsets, and the steps that bring
staged rows into their tables. Whoever comes after makes the steps again that may be missing.

A newer owner of a task first writes a row with its epoch and looks for the last commit after that.
An older owner looks for newer rows after its commit row, and makes no step when there is one. So of
a commit and a claim at the same time either the newer owner sees the commit and makes its steps, or
the older one sees the claim and makes none (invariant 4).
"""

# Names in statements are quoted by `sql`.
# ruff: noqa: S608

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock_analytics.clickhouse_sink.session import Session
from penstock_analytics.clickhouse_sink.sql import literal, table_sql
from penstock_analytics.clickhouse_sink.writing import Step
from penstock_connector.tables.ledger import LastTxn, TaskLedger
from penstock_connector.tables.names import TableId

TABLE: Final = "penstock_commits"

_COLUMNS: Final = (
    "task String, epoch UInt64, serial UInt64, txn UInt64, token String, version UInt64, "
    "steps String, written DateTime64(6, 'UTC') DEFAULT now64(6)"
)


@dataclass(frozen=True, slots=True)
class Last(LastTxn):
    """What a commit row says.

    Attributes:
        serial: Counts the task's transactions; it only grows.
        version: Of rows that replace others; it only grows.
        steps: What may still have to be done.
    """

    serial: int = 0
    version: int = 0
    steps: tuple[Step, ...] = ()


class Ledger(TaskLedger):
    """The commit rows, as one task at one epoch sees them."""

    def __init__(self, session: Session, database: str, task_id: str, epoch: int) -> None:
        super().__init__(task_id, epoch, "clickhouse.fenced")
        self._session = session
        self.short = self.key[:12]
        self._sql = table_sql(TableId(TABLE, catalog=database))

    def claim(self) -> Last:
        """Become the owner of the task, and see how far it came.

        Raises:
            FencedError: `clickhouse.fenced`: a newer owner was there.
        """
        self._session.execute(
            f"CREATE TABLE IF NOT EXISTS {self._sql} ({_COLUMNS}) "
            "ENGINE = ReplacingMergeTree(serial) ORDER BY (task, epoch)"
        )
        self.require_ownership()
        self._insert(Last())  # the claim; from here on no older owner makes a step
        found = self._last() or Last()
        # a commit that an older owner writes after this was never adopted, and never counts
        last = replace(found, epoch=self._epoch, serial=found.serial + 1)
        self._insert(last)
        self.require_ownership()
        return last

    def store(self, last: Last) -> None:
        """Write a commit row: from now on the transaction is there, and has to be finished."""
        self._insert(last)

    def require_ownership(self) -> None:
        """Look whether a newer owner was there.

        Raises:
            FencedError: `clickhouse.fenced`.
        """
        rows = self._session.query(
            f"SELECT max(epoch) FROM {self._sql} WHERE task = {literal(self._task_id)}"
        )
        self.refuse_newer(int(rows[0][0]))

    def forget_older(self) -> None:
        """Remove the rows of older epochs: ours has all that they said."""
        self._session.execute(
            f"DELETE FROM {self._sql} WHERE task = {literal(self._task_id)} "
            f"AND epoch < {self._epoch}"
        )

    def _last(self) -> Last | None:
        """Return the last row of the newest epoch that has one; a mere claim has serial 0."""
        rows = self._session.query(
            f"SELECT epoch, serial, txn, token, version, steps FROM {self._sql} "
            f"WHERE task = {literal(self._task_id)} AND serial > 0 "
            "ORDER BY epoch DESC, serial DESC LIMIT 1"
        )
        if not rows:
            return None
        found, serial, txn, token, version, steps = (str(part) for part in rows[0])
        return Last(
            int(found),
            int(txn),
            base64.b64decode(token),
            int(serial),
            int(version),
            tuple(Step(**one) for one in json.loads(steps)),
        )

    def _insert(self, last: Last) -> None:
        token = base64.b64encode(last.token).decode()
        steps = json.dumps(_stored(last.steps), ensure_ascii=False, separators=(",", ":"))
        self._session.execute(
            f"INSERT INTO {self._sql} (task, epoch, serial, txn, token, version, steps) VALUES "
            f"({literal(self._task_id)}, {self._epoch}, {last.serial}, {last.txn_id}, "
            f"{literal(token)}, {last.version}, {literal(steps)})"
        )


def _stored(steps: Sequence[Step]) -> list[dict[str, object]]:
    return [step.stored() for step in steps]
