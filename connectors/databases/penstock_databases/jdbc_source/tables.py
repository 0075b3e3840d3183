"""Which tables are read, and what their partitions and datasets are called."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from penstock_connector import ConfigError, Partition, Pattern
from penstock_connector.tables.names import Naming, TableId
from penstock_databases.dialect import Connection
from penstock_databases.jdbc_source.config import JdbcSourceConfig
from penstock_databases.jdbc_source.table_modes import find_mode

_log = logging.getLogger(__name__)

_PLAIN = re.compile(r"[^.\"`]+")


def planned(config: JdbcSourceConfig, connection: Connection) -> list[Partition]:
    """Return a partition for each table, or the one of the query."""
    if config.query:
        digest = blake2b(config.query.encode(), digest_size=8).hexdigest()
        return [Partition({"query": digest}, datasets=(config.topic_prefix,))]
    tables = chosen(config, find_tables(config, connection))
    for text in modes_without_table(config, tables):
        _log.warning("table.modes: no table has its mode by %r", text)
    return [
        Partition(
            {"table": text_of(table, config.dialect.naming)},
            payload=json.dumps([table.catalog, table.schema, table.name]).encode(),
            datasets=(dataset_of(config, table),),
        )
        for table in tables
    ]


def find_tables(config: JdbcSourceConfig, connection: Connection) -> list[TableId]:
    """Return the tables of the databases that the configuration looks in, of its kinds."""
    everywhere = config.catalog_pattern is not None
    return config.dialect.tables(connection, config.table_types, everywhere=everywhere)


def table_of(partition: Partition, naming: Naming) -> TableId:
    """Return the table of a partition; one that is named by its key alone, too."""
    if partition.payload:
        catalog, schema, name = json.loads(partition.payload)
        return TableId(name, schema=schema, catalog=catalog)
    *above, name = naming.parts(str(partition.key["table"]))
    place = above[-1] if above else ""
    if naming.quote == '"':
        return TableId(name, schema=place)
    return TableId(name, catalog=place)


def config_of(config: JdbcSourceConfig, partition: Partition) -> JdbcSourceConfig:
    """Return the configuration of a table: its mode may be another than that of the others."""
    if "table" not in partition.key:
        return config
    mode = find_mode(config.modes, _names(table_of(partition, config.dialect.naming)))
    return config if mode is None else config.in_mode(mode)


def modes_without_table(config: JdbcSourceConfig, tables: Sequence[TableId]) -> list[str]:
    """Return the items of `table.modes` that no table takes its mode from."""
    modes = config.modes
    used = {id(find_mode(modes, _names(table))) for table in tables}
    return [
        text for text, mode in zip(config.table_modes, modes, strict=True) if id(mode) not in used
    ]


def check_key(partition: Partition, *, is_query: bool) -> None:
    """Refuse a partition that is none of this connector.

    Raises:
        ConfigError: `jdbc.bad_partition`.
    """
    field = "query" if is_query else "table"
    if partition.key.keys() != {field} or not isinstance(partition.key[field], str):
        raise ConfigError(
            "jdbc.bad_partition",
            f"{str(dict(partition.key))[:500]} is no partition of this connector",
            fix=f'One is {{"{field}": "…"}}, as those that have an offset already.',
        )


def text_of(table: TableId, naming: Naming) -> str:
    """Return a table's name as `table.whitelist` takes it: parts with dots or quotes are quoted."""
    parts = [part for part in (table.catalog, table.schema, table.name) if part]
    quote = naming.quote
    return ".".join(
        part if _PLAIN.fullmatch(part) else quote + part.replace(quote, quote * 2) + quote
        for part in parts
    )


def dataset_of(config: JdbcSourceConfig, table: TableId | None) -> str:
    """Return the dataset of a table's rows; without a table, of the query's."""
    return config.topic_prefix + (table.name if table else "")


def chosen(config: JdbcSourceConfig, tables: Sequence[TableId]) -> list[TableId]:
    """Return the tables that the configuration means.

    Raises:
        ConfigError: `config.slow_pattern`.
    """
    within = [table for table in tables if _is_within(config, table)]
    naming = config.dialect.naming
    if config.table_whitelist:
        wanted = [naming.parts(text) for text in config.table_whitelist]
        within = [table for table in within if _is_named(table, wanted, within)]
    if config.table_blacklist:
        unwanted = [naming.parts(text) for text in config.table_blacklist]
        within = [table for table in within if not _is_named(table, unwanted, within)]
    included, excluded = config.included, config.excluded
    if included:
        within = [table for table in within if _fits(table, included)]
    return [table for table in within if not _fits(table, excluded)]


def _is_within(config: JdbcSourceConfig, table: TableId) -> bool:
    patterns = (
        ("catalog.pattern", config.catalog_pattern, table.catalog),
        ("schema.pattern", config.schema_pattern, table.schema),
    )
    return all(text is None or _like(text, key).matches(place) for key, text, place in patterns)


def _like(pattern: str, key: str) -> Pattern:
    """Return what a pattern of JDBC's metadata means: % is anything, _ one character."""
    tokens = re.findall(r"\\.|.", pattern, re.DOTALL)
    made = "".join({"%": ".*", "_": "."}.get(t, re.escape(t.removeprefix("\\"))) for t in tokens)
    return Pattern.compile(made, key)


def _is_named(table: TableId, names: Iterable[tuple[str, ...]], others: Sequence[TableId]) -> bool:
    """Return whether a table is named: `table`, `schema.table`, `database.table`. The case of a
    name counts only when several tables differ in nothing else.
    """
    parts = _parts(table)
    for name in names:
        if parts[-len(name) :] == name:
            return True
        folded = tuple(part.lower() for part in name)
        exact = any(_parts(other)[-len(name) :] == name for other in others)
        if not exact and tuple(p.lower() for p in parts)[-len(name) :] == folded:
            return True
    return False


def _parts(table: TableId) -> tuple[str, ...]:
    return tuple(part for part in (table.catalog, table.schema, table.name) if part)


def _fits(table: TableId, patterns: Iterable[Pattern]) -> bool:
    """Return whether a pattern means a table: all of `database.table`, or all of its name."""
    return any(pattern.matches(text) for pattern in patterns for text in _names(table))


def _names(table: TableId) -> tuple[str, str]:
    """Return the names by which patterns mean a table."""
    return (str(table), table.name)


def no_tables(config: JdbcSourceConfig) -> ConfigError:
    """Return the error of a configuration that means no table, now."""
    return ConfigError(
        "jdbc.no_tables",
        f"{config.target} has no table that the configuration means",
        fix="Correct `table.whitelist`, `table.types`, `schema.pattern` or `catalog.pattern`; the "
        "user may also lack the right to see them.",
        config_path="table.whitelist",
    )
