"""Which table the rows of a dataset are in. Pure."""

from __future__ import annotations

import re
from typing import Final

from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.names import Naming

_SIMPLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_TOPIC: Final = "${topic}"
_QUOTES: Final = '"`'


def table_parts(config: JdbcSinkConfig, dataset: str, naming: Naming) -> tuple[str, ...]:
    """Return the parts of a table's name, as `table.name.format` has it.

    A topic is a name and never text of SQL: quotes in it are part of the name. Its dots part
    schema and table, as in Kafka Connect, unless the format has it in quotes.
    """
    topic = dataset
    if config.table_name_normalize:
        topic = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    parts: list[str] = []
    for part in naming.parts(config.table_name_format):
        quoted = any(f"{q}{part}{q}" in config.table_name_format for q in _QUOTES)
        filled = part.replace("${table}", topic.rpartition(".")[2])
        if _TOPIC not in filled:
            parts.append(filled)
        elif quoted:
            parts.append(filled.replace(_TOPIC, topic))
        else:
            parts += filled.replace(_TOPIC, topic).split(".")
    return tuple(cased(config, part, naming) for part in parts)


def cased(config: JdbcSinkConfig, name: str, naming: Naming) -> str:
    """Return a name as the database would have it that a person wrote without quotes."""
    unquoted = config.quote_sql_identifiers == "never" and naming.database == "PostgreSQL"
    return name.lower() if unquoted and _SIMPLE.fullmatch(name) else name
