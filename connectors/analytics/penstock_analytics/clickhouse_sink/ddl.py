"""Statements that make tables of ClickHouse, and their columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock_analytics.clickhouse_sink.config import ClickHouseSinkConfig
from penstock_analytics.clickhouse_sink.sql import format_name, format_table, literal
from penstock_analytics.clickhouse_sink.types import column_type, comment
from penstock_connector import SchemaError
from penstock_connector.tables.evolution import NewColumn
from penstock_connector.tables.names import TableId

WINDOW: Final = 1000
"""Last inserts whose tokens a table remembers."""

REMEMBERS: Final = f"non_replicated_deduplication_window = {WINDOW}"


class ClickHouseDdl:
    """See `evolution.Ddl`. Raises `clickhouse.type` for a field that ClickHouse has no type for."""

    def __init__(self, config: ClickHouseSinkConfig) -> None:
        self._config = config

    def create(self, table: TableId, columns: Sequence[NewColumn]) -> str:
        """Return the statement that makes a table."""
        config = self._config
        listed = [self._column(column) for column in columns]
        engine = "MergeTree"
        keys = [format_name(column.field.name) for column in columns if column.key]
        order = f"({', '.join(keys)})" if len(keys) > 1 else keys[0] if keys else "tuple()"
        if config.changes_rows:
            version, deleted = (
                format_name(config.version_column),
                format_name(config.deleted_column),
            )
            listed += [f"{version} UInt64", f"{deleted} UInt8"]
            engine = f"ReplacingMergeTree({version}, {deleted})"
        return (
            f"CREATE TABLE IF NOT EXISTS {format_table(table)} ({', '.join(listed)}) "
            f"ENGINE = {engine} ORDER BY {order} SETTINGS {REMEMBERS}"
        )

    def add(self, table: TableId, columns: Sequence[NewColumn]) -> list[str]:
        """Return the statement that adds columns: one, so that all are there or none."""
        added = ", ".join(f"ADD COLUMN IF NOT EXISTS {self._column(column)}" for column in columns)
        return [f"ALTER TABLE {format_table(table)} {added}"]

    def _column(self, column: NewColumn) -> str:
        config, name = self._config, column.field.name
        if config.changes_rows and name in {config.version_column, config.deleted_column}:
            which = "version.column" if name == config.version_column else "deleted.column"
            raise SchemaError(
                "clickhouse.reserved_column",
                f"rows have a field {name!r}, and the sink writes that column itself",
                fix=f"Set `{which}` to another name, or rename the field with a transform.",
                config_path=which,
            )
        native = column_type(
            column.field, key=column.key, structs_as_json=config.structs_as_json
        ).replace("%", "%%")
        note = comment(column.field)
        return f"{format_name(name)} {native}{f' COMMENT {literal(note)}' if note else ''}"
