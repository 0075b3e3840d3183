"""Which fields of a row are columns of its table, and which are its key: `pk.mode`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock_connector import ConfigError, SchemaError
from penstock_connector.envelopes import UNWRAP, is_envelope
from penstock_connector.tables.changes import Verb
from penstock_connector.tables.config import COORDINATES, TableKeys

KEY: Final = "__key"
OP: Final = "__op"
BEFORE: Final = "__before"
_RESERVED: Final = "__"
_COORDINATES: Final = (None, "__partition", "__offset")
"""Columns of rows that tell where a row came from; its topic is the dataset."""


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """Where a column of a table is in rows.

    Attributes:
        field: Name of the table's column, type and meaning of its values.
        path: Names of a column of the rows, and of a field in it; none: the dataset's name.
    """

    field: pa.Field
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """What of a row is written: the key's columns, and the others."""

    key: tuple[MappedColumn, ...]
    others: tuple[MappedColumn, ...]

    @property
    def all(self) -> tuple[MappedColumn, ...]:
        """The key's columns first, as tables that are made have them."""
        return self.key + self.others


def map_columns(
    config: TableKeys,
    schema: pa.Schema,
    key_columns: Sequence[str],
    cased: Callable[[str], str] = str,
    dataset: str = "",
) -> ColumnMapping:
    """Return what of rows of a schema is written.

    Args:
        config: The keys of the sink.
        schema: That of the rows.
        key_columns: Those that the source names, for rows without `__key`.
        cased: Returns the name of a column in the table.
        dataset: That of the rows, for errors.

    Raises:
        ConfigError: `no_key`, `pk_fields`, `no_coordinates`.
        SchemaError: `no_such_field`, `no_columns`, `envelope`.
    """
    if (config.verb is not Verb.INSERT or config.delete_enabled) and is_envelope(schema):
        raise SchemaError(
            config.code("envelope"),
            f"{dataset or 'the rows'}: rows are Debezium's envelopes, whose rows are in `after`; "
            "`insert.mode` or `delete.enabled` would change rows of the table by envelopes",
            fix=UNWRAP,
        )
    found = _key_columns(config, schema, key_columns, dataset)
    key = tuple(MappedColumn(one.field.with_name(cased(one.field.name)), one.path) for one in found)
    taken = {one.field.name for one in key}
    wanted = set(config.fields_whitelist)
    if wanted and wanted.isdisjoint(schema.names):  # one list is for tables that differ
        raise _no_field(config, min(wanted), "fields.whitelist", schema)
    others = []
    for field in schema:
        name = cased(field.name)
        if field.name.startswith(_RESERVED) or (wanted and field.name not in wanted):
            continue
        if name not in taken:
            taken.add(name)
            others.append(MappedColumn(field.with_name(name), (field.name,)))
    if not key and not others:
        raise SchemaError(config.code("no_columns"), "the rows have no column that is written")
    return ColumnMapping(key, tuple(others))


def _key_columns(
    config: TableKeys, schema: pa.Schema, key_columns: Sequence[str], dataset: str
) -> list[MappedColumn]:
    match config.pk_mode:
        case "none":
            return []
        case "kafka":
            return _coordinates(config, schema)
        case "record_key" if KEY in schema.names:
            return _record_key(config, schema.field(KEY))
        case "record_key":  # a source that names its key columns has its key in the row
            names = config.pk_fields or tuple(key_columns)
        case _:
            names = config.pk_fields or tuple(
                name for name in schema.names if not name.startswith(_RESERVED)
            )
    if not names and config.pk_mode == "record_key":
        if config.verb is Verb.INSERT and not config.delete_enabled:
            return []  # no row is looked for: its table is made without a key, as at the source
        raise ConfigError(
            config.code("no_key"),
            f"`pk.mode=record_key`, and the records of {dataset or 'the table'} have no key",
            fix="Set `pk.mode=record_value` and `pk.fields`, or make a key by the transform "
            "ValueToKey; or leave the table out at the source. With `insert.mode=insert` and "
            "without `delete.enabled`, rows need no key.",
            config_path="pk.mode",
        )
    for name in names:
        if name not in schema.names:
            raise _no_field(config, name, "pk.fields", schema)
    return [MappedColumn(schema.field(name), (name,)) for name in names]


def _record_key(config: TableKeys, key: pa.Field) -> list[MappedColumn]:
    if not pa.types.is_struct(key.type):
        if len(config.pk_fields) != 1:
            raise ConfigError(
                config.code("pk_fields"),
                "the key of the records is a single value, and its column has no name",
                fix="Name one column in `pk.fields`.",
                config_path="pk.fields",
            )
        return [MappedColumn(key.with_name(config.pk_fields[0]), (KEY,))]
    parts = {field.name: field for field in key.type}
    for name in config.pk_fields:
        if name not in parts:
            raise _no_field(config, name, "pk.fields", pa.schema(list(key.type)))
    return [MappedColumn(parts[name], (KEY, name)) for name in config.pk_fields or parts]


def _coordinates(config: TableKeys, schema: pa.Schema) -> list[MappedColumn]:
    found = []
    for name, column in zip(config.pk_fields or COORDINATES, _COORDINATES, strict=True):
        if column is None:
            found.append(MappedColumn(pa.field(name, pa.string()), ()))
        elif column in schema.names:
            found.append(MappedColumn(schema.field(column).with_name(name), (column,)))
        else:
            raise ConfigError(
                config.code("no_coordinates"),
                f"`pk.mode=kafka`, and the records do not tell their `{column}`",
                fix="Set `pk.mode` to record_key or record_value: rows are written exactly once "
                "without coordinates, too.",
                config_path="pk.mode",
            )
    return found


def _no_field(config: TableKeys, name: str, path: str, schema: pa.Schema) -> SchemaError:
    there = ", ".join(n for n in schema.names if not n.startswith(_RESERVED))
    return SchemaError(
        config.code("no_such_field"),
        f"`{path}` names {name!r}, and the rows have no such field",
        fix=f"They have: {there[:500]}.",
        config_path=path,
    )
