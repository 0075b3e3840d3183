"""Transforms of the structure of a value or key: ExtractField, HoistField, Flatten, ReplaceField,
ValueToKey.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import KEY, is_reserved
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import (
    Change,
    OutputColumn,
    Transform,
    TypeDefinition,
    project_columns,
)
from penstock.transform.column_kernel import StructColumn
from penstock.transform.row import Row
from penstock.transform.row_parts import (
    FIELD_SYNTAX_VERSION,
    KAFKA_PACKAGE,
    REPLACE_NULL_WITH_DEFAULT,
    RowPart,
    check_new_name,
    define_value_and_key,
    fill_default,
    find_field,
    is_present,
    parse_field_path,
    require_key,
    struct_fields,
    struct_type,
)
from penstock.transform.sql import literals


@dataclass(frozen=True, slots=True)
class ExtractField:
    """Replaces the value or the key by one of its fields. The fields of a struct become columns;
    any other value becomes one column with the name of the field.
    """

    path: str
    part: RowPart
    steps: tuple[str, ...]
    defaults: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace the value or key by the field."""
        field = find_field(
            self.part.fields(row, self.path),
            self.steps,
            f"{self.path}.field",
            presence=self.part.presence(row),
            defaults=self.defaults,
        )
        return self.part.replace_value(row, field, self.path)


