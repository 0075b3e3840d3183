"""Which fields of a row are its key, and which its other columns: `pk.mode`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock_connector import ConfigError, SchemaError
from penstock_databases.jdbc_sink.config import COORDINATES, JdbcSinkConfig

KEY: Final = "__key"
OP: Final = "__op"
BEFORE: Final = "__before"
_RESERVED: Final = "__"
_COORDINATES: Final = (None, "__partition", "__offset")
"""Columns of rows that tell where a row came from; its topic is the dataset."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column of a table is in rows.

    Attributes:
        field: Name of the table's column, type and meaning of its values.
        path: Names of a column of the rows, and of a field in it; none: the dataset's name.
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


def places(
    config: JdbcSinkConfig,
    schema: pa.Schema,
    key_columns: Sequence[str],
    cased: Callable[[str], str] = str,
) -> Places:
    """Return what of rows of a schema is written.

    Raises:
        ConfigError: `jdbc.no_key`, `jdbc.pk_fields`, `jdbc.no_coordinates`.
        SchemaError: `jdbc.no_such_field`, `jdbc.no_columns`.
    """
    key = _KEYS[config.pk_mode](config, schema, key_columns)
    key = [Place(place.field.with_name(cased(place.field.name)), place.path) for place in key]
    taken = {place.field.name for place in key}
    wanted = set(config.fields_whitelist)
    if wanted and wanted.isdisjoint(schema.names):  # one list is for tables that differ
        raise _no_field(min(wanted), "fields.whitelist", schema)
    others = []
    for field in schema:
        name = cased(field.name)
        if field.name.startswith(_RESERVED) or (wanted and field.name not in wanted):
            continue
        if name not in taken:
            taken.add(name)
            others.append(Place(field.with_name(name), (field.name,)))
    if not key and not others:
        raise SchemaError("jdbc.no_columns", "the rows have no column that is written")
    return Places(tuple(key), tuple(others))


def _none(config: JdbcSinkConfig, schema: pa.Schema, key_columns: Sequence[str]) -> list[Place]:
    del config, schema, key_columns
    return []


def _record_value(
    config: JdbcSinkConfig, schema: pa.Schema, key_columns: Sequence[str]
) -> list[Place]:
    del key_columns
    names = config.pk_fields or [n for n in schema.names if not n.startswith(_RESERVED)]
    return [_named(name, schema) for name in names]


def _record_key(
    config: JdbcSinkConfig, schema: pa.Schema, key_columns: Sequence[str]
) -> list[Place]:
    if KEY not in schema.names:
        # a source that names its key columns has its key in the row
        names = config.pk_fields or list(key_columns)
        if not names:
            raise ConfigError(
                "jdbc.no_key",
                "`pk.mode=record_key`, and the records have no key",
                fix="Set `pk.mode=record_value` and `pk.fields`, or make a key by the transform "
                "ValueToKey.",
                config_path="pk.mode",
            )
        return [_named(name, schema) for name in names]
    key = schema.field(KEY)
    if not pa.types.is_struct(key.type):
        if len(config.pk_fields) != 1:
            raise ConfigError(
                "jdbc.pk_fields",
                "the key of the records is a single value, and its column has no name",
                fix="Name one column in `pk.fields`.",
                config_path="pk.fields",
            )
        return [Place(key.with_name(config.pk_fields[0]), (KEY,))]
    parts = {field.name: field for field in key.type}
    found = []
    for name in config.pk_fields or list(parts):
        if name not in parts:
            raise _no_field(name, "pk.fields", pa.schema(list(key.type)))
        found.append(Place(parts[name], (KEY, name)))
    return found


def _kafka(config: JdbcSinkConfig, schema: pa.Schema, key_columns: Sequence[str]) -> list[Place]:
    del key_columns
    found = []
    for name, column in zip(config.pk_fields or COORDINATES, _COORDINATES, strict=True):
        if column is None:
            found.append(Place(pa.field(name, pa.string()), ()))
        elif column in schema.names:
            found.append(Place(schema.field(column).with_name(name), (column,)))
        else:
            raise ConfigError(
                "jdbc.no_coordinates",
                f"`pk.mode=kafka`, and the records do not tell their `{column}`",
                fix="Set `pk.mode` to record_key or record_value: rows are written exactly once "
                "without coordinates, too.",
                config_path="pk.mode",
            )
    return found


_KEYS: Final = {
    "none": _none,
    "record_value": _record_value,
    "record_key": _record_key,
    "kafka": _kafka,
}


def _named(name: str, schema: pa.Schema) -> Place:
    if name not in schema.names:
        raise _no_field(name, "pk.fields", schema)
    return Place(schema.field(name), (name,))


def _no_field(name: str, path: str, schema: pa.Schema) -> SchemaError:
    there = ", ".join(n for n in schema.names if not n.startswith(_RESERVED))
    return SchemaError(
        "jdbc.no_such_field",
        f"`{path}` names {name!r}, and the rows have no such field",
        fix=f"They have: {there[:500]}.",
        config_path=path,
    )
