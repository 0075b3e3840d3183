"""The base of a sink whose datasets are tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from penstock_connector import (
    CommitMode,
    ConnectorError,
    RetriableError,
    TransactionalSink,
)
from penstock_connector.staging import Spill, SpillStaging
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.config import TableKeys
from penstock_connector.tables.evolution import Ddl, check_columns, plan_statements, readable
from penstock_connector.tables.mapping import ColumnMapping, map_columns
from penstock_connector.tables.names import TableId
from penstock_connector.tables.routing import Rejected, Route

K = TypeVar("K", bound=TableKeys)
R = TypeVar("R")


class TableSink(TransactionalSink[K], Generic[K, R]):
    """A sink whose datasets are tables: makes them, adds columns, and knows the way of rows.

    A subclass says what its database is (`ddl` to `route`), and writes (`stage`, `prepare`,
    `commit`). `R` is what it keeps of a way: a `Route`, or something around it.
    """

    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.SINK,)

    @classmethod
    def validate(cls, config: K) -> list[ConnectorError]:
        """Return what is wrong with the configuration."""
        return list(config.problems())

    def init(self, config: K) -> None:
        """Take the configuration."""
        super().init(config)
        self._routes: dict[tuple[str, bytes], R] = {}

    # ── what a database is ───────────────────────────────────────────────────────────────────────

    @property
    def ddl(self) -> Ddl:
        """The statements that make tables and columns."""
        raise NotImplementedError

    def table(self, dataset: str) -> TableId:
        """Return the table of a dataset; see `names.table_parts`."""
        raise NotImplementedError

    def cased(self, name: str) -> str:
        """Return the name of a field's column."""
        return name

    def shape(self, table: TableId) -> Shape | None:
        """Return a table's columns; None when there is no such table."""
        raise NotImplementedError

    def execute_ddl(self, statement: str) -> None:
        """Run a statement of `ddl`."""
        raise NotImplementedError

    def looks_again(self, error: ConnectorError) -> bool:
        """Return whether a statement of `ddl` may have failed because another task was faster."""
        return True

    def route(self, dataset: str, shape: Shape, mapping: ColumnMapping) -> R:
        """Return the way of rows into a table that has their columns."""
        raise NotImplementedError

    # ── schemas ──────────────────────────────────────────────────────────────────────────────────

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of a table; None when it is not there."""
        shape = self.shape(self.table(dataset))
        return pa.schema([column.field for column in shape.columns]) if shape else None

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Make the table, or add the columns that it lacks."""
        table = self.table(dataset)
        mapping = map_columns(self.config, schema, key_columns, self.cased, dataset)
        statements, shape = self._evolve(table, mapping)
        check_columns(self.config, shape, mapping)
        self._routes[dataset, _fingerprint(schema)] = self.route(dataset, shape, mapping)
        return [readable(statement) for statement in statements] or None

    def _evolve(self, table: TableId, mapping: ColumnMapping) -> tuple[list[str], Shape]:
        """Make and add what is missing; others may do the same at this moment."""
        statements = self._changed(table, mapping, last=False)
        if statements is None:
            statements = self._changed(table, mapping, last=True) or []
        shape = self.shape(table)
        if shape is None:
            raise RetriableError(self.config.code("table_gone"), f"{table} was dropped just now")
        return statements, shape

    def _changed(self, table: TableId, mapping: ColumnMapping, *, last: bool) -> list[str] | None:
        """Return the statements that were run; None: look again what is missing."""
        statements = plan_statements(self.config, self.ddl, table, self.shape(table), mapping)
        try:
            for statement in statements:
                self.execute_ddl(statement)
        except ConnectorError as error:
            if last or not self.looks_again(error):
                raise
            return None
        return statements

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def routed(self, dataset: str, schema: pa.Schema) -> R:
        """Return the way of rows of a schema that was applied."""
        return self._routes[dataset, _fingerprint(schema)]


class RowStaging(SpillStaging[pa.RecordBatch]):
    """Rows on their way into one table, as `Route.fit` makes them.

    Attributes:
        route: Where they go.
    """

    def __init__(self, route: Route, spill: Spill) -> None:
        super().__init__(spill)
        self.route = route

    def put(self, rows: pa.RecordBatch) -> Rejected:
        """Stage rows, but for those that the table cannot hold."""
        rejected, fitted = self.route.fit(rows)
        self.add_batch(fitted.batch(with_ops=self.route.config.delete_enabled))
        return rejected


def _fingerprint(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize())
