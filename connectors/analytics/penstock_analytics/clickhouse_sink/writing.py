"""The writes of a transaction as inserts, each of one block and with a token of its own.

ClickHouse has no transactions. An insert of one block is there whole or not at all (in each
partition), and a table that remembers tokens takes an insert that comes again for done. So rows are
staged in a table that nobody reads, and a transaction is a list of steps which can be made again at
any time: `INSERT … SELECT` of a staged block, by its token. Rows that are replaced or deleted are
rows of a higher version, and so is a table that is emptied.
"""

# Names in statements are quoted by `sql`, rows are in bodies.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from penstock_analytics.clickhouse_sink.catalog import Engine
from penstock_analytics.clickhouse_sink.ddl import REMEMBERS
from penstock_analytics.clickhouse_sink.sql import quoted, table_sql
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.names import TableId
from penstock_connector.tables.routing import RoutedColumn
from penstock_connector.tables.writes import Write

_BLOCK_BYTES: Final = 64 << 20
"""Bytes of rows of an insert, about: a server holds several in memory."""

_CHUNK: Final = "__chunk"

_ONE_BLOCK: Final = {
    "max_insert_threads": "1",
    "max_threads": "1",
    "min_insert_block_size_rows": "100000000",
    "min_insert_block_size_bytes": "0",
}
"""What is selected is squashed into one block: so each time it is the same one."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a transaction that can be made again.

    Attributes:
        staging: The table with its rows, as it stands in SQL; empty: it needs none.
        table: The table that they go to, for people.
        statement: What is run, for each block; of staged rows, its number comes at the end.
        chunks: How many blocks there are.
        token: Names the step: with the number of a block, the token of an insert.
    """

    staging: str
    table: str
    statement: str
    chunks: int
    token: str

    def stored(self) -> dict[str, Any]:
        """Return it as it stands in the commit row."""
        return asdict(self)

    def inserts(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield statements with their settings. Their order does not matter."""
        for chunk in range(self.chunks):
            number = str(chunk) if self.staging else ""
            yield self.statement + number, settings(self.token, chunk)


def settings(token: str, chunk: int) -> dict[str, str]:
    """Return the settings of an insert that may come again."""
    return {**_ONE_BLOCK, "insert_deduplication_token": f"{token}-{chunk}"}


def marks(write: Write, engine: Engine, version: int) -> dict[str, int]:
    """Return the columns that the sink itself writes, and their values."""
    if not engine.version or (not write.route.config.delete_enabled and write.verb is Verb.INSERT):
        return {}
    found = {engine.version: version}
    if engine.deleted:
        found[engine.deleted] = int(write.verb is Verb.DELETE)
    return found


def staging_table(write: Write, name: TableId) -> str:
    """Return the statement that makes a table for the rows of a write."""
    columns = [f"c{n} {routed.column.native}" for n, routed in enumerate(write.columns)]
    return (
        f"CREATE TABLE IF NOT EXISTS {table_sql(name)} ({', '.join(columns)}, {_CHUNK} UInt32) "
        f"ENGINE = MergeTree ORDER BY {_CHUNK} SETTINGS {REMEMBERS}"
    )


def staging_insert(write: Write, name: TableId) -> str:
    """Return the statement that stages a block."""
    columns = [f"c{n}" for n in range(len(write.columns))]
    return f"INSERT INTO {table_sql(name)} ({', '.join([*columns, _CHUNK])}) FORMAT ArrowStream"


def step(write: Write, name: TableId, marked: dict[str, int], chunks: int, token: str) -> Step:
    """Return what brings staged rows into their table."""
    table = table_sql(write.route.table)
    columns = [*_columns(write.columns), *map(quoted, marked)]
    selected = [f"c{n}" for n in range(len(write.columns))] + [str(one) for one in marked.values()]
    statement = (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(selected)} "
        f"FROM {table_sql(name)} WHERE {_CHUNK} = "
    )
    return Step(table_sql(name), str(write.route.table), statement, chunks, token)


def emptying(write: Write, engine: Engine, version: int, token: str) -> Step:
    """Return what empties a table: each of its keys is deleted, unless it has a newer version."""
    table = table_sql(write.route.table)
    keys = _columns(write.route.key)
    columns = [*keys, quoted(engine.version), quoted(engine.deleted)]
    statement = (
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(keys)}, {version - 1}, 1 "
        f"FROM {table} FINAL WHERE {quoted(engine.version)} < {version - 1}"
    )
    return Step("", str(write.route.table), statement, 1, token)


def direct_insert(write: Write, marked: dict[str, int]) -> str:
    """Return the statement that writes a block into its table at once."""
    columns = [*_columns(write.columns), *map(quoted, marked)]
    return f"INSERT INTO {table_sql(write.route.table)} ({', '.join(columns)}) FORMAT ArrowStream"


def blocks(rows: pa.Table, most_rows: int) -> Iterator[pa.Table]:
    """Yield parts of rows that are one insert each."""
    per_row = max(1, rows.nbytes // max(1, rows.num_rows))
    size = max(1, min(most_rows, _BLOCK_BYTES // per_row))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def arrow(rows: pa.Table, names: Sequence[str], added: dict[str, pa.Scalar]) -> bytes:
    """Return rows as a stream of Arrow, with columns that have one value."""
    columns = [*rows.columns, *(pa.repeat(one, rows.num_rows) for one in added.values())]
    table = pa.table(columns, names=[*names, *added]).combine_chunks()
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def staged(rows: pa.Table, chunk: int) -> bytes:
    """Return a block for a staging table."""
    return arrow(rows, rows.column_names, {_CHUNK: pa.scalar(chunk, pa.uint32())})


def named(write: Write, rows: pa.Table, marked: dict[str, int]) -> bytes:
    """Return a block for its table."""
    names = [routed.column.name for routed in write.columns]
    return arrow(rows, names, {name: pa.scalar(one, pa.uint64()) for name, one in marked.items()})


def _columns(routed: Sequence[RoutedColumn]) -> list[str]:
    return [quoted(one.column.name) for one in routed]
