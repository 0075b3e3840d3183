"""Rows on their way into one table, encoded as the database reads them. Pure.

Encoding in `put` lets it run for several slots at a time, and lets the rows' Arrow memory go.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock_connector.staging import Spill, SpillStaging
from penstock_connector.tables.changes import Verb, effect
from penstock_connector.tables.columns import Column, Shape
from penstock_connector.tables.evolution import readable
from penstock_connector.tables.fitting import Limit, Problem, exact_cast
from penstock_connector.tables.mapping import ColumnMapping
from penstock_connector.tables.routing import FittedRows, Rejected, Route, RoutedColumn
from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.writing import Layout, Text, Writer


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that one thing is done with.

    Attributes:
        verb: What is done with them.
        layout: Where they go.
        text: The rows, as the writer encoded them.
        rows: How many they are.
    """

    verb: Verb
    layout: Layout
    text: Text
    rows: int


class JdbcRoute:
    """A route into a table, and what its writer has to know of the table."""

    def __init__(
        self,
        config: JdbcSinkConfig,
        writer: Writer,
        dataset: str,
        shape: Shape,
        mapping: ColumnMapping,
        unique: Sequence[frozenset[str]],
        *,
        direct: bool,
    ) -> None:
        self._config, self._writer = config, writer
        self._route = Route(
            config,
            dataset,
            shape,
            mapping,
            self._limit,
            exact_cast(config.db_timezone),
            fix=self._fix,
            skip_deletes=config.handle_tombstone,
        )
        key = tuple(mapped.field.name for mapped in mapping.key)
        columns = tuple(routed.column for routed in self._route.columns)
        alone = all(other == frozenset(key) for other in unique)
        self._layout = Layout(shape.table, columns, key, alone, direct)
        self._by_key = Layout(shape.table, columns[: len(self._route.key)], key, alone)
        self._fields = {mapped.field.name: mapped.field for mapped in mapping.all}

    def pieces(self, rows: pa.RecordBatch) -> tuple[Rejected, list[Piece]]:
        """Return the rows that cannot be written and why, and what is done with the others."""
        rejected, fitted = self._route.fit(rows)
        return rejected, list(self._encoded(fitted))

    def _encoded(self, rows: FittedRows) -> Iterator[Piece]:
        keys = rows.columns[: len(self._by_key.columns)] if self._route.finds_rows else ()
        left = effect(rows.ops, keys, merge=self._config.verb is not Verb.INSERT)
        if left.truncate:
            yield Piece(Verb.TRUNCATE, self._by_key, b"", 1)
        if len(left.delete):
            gone = [key.take(left.delete) for key in keys]
            text = self._writer.encode(self._by_key.columns, gone)
            yield Piece(Verb.DELETE, self._by_key, text, len(left.delete))
        written = left.write
        count = rows.count if written is None else len(written)
        if count:
            values = [v if written is None else v.take(written) for v in rows.columns]
            text = self._writer.encode(self._layout.columns, values)
            yield Piece(self._config.verb, self._layout, text, count)

    def _limit(self, column: Column) -> Limit:
        return replace(self._writer.limit(column), strips=self._config.text_nul == "remove")

    def _fix(self, routed: RoutedColumn, problem: Problem) -> str:
        """Return what makes such rows pass."""
        field = self._fields[routed.column.name]
        if problem.nul:
            return "Set `text.nul=remove`, or change the rows with a transform."
        if problem.narrow and not pa.types.is_temporal(field.type):
            statement = readable(self._writer.retype(self._layout.table, field))
            if statement and not statement.endswith(f" {routed.limit.native}"):
                return f"Run: {statement}; or change the rows with a transform."
        return ""


class JdbcStaging(SpillStaging[Piece]):
    """Rows on their way into one table, encoded."""

    def __init__(self, route: JdbcRoute, spill: Spill) -> None:
        super().__init__(spill)
        self._route = route

    def put(self, rows: pa.RecordBatch) -> Rejected:
        """Stage rows; rejected ones go to the dead letters."""
        rejected, pieces = self._route.pieces(rows)
        for piece in pieces:
            restore = functools.partial(_with_text, replace(piece, text=b""))
            self.add(piece, len(piece.text), _text, restore)
        return rejected


def _text(piece: Piece) -> Text:
    return piece.text


def _with_text(piece: Piece, text: memoryview) -> Piece:
    return replace(piece, text=text)
