"""A table as the server tells of it: its columns, its engine, what it remembers of inserts."""

# Names in statements are literals.
# ruff: noqa: S608

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock_analytics.clickhouse_sink.config import ClickHouseSinkConfig
from penstock_analytics.clickhouse_sink.ddl import REMEMBERS
from penstock_analytics.clickhouse_sink.session import Session
from penstock_analytics.clickhouse_sink.sql import literal, table_sql, unquoted
from penstock_analytics.clickhouse_sink.types import column, parted
from penstock_connector import SchemaError
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.names import TableId

_REPLACING: Final = re.compile(r"\w*ReplacingMergeTree\((.*?)\)(?: |$)", re.DOTALL)
_WINDOW: Final = re.compile(r"(?:non_)?replicated_deduplication_window = (\d+)")
_CHECK: Final = re.compile(r"CONSTRAINT \S+ CHECK ")


@dataclass(frozen=True, slots=True)
class Engine:
    """How a table keeps rows.

    Attributes:
        name: MergeTree, ReplacingMergeTree, ….
        version: Its column that says which of the rows of a key counts; empty: none.
        deleted: Its column that says that a row is deleted; empty: none.
        sorted_by: The columns and expressions of its key.
        partitioned_by: The columns that its partition is made from.
        remembers: A token that it has seen is not written again.
        checks: It has constraints.
        wide: The version is a number of 64 bits.
    """

    name: str
    version: str = ""
    deleted: str = ""
    sorted_by: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    remembers: bool = False
    checks: bool = False
    wide: bool = False


def read_engine(session: Session, table: TableId) -> Engine | None:
    """Return how a table keeps rows; None when there is none."""
    rows = session.query(
        "SELECT engine, engine_full, sorting_key, create_table_query FROM system.tables "
        f"WHERE database = {literal(table.catalog)} AND name = {literal(table.name)}"
    )
    if not rows:
        return None
    columns = session.query(
        "SELECT name, type, toUInt8(is_in_partition_key) FROM system.columns WHERE database = "
        f"{literal(table.catalog)} AND table = {literal(table.name)}"
    )
    name, full, sorting, made = (str(one) for one in rows[0])
    partitioned = [str(row[0]) for row in columns if int(row[2])]
    engine = engine_of(name, full, sorting, partitioned, made)
    types = {str(row[0]): str(row[1]) for row in columns}
    return replace(engine, wide=types.get(engine.version) in {"UInt64", "Int64"})


def engine_of(name: str, full: str, sorting: str, partitioned: Sequence[str], made: str) -> Engine:
    """Return what the texts of `system.tables` say. Pure."""
    match = _REPLACING.match(full)
    listed = parted(match[1]) if match else []
    arguments = [unquoted(one) for one in listed if one and not one.startswith("'")]
    version, deleted = (*arguments, "", "")[:2]
    window = _WINDOW.search(full)
    shared = name.startswith(("Replicated", "Shared"))
    remembers = int(window[1]) > 0 if window else shared
    inside = sorting[1:-1] if sorting.startswith("(") and sorting.endswith(")") else sorting
    keys = tuple(unquoted(one) for one in parted(inside) if one)
    merges = name.endswith("MergeTree")
    return Engine(
        name,
        version,
        deleted,
        keys,
        tuple(partitioned),
        merges and remembers,
        bool(_CHECK.search(made)),
    )


def read_shape(session: Session, table: TableId, config: ClickHouseSinkConfig) -> Shape | None:
    """Return a table's columns, without those that the sink writes itself."""
    engine = read_engine(session, table)
    if engine is None:
        return None
    rows = session.query(
        "SELECT name, type, default_kind, comment FROM system.columns WHERE database = "
        f"{literal(table.catalog)} AND table = {literal(table.name)} ORDER BY position"
    )
    ours = {engine.version, engine.deleted} if config.changes_rows else set()
    columns = []
    for name, native, default, note in ([str(part) for part in row] for row in rows):
        if name in ours:
            continue
        place = engine.sorted_by.index(name) + 1 if name in engine.sorted_by else 0
        generated = default in {"MATERIALIZED", "ALIAS"}
        empty = native.startswith(("Array(", "Map(", "Tuple(", "JSON"))  # these have no null
        filled = bool(default) or empty
        columns.append(column(name, native, note, key=place, default=filled, generated=generated))
    return Shape(table, tuple(columns))


