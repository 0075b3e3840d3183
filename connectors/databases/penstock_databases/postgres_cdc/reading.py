"""Piece after piece of the tables that are still to be read, each at the right moment.

Rows must have seen every transaction whose changes were left out for them, or given before them. A
transaction is in the log a moment before readers see it (a long one, when it waits for a standby):
until then no piece is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from penstock_connector import SchemaError
from penstock_databases.dialect import Login
from penstock_databases.postgres_cdc import rules
from penstock_databases.postgres_cdc.offsets import Plan, Window, Work
from penstock_databases.postgres_cdc.publication import Published
from penstock_databases.postgres_cdc.rows import RowShape
from penstock_databases.postgres_cdc.shapes import Shapes
from penstock_databases.postgres_cdc.snapshot import (
    Moment,
    Piece,
    TableReader,
    WholeReader,
    moment,
)
from penstock_databases.postgresql.connection import PostgresqlConnection
from penstock_databases.url import Target

WINDOWS_MOST: Final = 16
"""Pieces that may be ahead of the log. Each makes changes of its table dearer to judge, and makes
the offset larger."""


class Reading:
    """Reads the tables of a plan."""

    def __init__(
        self,
        plan: Plan,
        find: Callable[[int], Published | None],
        shapes: Shapes,
        target: Target,
        login: Login,
        piece_rows: int,
    ) -> None:
        self.plan = plan
        self._find = find
        self._shapes = shapes
        self._target = target
        self._login = login
        self._piece_rows = piece_rows
        self._whole: tuple[int, WholeReader, RowShape, Moment] | None = None

    def is_due(self) -> bool:
        """Tell whether there is a piece to read now."""
        plan = self.plan
        if self._whole is not None:
            return True
        return bool(plan.todo or plan.work) and len(plan.windows) < WINDOWS_MOST

    def settle(self, connection: PostgresqlConnection) -> None:
        """Forget pending transactions that everybody sees by now."""
        if self.plan.pending:
            self._settle(moment(connection))

    def piece(self, connection: PostgresqlConnection, recent: list[int]) -> Piece | None:
        """Read the next piece, and note it in the plan; None when there is none now.

        Args:
            connection: A session that does nothing else.
            recent: The last transactions that were given.
        """
        self._drop_stale()
        if self._whole is not None:
            return self._next_of_whole()
        work = self.plan.work or self._begin_work(recent)
        if work is None:
            return None
        table = self._find(work.table)
        if table is None:
            rules.forget(self.plan, work.table)
            return None
        reader = TableReader(connection, self._shapes, self._piece_rows)
        try:
            return self._read(reader, table, work)
        except SchemaError as error:
            if error.code != "sql.no_table":
                raise
            rules.forget(self.plan, work.table)  # dropped since it was listed
            return None
        finally:
            reader.end()

    def close(self) -> None:
        """Let go of a table that is read in one go."""
        if self._whole is not None:
            self._whole[1].close()
            self._whole = None

    def _begin_work(self, recent: list[int]) -> Work | None:
        if not self.plan.todo:
            return None
        oid = next(iter(self.plan.todo))
        again = self.plan.todo.pop(oid)
        if again:
            self.plan.pending.update(recent)
        self.plan.windows = [window for window in self.plan.windows if window.table != oid]
        self.plan.work = Work(oid, again)
        return self.plan.work

    def _read(self, reader: TableReader, table: Published, work: Work) -> Piece | None:
        begun = reader.begin(table)
        if begun is None:
            rules.forget(self.plan, work.table)
            return None
        shape, now = begun
        if not self._settle(now):
            return None  # asked again after some of the log
        if not shape.key:
            return self._begin_whole(table, work)
        if work.last is not None and work.key != shape.key:
            # another key now: what was read by the old one cannot be told apart from the rest
            rules.forget(self.plan, work.table)
            work = Work(work.table, again=True)
        piece = reader.piece(table, shape, now, work.last)
        high = None if piece.complete else piece.last
        window = Window(work.table, work.last, high, now.seen, now.until, work.again)
        left = None if piece.complete else replace(work, key=shape.key, last=piece.last)
        rules.open_window(self.plan, window, left)
        return piece

    # ── tables without a key ─────────────────────────────────────────────────────────────────────

    def _begin_whole(self, table: Published, work: Work) -> Piece | None:
        connection = PostgresqlConnection(self._target, self._login)
        reader = WholeReader(connection, self._shapes, self._piece_rows)
        try:
            begun = reader.begin(table)
        except BaseException:
            reader.close()
            raise
        if begun is None or not self._settle(begun[1]):
            reader.close()
            return None
        shape, now = begun
        rules.forget(self.plan, work.table)  # windows of a reading that was broken off
        window = Window(work.table, None, None, now.seen, now.until, work.again)
        rules.open_window(self.plan, window, work)
        self._whole = work.table, reader, shape, now
        return self._next_of_whole()

    def _next_of_whole(self) -> Piece | None:
        if self._whole is None:
            return None
        _, reader, shape, now = self._whole
        piece = reader.piece(shape, now)
        if piece.complete:
            self.plan.work = None
            self.close()
        return piece

    def _drop_stale(self) -> None:
        """Break a reading off whose table was emptied meanwhile."""
        work = self.plan.work
        if self._whole is not None and (work is None or work.table != self._whole[0]):
            self.close()

    def _settle(self, now: Moment) -> bool:
        """Forget what a moment sees; returns whether it sees all that it must."""
        self.plan.pending = {xid for xid in self.plan.pending if not now.seen.has(xid)}
        return not self.plan.pending