def _build_extract_field(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    version = values["field.syntax.version"]
    steps = parse_field_path(values["field"], version, f"{path}.field")
    return ExtractField(path, part, steps, values[REPLACE_NULL_WITH_DEFAULT.name])


EXTRACT_FIELD: Final = define_value_and_key(
    "ExtractField",
    (
        ConfigKey("field", required=True, doc="Field to extract."),
        FIELD_SYNTAX_VERSION,
        REPLACE_NULL_WITH_DEFAULT,
    ),
    _build_extract_field,
)


@dataclass(frozen=True, slots=True)
class HoistField:
    """Puts the value or key into one field. Several columns become a struct in this field. A single
    column counts as the value itself and is renamed.
    """

    path: str
    part: RowPart
    name: str

    def resolve(self, dataset: str, row: Row) -> Change:
        """Put the value or key into the field."""
        if self.part is RowPart.KEY:
            key = pack_struct(
                (replace(OutputColumn.unchanged(require_key(row, self.path)), name=self.name),),
                self.name,
            )
            return self.part.replace_value(row, key, self.path)
        fields = self.part.fields(row, self.path)
        if len(fields) == 1:
            return self.part.replace_fields(row, (replace(fields[0], name=self.name),), self.path)
        return self.part.replace_fields(row, (pack_struct(fields, self.name),), self.path)


def pack_struct(fields: tuple[OutputColumn, ...], name: str) -> OutputColumn:
    """Return a struct of fields; the struct itself is never null."""
    pairs = ", ".join(f"{literals.literal(field.name)}, {field.sql}" for field in fields)
    sources = [(field.name, field.source) for field in fields if field.source is not None]
    return OutputColumn(
        name,
        f"named_struct({pairs})",
        struct_type(fields),
        StructColumn(tuple(sources)) if len(sources) == len(fields) else None,
        certain=all(field.certain for field in fields),
    )


def _build_hoist_field(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    return HoistField(path, part, check_new_name(values["field"], f"{path}.field"))


HOIST_FIELD: Final = define_value_and_key(
    "HoistField", (ConfigKey("field", required=True, doc="Name of the field."),), _build_hoist_field
)


@dataclass(frozen=True, slots=True)
class Flatten:
    """Makes columns of the fields of structs; their names are joined by the delimiter. Lists stay
    unchanged; maps are refused, as in Kafka. A null is always the default of its schema.
    """

    path: str
    part: RowPart
    delimiter: str

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace structs by their fields, at every depth."""
        before = self.part.fields(row, self.path)
        presence = self.part.presence(row)
        after = tuple(
            leaf
            for field in before
            for leaf in self._leaves(fill_default(field, presence), field.name)
        )
        return Change() if after == before else self.part.replace_fields(row, after, self.path)

    def _leaves(self, field: OutputColumn, name: str) -> Iterator[OutputColumn]:
        if field.type is not None and pa.types.is_map(field.type):
            raise ConfigError(
                "transform.cannot_flatten",
                f"`{name}` is a map, whose keys differ from row to row",
                fix="Drop it with ReplaceField, or extract its keys with Project.",
                config_path=self.path,
            )
        inner = struct_fields(field)
        if not inner:
            yield replace(field, name=name)
        present = is_present(field) if inner else None
        for one in (fill_default(field, present) for field in inner):
            yield from self._leaves(one, f"{name}{self.delimiter}{one.name}")


def _build_flatten(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    return Flatten(path, part, values["delimiter"])


FLATTEN: Final = define_value_and_key(
    "Flatten", (ConfigKey("delimiter", default=".", doc="Joins the names."),), _build_flatten
)


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """Keeps `include` (all when empty) without `exclude`, and renames. Names that a dataset does
    not have are ignored, as in Kafka: the datasets of a connector differ.
    """

    path: str
    part: RowPart
    include: frozenset[str]
    exclude: frozenset[str]
    renames: tuple[tuple[str, str], ...]
    defaults: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Keep, drop and rename fields."""
        before = self.part.fields(row, self.path)
        new_names = dict(self.renames)
        after = tuple(
            replace(field, name=new_names.get(field.name, field.name))
            for field in self.part.read_fields(row, self.path, defaults=self.defaults)
            if self._is_kept(field.name)
        )
        if after == before:
            return Change()
        return self.part.replace_fields(row, after, self.path)

    def _is_kept(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)


def _build_replace_field(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    for old, new in (("whitelist", "include"), ("blacklist", "exclude")):
        if values[old] is not None:
            raise ConfigError(
                "config.unknown_key",
                f"the key `{old}` was removed, as in Kafka 4",
                fix=f"Use `{new}`.",
                config_path=f"{path}.{old}",
                suggestion=new,
            )
    for key in ("include", "exclude"):
        for name in values[key]:
            _refuse_reserved(name, f"{path}.{key}")
    renames = tuple(_parse_rename(text, f"{path}.renames") for text in values["renames"])
    return ReplaceField(
        path,
        part,
        frozenset(values["include"]),
        frozenset(values["exclude"]),
        renames,
        values[REPLACE_NULL_WITH_DEFAULT.name],
    )


def _parse_rename(text: str, path: str) -> tuple[str, str]:
    old, colon, new = text.partition(":")
    if not (old and colon and new) or ":" in new:
        raise ConfigError(
            "config.wrong_type",
            f"`{text}` is not a renaming",
            fix="Write `old:new`, several separated by commas.",
            config_path=path,
        )
    _refuse_reserved(old, path)
    return old, check_new_name(new, path)


def _refuse_reserved(name: str, path: str) -> None:
    if is_reserved(name):
        raise ConfigError(
            "transform.reserved_column",
            f"`{name}` is a reserved column and not part of the row",
            fix="Remove it: reserved columns are always kept.",
            config_path=path,
        )


_REPLACE_KEYS: Final = (
    ConfigKey("include", "list", (), doc="Fields to keep; all when empty."),
    ConfigKey("exclude", "list", (), doc="Fields to drop; goes before `include`."),
    ConfigKey("renames", "list", (), doc="Renamings `old:new`."),
    REPLACE_NULL_WITH_DEFAULT,
    ConfigKey("whitelist", doc="Removed: use `include`."),
    ConfigKey("blacklist", doc="Removed: use `exclude`."),
)

REPLACE_FIELD: Final = define_value_and_key("ReplaceField", _REPLACE_KEYS, _build_replace_field)


@dataclass(frozen=True, slots=True)
class ValueToKey:
    """Replaces the key by a struct of fields of the value; the value keeps them."""

    path: str
    fields: tuple[str, ...]
    defaults: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace the key."""
        value = RowPart.VALUE.read_fields(row, self.path, defaults=self.defaults)
        where = f"{self.path}.fields"
        key = pack_struct(tuple(find_field(value, (name,), where) for name in self.fields), KEY)
        kept = tuple(OutputColumn.unchanged(column) for column in row if column.name != KEY)
        return project_columns((*kept, key), self.path)


def _build_value_to_key(path: str, values: Mapping[str, Any]) -> Transform:
    fields = tuple(dict.fromkeys(values["fields"]))
    return ValueToKey(path, fields, values[REPLACE_NULL_WITH_DEFAULT.name])


VALUE_TO_KEY: Final = (
    TypeDefinition[Transform](
        ("ValueToKey", f"{KAFKA_PACKAGE}.ValueToKey"),
        (
            ConfigKey("fields", "list", required=True, doc="Fields of the new key."),
            REPLACE_NULL_WITH_DEFAULT,
        ),
        _build_value_to_key,
    ),
)