def require_fit(
    engine: Engine, table: TableId, config: ClickHouseSinkConfig, keys: Sequence[str]
) -> None:
    """Refuse a table whose engine would lose rows, or write them twice. Pure.

    Raises:
        SchemaError: `clickhouse.engine`, `clickhouse.no_version`, `clickhouse.no_deleted`,
            `clickhouse.sorting_key`, `clickhouse.partition_key`, `clickhouse.forgets`,
            `clickhouse.constraint`.
    """
    if config.changes_rows:
        _require_versions(engine, table, config, keys)
    elif config.exactly_once and not engine.remembers:
        if engine.name.endswith("MergeTree"):
            raise SchemaError(
                "clickhouse.forgets",
                f"{table}: the table does not remember inserts (a window of 0), and one that is "
                "made again after a crash would be there twice",
                fix=f"Run: ALTER TABLE {table_sql(table)} MODIFY SETTING {REMEMBERS} — or set "
                "`exactlyOnce=false`.",
                config_path="exactlyOnce",
            )
        raise SchemaError(
            "clickhouse.engine",
            f"{table}: its engine is {engine.name}, and only those of the MergeTree family "
            "remember inserts",
            fix="Name the MergeTree behind it in `topic2TableMap`, or set `exactlyOnce=false`.",
            config_path="exactlyOnce",
        )
    if config.exactly_once and engine.checks:
        raise SchemaError(
            "clickhouse.constraint",
            f"{table}: the table has a CHECK constraint, which could refuse rows after their "
            "offsets are stored",
            fix="Drop the constraint and leave rows out with the transform Filter, or set "
            "`exactlyOnce=false`.",
            config_path="exactlyOnce",
        )


def _require_versions(
    engine: Engine, table: TableId, config: ClickHouseSinkConfig, keys: Sequence[str]
) -> None:
    if not engine.wide:
        raise SchemaError(
            "clickhouse.no_version",
            f"{table}: its engine is {engine.name} without a version of 64 bits, and rows are "
            "replaced by their version alone",
            fix="Make it with ENGINE = ReplacingMergeTree(_version, is_deleted), columns UInt64 "
            "and UInt8; or set `insert.mode=insert` and `delete.enabled=false`.",
            config_path="insert.mode",
        )
    if config.delete_enabled and not engine.deleted:
        raise SchemaError(
            "clickhouse.no_deleted",
            f"{table}: ReplacingMergeTree({engine.version}) has no column for deletions",
            fix=f"Make it with ENGINE = ReplacingMergeTree({engine.version}, is_deleted), or set "
            "`delete.enabled=false`.",
            config_path="delete.enabled",
        )
    if keys and set(engine.sorted_by) != set(keys):
        raise SchemaError(
            "clickhouse.sorting_key",
            f"{table}: rows have the key ({', '.join(keys)}), the table is ordered by "
            f"({', '.join(engine.sorted_by)}), by which it replaces rows",
            fix="Correct `pk.fields`, or make the table anew with ORDER BY of the key.",
            config_path="pk.fields",
        )
    outside = set(engine.partitioned_by) - set(keys)
    if keys and outside:
        raise SchemaError(
            "clickhouse.partition_key",
            f"{table}: its partition is made of {', '.join(sorted(outside))}, which is not of the "
            "key, and rows are replaced inside of a partition only",
            fix="Make the table anew with PARTITION BY of the key's columns, or without.",
        )
