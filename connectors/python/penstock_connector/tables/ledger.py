"""The ledger of a sink: how far each task is, and who may write for it.

A task has one row, with the epoch of its owner and its last transaction. A task that opens raises
the epoch, and is refused when a newer owner was there. Each transaction writes the row together
with its rows, for its own epoch only: both are there or neither, and an older owner that wakes up
can never commit (invariant 4).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from penstock_connector import FencedError


@dataclass(frozen=True, slots=True)
class LastTxn:
    """The last transaction of a task.

    Attributes:
        epoch: The epoch that wrote it.
        txn_id: Its number.
        token: The offsets that it covers.
    """

    epoch: int = 0
    txn_id: int = 0
    token: bytes = b""


class TaskLedger:
    """The row of one task at one epoch. A subclass has the statements of its database.

    Attributes:
        key: Names the task in a bounded number of letters and digits.
    """

    def __init__(self, task_id: str, epoch: int, fenced_code: str) -> None:
        self.key = hashlib.sha256(task_id.encode()).hexdigest()
        self._task_id, self._epoch, self._fenced_code = task_id, epoch, fenced_code

    def refuse_newer(self, stored_epoch: int | None) -> None:
        """Refuse to go on when the row has a newer epoch.

        Raises:
            FencedError: `fenced_code`.
        """
        if stored_epoch is not None and stored_epoch > self._epoch:
            raise self._fenced(stored_epoch)

    def _fenced(self, stored_epoch: int) -> FencedError:
        return FencedError(
            self._fenced_code,
            f"task {self._task_id!r} has a newer owner: epoch {stored_epoch}, this is "
            f"{self._epoch}",
        )
