"""The rows of a transaction as files for Databend, and the statements that write them.

Columns of staged files are `c0`, `c1`, …: Databend cannot select names with quotes from Parquet.
Statements are MERGE and not REPLACE, which would set columns to null that rows do not bring. They
are written so that each key is in one of them: their order is deletions first, then rows.
"""

# Names in statements are quoted by `sql`, rows are in files.
# ruff: noqa: S608

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock_databases.changes import effect
from penstock_databases.databend_sink.route import Lane, Route
from penstock_databases.databend_sink.sql import quoted, staged_rows, table_sql
from penstock_databases.databend_sink.staging import DatabendStaging, disk
from penstock_databases.databend_sink.types import is_json


class Verb(Enum):
    """What is done with rows."""

    TRUNCATE = "truncate"
    DELETE = "delete"
    INSERT = "insert"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True)
class Write:
    """One statement, and its rows."""

    verb: Verb
    route: Route
    rows: pa.Table

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The columns of its file."""
        return self.route.key if self.verb is Verb.DELETE else self.route.lanes


def writes(staged: Sequence[DatabendStaging], *, upsert: bool) -> Iterator[Write]:
    """Yield what a transaction comes to. Its tables are independent of each other."""
    tables: dict[object, list[tuple[Route, pa.Table]]] = {}
    for staging in staged:
        rows = staging.rows()
        if rows is not None and rows.num_rows:
            tables.setdefault(staging.route.table, []).append((staging.route, rows))
    for parts in tables.values():
        yield from _table_writes(parts, upsert=upsert)


def _table_writes(parts: list[tuple[Route, pa.Table]], *, upsert: bool) -> Iterator[Write]:
    first = parts[0][0]
    verb = Verb.UPSERT if upsert else Verb.INSERT
    keys = [_joined(parts, f"c{n}") for n in range(len(first.key))]
    ops = _joined(parts, "op") if first.deletes else None
    left = effect(ops, keys, merge=upsert)
    if left.truncate:
        yield Write(Verb.TRUNCATE, first, parts[0][1].slice(0, 0))
    if len(left.delete):
        names = [f"c{n}" for n in range(len(keys))]
        yield Write(Verb.DELETE, first, pa.table([key.take(left.delete) for key in keys], names))
    ends = [0, *itertools.accumulate(rows.num_rows for _, rows in parts)]
    for start, run in _runs(parts):
        rows = pa.concat_tables([rows for _, rows in run])
        kept = _numbers(left.write, ends[start], ends[start] + rows.num_rows)
        rows = rows if kept is None else rows.take(kept)
        if rows.num_rows:
            yield Write(verb, run[0][0], rows)


def _runs(
    parts: list[tuple[Route, pa.Table]],
) -> Iterator[tuple[int, list[tuple[Route, pa.Table]]]]:
    """Yield neighbours that have the same columns, and the number of the first."""
    for _, run in itertools.groupby(enumerate(parts), lambda part: part[1][0]):
        numbered = list(run)
        yield numbered[0][0], [part for _, part in numbered]


def _joined(parts: list[tuple[Route, pa.Table]], name: str) -> pa.Array:
    chunks = [chunk for _, rows in parts for chunk in rows.column(name).chunks]
    return pa.chunked_array(chunks).combine_chunks()


def _numbers(kept: pa.Array | None, start: int, end: int) -> pa.Array | None:
    """Return the numbers of rows of a part, counted in it; None: all."""
    if kept is None:
        return None
    numbers = kept.to_numpy(zero_copy_only=False)
    inside = numbers[(numbers >= start) & (numbers < end)]
    return pa.array(inside - start, pa.int64())


def parquet(write: Write) -> BinaryIO:
    """Return a file with the rows of a write. It has no name, and is gone when it is closed."""
    names = [f"c{n}" for n in range(len(write.lanes))]
    rows = write.rows.select(names)
    fields = [
        field.with_nullable(lane.column.nullable and lane not in write.route.key)
        for field, lane in zip(rows.schema, write.lanes, strict=True)
    ]
    file = tempfile.TemporaryFile()  # noqa: SIM115 - its owner closes it
    with disk():
        pq.write_table(rows.cast(pa.schema(fields)), file, compression="zstd")
    return file


def statement(write: Write, name: str) -> str:
    """Return the statement for a write whose rows are staged under a name."""
    table = table_sql(write.route.table)
    columns = [quoted(lane.column.name) for lane in write.lanes]
    selected = ", ".join(
        f"parse_json(c{n}) AS c{n}" if is_json(lane.column.native) else f"c{n}"
        for n, lane in enumerate(write.lanes)
    )
    rows = f"SELECT {selected} FROM {staged_rows(name)}"
    match write.verb:
        case Verb.TRUNCATE:
            return f"DELETE FROM {table}"
        case Verb.INSERT:
            return f"INSERT INTO {table} ({', '.join(columns)}) {rows}"
        case _:
            return f"MERGE INTO {table} AS t USING ({rows}) AS s ON {_merge(write, columns)}"


def _merge(write: Write, columns: list[str]) -> str:
    count = len(write.route.key)
    found = " AND ".join(f"t.{column} = s.c{n}" for n, column in enumerate(columns[:count]))
    if write.verb is Verb.DELETE:
        return f"{found} WHEN MATCHED THEN DELETE"
    others = [f"{c} = s.c{n}" for n, c in enumerate(columns) if n >= count]
    update = f"WHEN MATCHED THEN UPDATE SET {', '.join(others)} " if others else ""
    values = ", ".join(f"s.c{n}" for n in range(len(columns)))
    insert = f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    return f"{found} {update}{insert}"
