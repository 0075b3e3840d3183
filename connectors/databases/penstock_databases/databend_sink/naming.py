"""Which table the rows of a dataset are in. Pure."""

from __future__ import annotations

from typing import Final

from penstock_connector import ConfigError
from penstock_databases.databend_sink.config import DatabendSinkConfig, database_of
from penstock_databases.databend_sink.sql import NAMING
from penstock_databases.names import TableId

_TOPIC: Final = "${topic}"
_TABLE: Final = "${table}"
_QUOTES: Final = ('"', "`")


def table_of(config: DatabendSinkConfig, dataset: str) -> TableId:
    """Return the table of a dataset, as `table.name.format` has it.

    A topic is a name and never text of SQL: quotes in it are part of the name. Its dots part
    database and table, as in Kafka Connect, unless the format has it in quotes.

    Raises:
        ConfigError: `databend.table_name`, `sql.bad_name`.
    """
    parts: list[str] = []
    for part in NAMING.parts(config.table_name_format):
        quoted = any(f"{q}{part}{q}" in config.table_name_format for q in _QUOTES)
        filled = part.replace(_TABLE, dataset.rpartition(".")[2])
        if _TOPIC in filled and not quoted:
            parts += filled.replace(_TOPIC, dataset).split(".")
        else:
            parts.append(filled.replace(_TOPIC, dataset))
    if len(parts) > 2 or not all(parts):
        raise ConfigError(
            "databend.table_name",
            f"{'.'.join(parts)[:200]!r} is no table: Databend has databases with tables in them",
            fix='Set `table.name.format` to "${topic}" in quotes, or to default.${table}.',
            config_path="table.name.format",
            dataset=dataset,
        )
    database, name = parts if len(parts) > 1 else (database_of(config), parts[0])
    table = TableId(name, catalog=database)
    table.sql(NAMING)  # what cannot be a name is refused before anything is done
    return table
