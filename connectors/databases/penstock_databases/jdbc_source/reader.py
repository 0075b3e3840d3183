"""What the readers of all modes have in common: a relation that may change under them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock_connector import Batch, DataError, SchemaError
from penstock_connector.tables.columns import Column
from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source.config import JdbcSourceConfig
from penstock_databases.jdbc_source.relation import Relation, mapped
from penstock_databases.jdbc_source.session import Session


class Changed(Exception):  # noqa: N818 - no error: read again
    """The relation has other columns than the statement knew."""


class Reader(Protocol):
    """Reads one partition in one mode.

    A `poll` that raises has changed nothing, unless `midway`.

    Attributes:
        more: Rows are known to wait: poll again without a pause.
        caught_up: All rows were given that were there when the last poll began.
    """

    more: bool
    caught_up: bool

    @property
    def midway(self) -> bool:
        """Rows went out that only a later batch makes whole: after an error the task must begin
        again at its last offset.
        """

    def poll(self, session: Session) -> Batch | None:
        """Return the next rows; None when there are none now."""

    def renew(self) -> None:
        """Look the relation up again before the next statement."""

    def close(self) -> None:
        """Let go of everything."""


class Source:
    """The relation of a reader: looked up when it is needed, and checked after each read."""

    def __init__(
        self, config: JdbcSourceConfig, find: Callable[[Connection], Relation], partition: Any
    ) -> None:
        self.config = config
        self._find = find
        self._relation: Relation | None = None
        self._partition = partition

    def relation(self, connection: Connection) -> Relation:
        """Return the relation as it was last looked up."""
        if self._relation is None:
            self._relation = self._find(connection)
        return self._relation

    def renew(self) -> None:
        """Look it up again next time."""
        self._relation = None

    def read(
        self,
        session: Session,
        sql: str,
        values: Sequence[Any],
        more: Sequence[Column] = (),
    ) -> pa.RecordBatch:
        """Return the rows of a statement, as the relation was when they were read.

        Rows are looked at before the catalog: a column that was added before one of these rows was
        written is in the catalog by then, so no value of it is missed.

        Raises:
            Changed: Columns came, went or changed: nothing was read.
        """
        connection = session.connection()
        relation = self.relation(connection)
        try:
            rows = relation.read(connection, sql, values, more)
        except (SchemaError, DataError):
            session.close()  # the rest of the rows is still on its way
            self.check(session.connection())
            raise
        if rows.num_rows:
            self.check(connection)
        return rows

    def check(self, connection: Connection) -> None:
        """Raise Changed when the relation is not what it was."""
        known, self._relation = self._relation, None
        self._relation = self._find(connection)
        if self._relation != known:
            raise Changed

    def batch(
        self, rows: pa.RecordBatch, offset: Mapping[str, Any] | None, connection: Connection
    ) -> Batch:
        """Return rows as a batch."""
        relation = self.relation(connection)
        return Batch(
            rows=mapped(self.config, rows) if rows.num_rows else (),
            partition=self._partition,
            offset=offset,
            dataset=relation.dataset,
            key_columns=relation.key,
        )
