"""The part of a row that a transform works on, value or key (Kafka's `$Value` and `$Key`), and its
fields: by name, by path, nested in structs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import KEY, OP, Op, is_reserved
from penstock.model.config_def import ConfigKey, did_you_mean
from penstock.model.errors import ConfigError, Diagnostic
from penstock.transform.change import (
    Change,
    OutputColumn,
    Transform,
    TypeDefinition,
    project_columns,
)
from penstock.transform.column_kernel import (
    ColumnSource,
    Copy,
    FilledColumn,
    IsValid,
    KeyColumn,
    NotDeleted,
    StructField,
)
from penstock.transform.defaults import default_of, read_default
from penstock.transform.row import Column, Row, find_duplicates
from penstock.transform.sql import literals

KAFKA_PACKAGE: Final = "org.apache.kafka.connect.transforms"
ROCKETMQ_PACKAGE: Final = "org.apache.rocketmq.connect.transforms"

REPLACE_NULL_WITH_DEFAULT: Final = ConfigKey(
    "replace.null.with.default",
    "boolean",
    default=True,
    doc="Whether a null that it reads becomes the default of its field, if the schema has one.",
)


class RowPart(Enum):
    """The value or the key of a row."""

    VALUE = "Value"
    KEY = "Key"

    def fields(self, row: Row, path: str) -> tuple[OutputColumn, ...]:
        """Return the fields of this part, unchanged.

        Raises:
            ConfigError: this part is the key, and the key is not a struct.
        """
        if self is RowPart.VALUE:
            return tuple(OutputColumn.unchanged(column) for column in row.value)
        return tuple(
            OutputColumn(
                field.name,
                f"{literals.name(KEY)}.{literals.name(field.name)}",
                field.type,
                StructField(Copy(KEY), field.name),
                certain=True,
                default=read_default(field),
            )
            for field in _key_type(row, path)
        )

    def read_fields(self, row: Row, path: str, *, defaults: bool) -> tuple[OutputColumn, ...]:
        """Return the fields of this part as Kafka's transforms read them: with `defaults`, a null
        is the default of its schema.

        Raises:
            ConfigError: as `fields`.
        """
        fields = self.fields(row, path)
        if not defaults:
            return fields
        return tuple(fill_default(field, self.presence(row)) for field in fields)

    def presence(self, row: Row) -> OutputColumn | None:
        """Return the condition under which a row has this part: a delete has no value, and where
        the key is null, its fields have no defaults. None: every row has it.
        """
        if self is RowPart.KEY:
            key = row.get(KEY)
            return None if key is None else is_present(OutputColumn.unchanged(key))
        if row.get(OP) is None:
            return None
        text = f"coalesce({literals.name(OP)}, {Op.UNSPECIFIED:d}) <> {Op.DELETE:d}"
        return OutputColumn(OP, text, pa.bool_(), NotDeleted(OP), certain=True)

    def whole_value(self, row: Row, path: str) -> OutputColumn:
        """Return this part as one value: the key, or the only column of the row.

        Raises:
            ConfigError: there is no key, or the row has several columns.
        """
        if self is RowPart.KEY:
            return OutputColumn.unchanged(require_key(row, path))
        if len(row.value) == 1:
            return OutputColumn.unchanged(row.value[0])
        raise ConfigError(
            "transform.not_one_value",
            f"the rows have {len(row.value)} columns, so they are not a single value",
            fix="Name the field, or use ExtractField before it.",
            config_path=path,
        )

    def replace_value(
        self, row: Row, value: OutputColumn, path: str, failure: Diagnostic | None = None
    ) -> Change:
        """Return the change that replaces this part by one value: the key, or the only column of
        the row. The fields of a struct become the columns of the row.
        """
        if self is RowPart.VALUE:
            return self.replace_fields(row, struct_fields(value) or (value,), path, failure)
        kept = (OutputColumn.unchanged(column) for column in row)
        key = replace(value, name=KEY)
        return project_columns(tuple(key if o.name == KEY else o for o in kept), path, failure)

    def replace_fields(
        self, row: Row, fields: Sequence[OutputColumn], path: str, failure: Diagnostic | None = None
    ) -> Change:
        """Return the change that replaces the fields of this part and keeps the other part."""
        if self is RowPart.VALUE:
            reserved = (
                OutputColumn.unchanged(column) for column in row if is_reserved(column.name)
            )
            return project_columns((*fields, *reserved), path, failure)
        key = _struct(fields, path)
        kept = (OutputColumn.unchanged(column) for column in row)
        outputs = tuple(key if output.name == KEY else output for output in kept)
        return project_columns(outputs, path, failure)


def _key_type(row: Row, path: str) -> pa.StructType:
    key = row.get(KEY)
    if key is None or key.type is None or not pa.types.is_struct(key.type):
        found = "none" if key is None or key.type is None else str(key.type)
        raise ConfigError(
            "transform.key_not_struct",
            f"the key of the rows is not a struct: `{KEY}` is {found}",
            fix="Use the `$Value` variant, or a source whose key is a struct.",
            config_path=path,
        )
    return key.type


def _struct(fields: Sequence[OutputColumn], path: str) -> OutputColumn:
    duplicates = find_duplicates(field.name for field in fields)
    if duplicates or not fields:
        twice = f"two fields of the key would be named `{duplicates[0]}`" if duplicates else ""
        raise ConfigError(
            "transform.duplicate_column" if duplicates else "transform.no_columns",
            twice or "no field of the key would be left",
            fix="Choose other names, or keep at least one field.",
            config_path=path,
        )
    # Spark calls a constant "not null"; Arrow has a null for it where the whole key is null.
    if_key = f"CASE WHEN {literals.name(KEY)} IS NOT NULL THEN"
    pairs = ", ".join(f"{literals.literal(f.name)}, {if_key} {f.sql} END" for f in fields)
    sources = [
        (field.name, field.source)
        for field in fields  # in a struct, failures of a kernel are not seen
        if field.source is not None and not field.can_fail
    ]
    return OutputColumn(
        KEY,
        f"{if_key} named_struct({pairs}) END",
        struct_type(fields),
        KeyColumn(tuple(sources)) if len(sources) == len(fields) else None,
        certain=all(field.certain for field in fields),
    )


def struct_type(fields: Iterable[OutputColumn]) -> pa.StructType | None:
    """Return the type of a struct of fields, which keep their defaults; None where only Spark knows
    the type of one.
    """
    inner = []
    for field in fields:
        if field.type is None:
            return None
        text = b"" if field.default is None else field.default.json
        inner.append(pa.field(field.name, field.type, metadata=default_of(text) if text else None))
    return pa.struct(inner)


def is_present(field: OutputColumn) -> OutputColumn:
    """Return whether a field is not null."""
    source = None if field.source is None else IsValid(field.source)
    return OutputColumn(field.name, f"({field.sql}) IS NOT NULL", pa.bool_(), source, certain=True)


def fill_default(field: OutputColumn, where: OutputColumn | None) -> OutputColumn:
    """Return a field with the default of its schema in place of nulls, in rows for which `where` is
    true.
    """
    default = field.default
    if default is None:
        return field
    text = f"coalesce({field.sql}, {default.sql})"
    if where is not None:
        text = f"CASE WHEN {where.sql} THEN {text} ELSE {field.sql} END"
    source: ColumnSource | None = None
    fits = where is None or where.source is not None
    if field.source is not None and default.value is not None and fits:
        where_source = None if where is None else where.source
        source = FilledColumn(field.source, default.value, where_source)
    return replace(field, sql=text, source=source)


def require_key(row: Row, path: str) -> Column:
    """Return the column of the key.

    Raises:
        ConfigError: the rows have no key.
    """
    key = row.get(KEY)
    if key is None:
        raise ConfigError(
            "transform.no_key",
            f"the rows have no key: there is no column `{KEY}`",
            fix="Create one with ValueToKey, or use the `$Value` variant.",
            config_path=path,
        )
    return key


def struct_fields(value: OutputColumn) -> tuple[OutputColumn, ...]:
    """Return the fields of a struct, null where the struct is null; no fields for other types."""
    if value.type is None or not pa.types.is_struct(value.type):
        return ()
    return tuple(
        OutputColumn(
            field.name,
            f"({value.sql}).{literals.name(field.name)}",
            field.type,
            None if value.source is None else StructField(value.source, field.name),
            certain=value.certain,
            default=read_default(field),
        )
        for field in value.type
    )


def define_value_and_key(
    name: str,
    keys: tuple[ConfigKey, ...],
    build: Callable[[RowPart, str, Mapping[str, Any]], Transform],
    packages: tuple[str, ...] = (KAFKA_PACKAGE,),
) -> tuple[TypeDefinition[Transform], TypeDefinition[Transform]]:
    """Define a transform twice, for values and for keys, with the aliases of its Java classes.

    Args:
        name: Its type; `$Value` and `$Key` are appended.
        keys: Its configuration keys.
        build: Creates it from the part, its configuration path and its parsed keys.
        packages: Java packages of its classes.
    """
    definitions = []
    for part, own in ((RowPart.VALUE, (name, f"{name}$Value")), (RowPart.KEY, (f"{name}$Key",))):
        aliases = tuple(f"{package}.{name}${part.value}" for package in packages)
        definitions.append(TypeDefinition((*own, *aliases), keys, partial(build, part)))
    return definitions[0], definitions[1]


def check_new_name(name: str, path: str) -> str:
    """Return the name of a column that a transform creates, and refuse reserved and invalid names.
    With a reserved name a row could forge its change operation or its key.
    """
    if is_reserved(name):
        raise ConfigError(
            "transform.reserved_column",
            f"`{name}` is a reserved column and not part of the row",
            fix="Choose another name.",
            config_path=path,
        )
    try:
        literals.name(name)
    except ConfigError as error:
        found = error.diagnostic
        raise ConfigError(found.code, found.message, fix=found.fix, config_path=path) from None
    return name


FIELD_SYNTAX_VERSION: Final = ConfigKey(
    "field.syntax.version",
    default="V1",
    choices=("V1", "V2"),
    doc="V1: a plain name; V2: a path of nested fields, names with dots in backticks.",
)


def parse_field_path(text: str, version: str, path: str) -> tuple[str, ...]:
    r"""Split a path into names. In V2, a backtick opens a name only at its beginning, closes it
    only before a dot or the end, and is part of it after a `\`.

    Raises:
        ConfigError: a backtick is never closed.
    """
    if version == "V1":
        return (text,)
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "`":
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            steps.append(text[at:end])
        else:
            name, end = _read_quoted_name(text, at + 1, path)
            steps.append(name)
        at = end + 1
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _read_quoted_name(text: str, start: int, path: str) -> tuple[str, int]:
    """Return a name in backticks, and the index behind the closing one."""
    name, at = "", start
    while (at := text.find("`", at)) >= 0:
        escaped, last = text[at - 1] == "\\", at == len(text) - 1
        if last and escaped:
            break
        if last or (text[at + 1] == "." and not escaped):
            return name + text[start:at], at + 1
        if escaped and text[at + 1] == ".":
            name, start = f"{name}{text[start : at - 1]}`", at + 1
        at += 1
    raise ConfigError(
        "transform.bad_path",
        f"`{text}`: a backtick is never closed",
        fix="Close it before a dot or the end; write \\` for a backtick in a name.",
        config_path=path,
    )


def find_field(
    fields: tuple[OutputColumn, ...],
    steps: tuple[str, ...],
    path: str,
    *,
    presence: OutputColumn | None = None,
    defaults: bool | None = None,
) -> OutputColumn:
    """Return the field at a path of names; it is null where a struct of the path is null.

    Args:
        fields: The fields of a part of the row.
        steps: The names.
        path: The configuration key that has them.
        presence: `RowPart.presence`.
        defaults: Whether a null of the field is the default of its schema. A null of a struct on
            the way always is, as in Kafka. None: nulls stay nulls.

    Raises:
        ConfigError: `transform.unknown_field`.
    """
    found: OutputColumn | None = None
    for number, step in enumerate(steps, 1):
        level = fields if found is None else struct_fields(found)
        where = presence if found is None else is_present(found)
        found = next((field for field in level if field.name == step), None)
        if found is None:
            raise ConfigError(
                "transform.unknown_field",
                f"the rows have no field `{'.'.join(steps)}`",
                fix=did_you_mean(step, [field.name for field in level])
                if level
                else "Only structs have fields.",
                config_path=path,
            )
        if defaults is not None and (defaults or number < len(steps)):
            found = fill_default(found, where)
    if found is None:
        raise AssertionError("a path has at least one step")
    return found
