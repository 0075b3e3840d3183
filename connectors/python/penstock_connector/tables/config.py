"""The keys of a table sink: Kafka Connect's, with their meanings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from penstock_connector import ConfigError, ConnectorError, key
from penstock_connector.connection import ConnectionKeys
from penstock_connector.tables.changes import Verb

COORDINATES: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
"""Columns of `pk.mode=kafka` when `pk.fields` names no others."""


@dataclass(frozen=True)
class TableKeys(ConnectionKeys):
    """Where the tables are, and how rows are written.

    A subclass adds the keys of its database, and redefines those of which it has fewer choices.

    Attributes:
        code_prefix: What the codes of its errors begin with.
        other_codes: Codes that are not `<prefix>.<name>`, by their name.
    """

    code_prefix: ClassVar[str]
    other_codes: ClassVar[Mapping[str, str]] = {}

    insert_mode: str = key(
        "insert",
        doc="`insert` appends, `upsert` replaces the columns of the row with the same key.",
        choices=("insert", "upsert"),
        group="Writes",
        importance="high",
    )
    delete_enabled: bool = key(
        False,
        doc="Delete the rows whose deletion arrives, and empty a table that was truncated. Needs a "
        "`pk.mode` that finds rows: `record_key` or `record_value`.",
        group="Writes",
    )
    pk_mode: str = key(
        "none",
        doc="Where a row's key comes from: `none`, `record_key` (the key of the record; tables "
        "without one are only appended to), `record_value` (fields of the row).",
        choices=("none", "record_key", "record_value"),
        group="Data mapping",
        importance="high",
    )
    pk_fields: tuple[str, ...] = key(
        (),
        doc="Fields of the key. `record_key`: all of its fields when empty, and the name of the "
        "column when the key is a single value; `record_value`: all fields when empty.",
        group="Data mapping",
    )
    fields_whitelist: tuple[str, ...] = key(
        (),
        doc="Fields of a row that are written, beside the key; all when empty.",
        group="Data mapping",
    )
    table_name_format: str = key(
        "${topic}",
        doc="The table: ${topic} is the rows' topic, split into schema or database and table at "
        'its dots unless it stands in quotes ("${topic}"); ${table} is what follows its last dot.',
        group="Data mapping",
    )
    auto_create: bool = key(False, doc="Make a table that is missing.", group="DDL")
    auto_evolve: bool = key(False, doc="Add columns that are missing.", group="DDL")
    max_retries: int = key(10, doc="Most attempts to write a transaction again.", group="Retries")
    retry_backoff_ms: float = key(
        3.0, doc="Longest time between these attempts.", type="duration", group="Retries"
    )

    @property
    def verb(self) -> Verb:
        """What is done with rows that are not deleted."""
        return Verb(self.insert_mode)

    def code(self, name: str) -> str:
        """Return the code of an error."""
        return self.other_codes.get(name, f"{self.code_prefix}.{name}")

    def problems(self) -> Iterator[ConnectorError]:
        """Yield what contradicts itself, for `validate`. Pure."""
        if self.verb is not Verb.INSERT and self.pk_mode == "none":
            yield self.wrong(
                "pk_mode",
                f"`insert.mode={self.insert_mode}` has to know by which key a row is found",
                "Set `pk.mode` to record_key or record_value.",
                "pk.mode",
            )
        if self.delete_enabled and self.pk_mode not in {"record_key", "record_value"}:
            yield self.wrong(
                "delete_needs_key",
                f"`delete.enabled` cannot find rows with `pk.mode={self.pk_mode}`",
                "Set `pk.mode` to record_key.",
                "delete.enabled",
            )
        if self.pk_mode == "kafka" and len(self.pk_fields) not in {0, len(COORDINATES)}:
            yield self.wrong(
                "pk_fields",
                "`pk.mode=kafka` has three columns: topic, partition and offset",
                "Name three columns in `pk.fields`, or none.",
                "pk.fields",
            )
        if self.connection_attempts < 1 or self.max_retries < 0:
            yield self.wrong(
                "negative",
                "`connection.attempts` is at least 1, `max.retries` at least 0",
                "Correct the number.",
                "max.retries",
            )

    def wrong(self, name: str, message: str, fix: str, path: str) -> ConfigError:
        """Return the error of a value that cannot mean anything."""
        return ConfigError(self.code(name), message, fix=fix, config_path=path)
