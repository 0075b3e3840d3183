"""Rows on their way into one table, encoded as the database reads them. Pure.

Encoding in `put` lets it run for several slots at a time, and lets the rows' Arrow memory go.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector.staging import Spill, SpillStaging, without_rejected
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
        identity = key or _primary(columns, unique)
        self._layout = Layout(shape.table, columns, key, alone, direct, identity)
        by_key = columns[: len(self._route.key)]
        self._by_key = Layout(shape.table, by_key, key, alone, identity=key)
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


def _primary(columns: Sequence[Column], unique: Sequence[frozenset[str]]) -> tuple[str, ...]:
    """Return the names of the columns of the first unique index that rows have whole."""
    names = [column.name for column in columns]
    found: frozenset[str] = next((one for one in unique if one <= set(names)), frozenset())
    return tuple(name for name in names if name in found)


_NUMBER: Final = "penstock number"


class JdbcStaging(SpillStaging[Piece]):
    """Rows on their way into one table, encoded. Where failed rows are tolerated, the rows are kept
    as they came, too: `keeps_rows`.
    """

    def __init__(self, route: JdbcRoute, spill: Spill, *, keeps_rows: bool = False) -> None:
        super().__init__(spill)
        self._route = route
        self._originals = SpillStaging[pa.RecordBatch](spill) if keeps_rows else None
        self._count = 0

    def put(self, rows: pa.RecordBatch) -> Rejected:
        """Stage rows; rejected ones go to the dead letters."""
        rejected, pieces = self._route.pieces(rows)
        self._add_pieces(pieces)
        if self._originals is not None:
            numbers = pc.add(
                pc.indices_nonzero(pa.repeat(True, rows.num_rows)),
                pa.scalar(self._count, pa.uint64()),
            )
            numbered = rows.append_column(_NUMBER, numbers)
            self._originals.add_batch(without_rejected(numbered, rejected))
        self._count += rows.num_rows
        return rejected

    def pieces(self, rows: pa.RecordBatch) -> list[Piece]:
        """Return what is done with rows that were put."""
        return self._route.pieces(rows)[1]

    def originals(self) -> Iterator[tuple[pa.RecordBatch, pa.UInt64Array]]:
        """Yield the rows as they were put, with their numbers among all of them."""
        for numbered in self._originals.parts() if self._originals is not None else ():
            yield numbered.drop_columns([_NUMBER]), numbered.column(_NUMBER)

    def leave_out(self, rows: AbstractSet[int]) -> None:
        """Remove rows. What they were merged with is encoded anew."""
        assert self._originals is not None  # noqa: S101 - else no row is named
        gone = pa.array(sorted(rows), pa.uint64())
        parts = self._originals.parts()
        self._originals.discard()
        super().discard()
        for numbered in parts:
            kept = numbered.filter(pc.invert(pc.is_in(numbered.column(_NUMBER), gone)))
            self._originals.add_batch(kept)
            self._add_pieces(self.pieces(kept.drop_columns([_NUMBER])))
        self.close()

    def close(self) -> None:
        """End it: no more rows come."""
        super().close()
        if self._originals is not None:
            self._originals.close()

    def discard(self) -> None:
        """Remove it: it does not count, or is written."""
        super().discard()
        if self._originals is not None:
            self._originals.discard()

    def _add_pieces(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            restore = functools.partial(_with_text, replace(piece, text=b""))
            self.add(piece, len(piece.text), _text, restore)


def _text(piece: Piece) -> Text:
    return piece.text


def _with_text(piece: Piece, text: memoryview) -> Piece:
    return replace(piece, text=text)
