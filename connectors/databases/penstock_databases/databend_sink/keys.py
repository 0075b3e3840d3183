"""Which fields of a row are its key, and which its other columns: `pk.mode`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock_connector import ConfigError, SchemaError
from penstock_databases.databend_sink.config import DatabendSinkConfig

KEY: Final = "__key"
OP: Final = "__op"
_RESERVED: Final = "__"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column of a table is in rows.

    Attributes:
        field: Name of the table's column, type and meaning of its values.
        path: Names of a column of the rows, and of a field in it.
    """

    field: pa.Field
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """What of a row is written: the key's columns, and the others."""

    key: tuple[Place, ...]
    others: tuple[Place, ...]

    @property
    def all(self) -> tuple[Place, ...]:
        """The key's columns first, as tables that are made have them."""
        return self.key + self.others


def places(config: DatabendSinkConfig, schema: pa.Schema, key_columns: Sequence[str]) -> Places:
    """Return what of rows of a schema is written.

    Raises:
        ConfigError: `databend.no_key`, `databend.pk_fields`.
        SchemaError: `databend.no_such_field`, `databend.no_columns`.
    """
    key = _key(config, schema, key_columns)
    wanted = set(config.fields_whitelist)
    if wanted and wanted.isdisjoint(schema.names):  # one list is for tables that differ
        raise _no_field(min(wanted), "fields.whitelist", schema)
    taken = {place.field.name for place in key}
    others = [
        Place(field, (field.name,))
        for field in schema
        if not field.name.startswith(_RESERVED)
        and field.name not in taken
        and (not wanted or field.name in wanted)
    ]
    if not key and not others:
        raise SchemaError("databend.no_columns", "the rows have no column that is written")
    return Places(tuple(key), tuple(others))


def _key(
    config: DatabendSinkConfig, schema: pa.Schema, key_columns: Sequence[str]
) -> Sequence[Place]:
    if config.pk_mode == "none":
        return ()
    if config.pk_mode == "record_value":
        names = config.pk_fields or [n for n in schema.names if not n.startswith(_RESERVED)]
        return [_named(name, schema) for name in names]
    if KEY in schema.names:
        return _of_record(config, schema.field(KEY))
    # a source that names its key columns has its key in the row
    names = config.pk_fields or list(key_columns)
    if not names:
        raise ConfigError(
            "databend.no_key",
            "`pk.mode=record_key`, and the records have no key",
            fix="Set `pk.mode=record_value` and `pk.fields`, or make a key by the transform "
            "ValueToKey.",
            config_path="pk.mode",
        )
    return [_named(name, schema) for name in names]


def _of_record(config: DatabendSinkConfig, key: pa.Field) -> Sequence[Place]:
    if not pa.types.is_struct(key.type):
        if len(config.pk_fields) != 1:
            raise ConfigError(
                "databend.pk_fields",
                "the key of the records is a single value, and its column has no name",
                fix="Name one column in `pk.fields`.",
                config_path="pk.fields",
            )
        return [Place(key.with_name(config.pk_fields[0]), (KEY,))]
    parts = {field.name: field for field in key.type}
    for name in config.pk_fields:
        if name not in parts:
            raise _no_field(name, "pk.fields", pa.schema(list(key.type)))
    return [Place(parts[name], (KEY, name)) for name in config.pk_fields or parts]


def _named(name: str, schema: pa.Schema) -> Place:
    if name not in schema.names:
        raise _no_field(name, "pk.fields", schema)
    return Place(schema.field(name), (name,))


def _no_field(name: str, path: str, schema: pa.Schema) -> SchemaError:
    there = ", ".join(n for n in schema.names if not n.startswith(_RESERVED))
    return SchemaError(
        "databend.no_such_field",
        f"`{path}` names {name!r}, and the rows have no such field",
        fix=f"They have: {there[:500]}.",
        config_path=path,
    )
