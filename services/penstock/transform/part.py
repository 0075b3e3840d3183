"""The half of a row that a transform works on: its value, or its key (Kafka's `$Value` and
`$Key`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import pyarrow as pa

from penstock.model.columns import KEY, is_reserved
from penstock.model.errors import ConfigError
from penstock.transform import sql
from penstock.transform.change import Change, Output, projected
from penstock.transform.row import Row, duplicates


class Part(Enum):
    """Which half."""

    VALUE = "Value"
    KEY = "Key"

    def fields(self, row: Row, path: str) -> tuple[Output, ...]:
        """Return the fields of this half, each as it is.

        Raises:
            ConfigError: the key is asked for and is not a struct.
        """
        if self is Part.VALUE:
            return tuple(Output.kept(column) for column in row.value)
        return tuple(
            Output(field.name, f"{sql.name(KEY)}.{sql.name(field.name)}", field.type)
            for field in _key_type(row, path)
        )

    def rebuilt(self, row: Row, fields: Sequence[Output], path: str) -> Change:
        """Return the change that gives this half other fields, and leaves the other half alone."""
        if self is Part.VALUE:
            reserved = (Output.kept(column) for column in row if is_reserved(column.name))
            return projected((*fields, *reserved), path)
        key = _struct(fields, path)
        kept = (Output.kept(column) for column in row)
        return projected(tuple(key if output.name == KEY else output for output in kept), path)


def _key_type(row: Row, path: str) -> pa.StructType:
    key = row.get(KEY)
    if key is None or key.type is None or not pa.types.is_struct(key.type):
        found = "none" if key is None or key.type is None else str(key.type)
        raise ConfigError(
            "transform.key_not_struct",
            f"the key of the rows has no fields: `{KEY}` is {found}",
            fix="Use the `$Value` variant, or a source whose key is a struct.",
            config_path=path,
        )
    return key.type


def _struct(fields: Sequence[Output], path: str) -> Output:
    twice = duplicates(field.name for field in fields)
    if twice or not fields:
        what = f"two fields of the key would be named `{twice[0]}`" if twice else "the key is empty"
        raise ConfigError(
            "transform.duplicate_column" if twice else "transform.no_columns",
            what,
            fix="Choose other names.",
            config_path=path,
        )
    # Spark calls a constant "not null"; Arrow has a null for it where the whole key is null.
    there = f"CASE WHEN {sql.name(KEY)} IS NOT NULL THEN"
    pairs = ", ".join(f"{sql.literal(f.name)}, {there} {f.sql} END" for f in fields)
    types = [(field.name, field.type) for field in fields]
    known = all(type_ is not None for _, type_ in types)
    return Output(
        KEY,
        f"{there} named_struct({pairs}) END",
        pa.struct(types) if known else None,
    )


def new_name(name: str, path: str) -> str:
    """Return the name of a column that a transform makes; reserved ones are refused, because a row
    could then pretend to be another change, or to have another key.
    """
    if is_reserved(name):
        raise ConfigError(
            "transform.reserved_column",
            f"`{name}` is a reserved column and not part of the row",
            fix="Choose another name.",
            config_path=path,
        )
    try:
        sql.name(name)
    except ConfigError as error:
        found = error.diagnostic
        raise ConfigError(found.code, found.message, fix=found.fix, config_path=path) from None
    return name
