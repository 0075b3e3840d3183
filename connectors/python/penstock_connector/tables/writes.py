"""What the staged rows of a transaction come to: a few statements for each table. Pure.

Each key is in one statement of a table at most, so their order is always the same: the table is
emptied, keys are deleted, rows are written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector.tables.changes import Verb, effect
from penstock_connector.tables.routing import Route, RoutedColumn


@dataclass(frozen=True, slots=True)
class Write:
    """One statement, and its rows.

    Attributes:
        verb: What is done.
        route: Where the rows go.
        rows: Columns `c0`, `c1`, … of `columns`; none for TRUNCATE.
    """

    verb: Verb
    route: Route
    rows: pa.Table

    @property
    def columns(self) -> tuple[RoutedColumn, ...]:
        """The table's columns that the rows have."""
        return self.route.key if self.verb is Verb.DELETE else self.route.columns


def plan_writes(staged: Sequence[tuple[Route, Sequence[pa.RecordBatch]]]) -> Iterator[Write]:
    """Yield what a transaction comes to. Its tables are independent of each other.

    Args:
        staged: The rows that count, as `Route.fit` made them, in their order.
    """
    tables: dict[object, list[tuple[Route, pa.Table]]] = {}
    for route, batches in staged:
        if any(batch.num_rows for batch in batches):
            parts = tables.setdefault(route.table, [])
            parts.append((route, pa.Table.from_batches(batches)))
    for parts in tables.values():
        yield from _table_writes(parts)


def _table_writes(parts: list[tuple[Route, pa.Table]]) -> Iterator[Write]:
    first = parts[0][0]
    verb = first.config.verb
    names = [f"c{number}" for number in range(len(first.key))]
    keys = [_joined(parts, name) for name in names]
    ops = _joined(parts, "op") if first.config.delete_enabled else None
    left = effect(ops, keys, merge=verb is not Verb.INSERT)
    if left.truncate:
        yield Write(Verb.TRUNCATE, first, pa.table({}))
    if len(left.delete):
        yield Write(Verb.DELETE, first, pa.table([key.take(left.delete) for key in keys], names))
    ends = [0, *itertools.accumulate(rows.num_rows for _, rows in parts)]
    for start, run in _runs(parts):
        rows = pa.concat_tables([rows for _, rows in run])
        kept = _inside(left.write, ends[start], ends[start] + rows.num_rows)
        rows = rows if kept is None else rows.take(kept)
        if rows.num_rows:
            route = run[0][0]
            names = [f"c{number}" for number in range(len(route.columns))]
            yield Write(verb, route, rows.select(names))


def _runs(
    parts: list[tuple[Route, pa.Table]],
) -> Iterator[tuple[int, list[tuple[Route, pa.Table]]]]:
    """Yield neighbours that have the same columns, and the number of the first."""
    for _, run in itertools.groupby(enumerate(parts), lambda part: part[1][0].columns):
        numbered = list(run)
        yield numbered[0][0], [part for _, part in numbered]


def _joined(parts: list[tuple[Route, pa.Table]], name: str) -> pa.Array:
    chunks = [chunk for _, rows in parts for chunk in rows.column(name).chunks]
    return pa.chunked_array(chunks).combine_chunks()


def _inside(kept: pa.Array | None, start: int, end: int) -> pa.Array | None:
    """Return the numbers of rows of a part, counted in it; None: all."""
    if kept is None:
        return None
    inside = pc.and_(pc.greater_equal(kept, start), pc.less(kept, end))
    return pc.subtract(kept.filter(inside), start)
