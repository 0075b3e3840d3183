"""Transforms of the values of fields: InsertField (metadata or a fixed text as new fields) and
MaskField (an empty value or a replacement in place of values).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind

from penstock.model.columns import OFFSET, PARTITION, TOPIC, TS_US
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, OutputColumn, Transform
from penstock.transform.column_kernel import (
    ColumnSource,
    ConstantNull,
    ConstantText,
    ConvertedColumn,
    Copy,
    MaskedColumn,
    RequiredColumn,
)
from penstock.transform.java.casts import JAVA_SPACE
from penstock.transform.java.time_kernels import INSTANT, to_instants
from penstock.transform.row import Row
from penstock.transform.row_parts import (
    REPLACE_NULL_WITH_DEFAULT,
    RowPart,
    check_new_name,
    define_value_and_key,
)
from penstock.transform.row_topics import NameOfRow, name_sql
from penstock.transform.sql import literals

_OPTIONAL: Final = "Suffix `!` makes it a required field, `?` an optional one (the default)."


@dataclass(frozen=True, slots=True)
class Insertion:
    """A field to insert: its configuration key, its name, and whether null is refused."""

    key: str
    name: str
    required: bool

    @staticmethod
    def parse(key: str, text: str, path: str) -> Insertion:
        """Parse `name`, `name?` or `name!`."""
        name = text[:-1] if text.endswith(("!", "?")) else text
        return Insertion(key, check_new_name(name, f"{path}.{key}"), text.endswith("!"))


@dataclass(frozen=True, slots=True)
class InsertField:
    """Appends fields to the value or the key, in Kafka's order."""

    path: str
    part: RowPart
    insertions: tuple[Insertion, ...]
    static_value: str | None
    defaults: bool

    @property
    def needs_positions(self) -> bool:
        """Whether it inserts the partition or offset of a row in its topic."""
        return any(one.key in {"partition.field", "offset.field"} for one in self.insertions)

    def resolve(self, dataset: str, row: Row) -> Change:
        """Append the fields."""
        new = (self._make_column(insertion, dataset, row) for insertion in self.insertions)
        fields = (*self.part.read_fields(row, self.path, defaults=self.defaults), *new)
        return self.part.replace_fields(row, fields, self.path)

    def _make_column(self, insertion: Insertion, dataset: str, row: Row) -> OutputColumn:
        match insertion.key:
            case "topic.field" if row.get(TOPIC) is not None:
                return OutputColumn(
                    insertion.name, name_sql(dataset), pa.string(), NameOfRow(dataset), certain=True
                )
            case "topic.field":
                return _constant_column(insertion.name, dataset)
            case "static.field":
                return _constant_column(insertion.name, self.static_value or "")
        return self._metadata_column(insertion, row)

    def _metadata_column(self, insertion: Insertion, row: Row) -> OutputColumn:
        column, missing = _METADATA_COLUMNS[insertion.key]
        existing = row.get(column)
        source: ColumnSource | None = None
        if existing is not None:
            text, type_ = _METADATA_SQL[insertion.key](existing.type)
            if type_ is not None and text == literals.name(column):
                source = Copy(column)
            elif insertion.key == "timestamp.field" and existing.type == pa.int64():
                source = ConvertedColumn(Copy(column), to_instants)
        elif insertion.required or missing is None:
            raise ConfigError(
                "transform.no_metadata",
                f"the rows have no column `{column}` to insert",
                fix="Remove the key, or use a source or topic that provides the column.",
                config_path=f"{self.path}.{insertion.key}",
            )
        else:
            text, type_ = f"CAST(NULL AS {missing})", _TYPES_OF_NULL[missing]
            source = ConstantNull(type_)
        if insertion.required:
            where = literals.literal(f"{self.path}.{insertion.key}: null in a required field")
            text = f"coalesce({text}, raise_error({where}))"
            source = None if source is None else RequiredColumn(source)
        return OutputColumn(insertion.name, text, type_, source, certain=not insertion.required)


def _constant_column(name: str, value: str) -> OutputColumn:
    return OutputColumn(
        name, literals.literal(value), pa.string(), ConstantText(value), certain=True
    )


def _timestamp_sql(type_: pa.DataType | None) -> tuple[str, pa.DataType | None]:
    column = literals.name(TS_US)
    whole = type_ is None or pa.types.is_integer(type_)
    return (f"timestamp_micros({column})", INSTANT) if whole else (column, type_)


def _offset_sql(type_: pa.DataType | None) -> tuple[str, pa.DataType | None]:
    column = literals.name(OFFSET)
    if type_ is not None and (pa.types.is_binary(type_) or pa.types.is_large_binary(type_)):
        return f"CAST({column} AS STRING)", pa.string()
    return column, type_


def _partition_sql(type_: pa.DataType | None) -> tuple[str, pa.DataType | None]:
    return literals.name(PARTITION), type_


_METADATA_COLUMNS: Final[Mapping[str, tuple[str, str | None]]] = {
    "partition.field": (PARTITION, "INT"),
    "offset.field": (OFFSET, None),
    "timestamp.field": (TS_US, "TIMESTAMP"),
}
"""The column of a field, and the type of its null where that column is missing. None refuses this:
as in Kafka, an offset can be inserted only where existing is one."""

_TYPES_OF_NULL: Final = {"INT": pa.int32(), "TIMESTAMP": INSTANT}

_METADATA_SQL: Final = {
    "partition.field": _partition_sql,
    "offset.field": _offset_sql,
    "timestamp.field": _timestamp_sql,
}

_INSERT_KEYS: Final = (
    ConfigKey("topic.field", doc=f"Field for the dataset or topic. {_OPTIONAL}"),
    ConfigKey("partition.field", doc=f"Field for the topic partition. {_OPTIONAL}"),
    ConfigKey("offset.field", doc=f"Field for the offset. {_OPTIONAL}"),
    ConfigKey("timestamp.field", doc=f"Field for the time of the row. {_OPTIONAL}"),
    ConfigKey("static.field", doc=f"Field for a fixed text. {_OPTIONAL}"),
    ConfigKey("static.value", doc="The fixed text."),
    REPLACE_NULL_WITH_DEFAULT,
)


def _build_insert_field(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    insertions = tuple(_parse_insertions(path, values))
    if not insertions:
        raise ConfigError(
            "config.missing",
            "InsertField has no field to insert",
            fix="Set at least one of its `….field` keys.",
            config_path=path,
        )
    static = values["static.value"]
    if (static is None) != (values["static.field"] is None):
        absent = "static.value" if static is None else "static.field"
        raise ConfigError(
            "config.missing",
            "`static.field` and `static.value` must be set together",
            fix=f"Set `{absent}`.",
            config_path=f"{path}.{absent}",
        )
    return InsertField(path, part, insertions, static, values[REPLACE_NULL_WITH_DEFAULT.name])


def _parse_insertions(path: str, values: Mapping[str, Any]) -> Iterator[Insertion]:
    for key in _INSERT_KEYS:
        if key.name.endswith(".field") and values[key.name] is not None:
            yield Insertion.parse(key.name, values[key.name], path)


INSERT_FIELD: Final = define_value_and_key("InsertField", _INSERT_KEYS, _build_insert_field)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MaskField:
    """Replaces the values of fields; null stays null. Names that a dataset does not have are
    ignored, as in Kafka.
    """

    path: str
    part: RowPart
    fields: frozenset[str]
    replacement: str | None
    defaults: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace the values of the fields."""
        before = self.part.fields(row, self.path)
        read = self.part.read_fields(row, self.path, defaults=self.defaults)
        after = tuple(self._mask(f) if f.name in self.fields else f for f in read)
        return Change() if after == before else self.part.replace_fields(row, after, self.path)

    def _mask(self, field: OutputColumn) -> OutputColumn:
        if field.type is None:
            raise self._cannot_mask(field, "of a type that only Spark knows: use Cast before it")
        if self.replacement is None:
            value = _empty_value(field.type)
        else:
            value = _parse_replacement(field.type, self.replacement)
        if value is None:
            by = "" if self.replacement is None else f" by `{self.replacement}`"
            raise self._cannot_mask(field, f"{field.type}, which cannot be masked{by}")
        source: ColumnSource | None = None
        if field.source is not None:
            source = MaskedColumn(field.source, value, field.type)
        text = f"CASE WHEN {field.sql} IS NOT NULL THEN {_value_sql(value, field.type)} END"
        return replace(field, sql=text, source=source, certain=True)

    def _cannot_mask(self, field: OutputColumn, why: str) -> ConfigError:
        return ConfigError(
            "transform.cannot_mask",
            f"`{field.name}` is {why}",
            fix="Drop the field with ReplaceField; replacements are for numbers and texts.",
            config_path=f"{self.path}.fields",
        )


def _empty_value(type_: pa.DataType) -> Any:
    return next((value for is_one, value in _EMPTY_VALUES if is_one(type_)), None)


def _parse_replacement(type_: pa.DataType, text: str) -> Any:
    for is_one, read in _PARSERS:
        if is_one(type_):
            try:
                return pa.scalar(read(text), type_).as_py()
            except (ValueError, InvalidOperation, pa.ArrowException, OverflowError):
                return None
    return None


def _value_sql(value: Any, type_: pa.DataType) -> str:
    match value:
        case bool():
            return "false"
        case datetime():
            type_name = "TIMESTAMP_LTZ" if type_.tz else "TIMESTAMP_NTZ"
            zone = "+00:00" if type_.tz else ""
            return f"{type_name} '1970-01-01 00:00:00{zone}'"
        case date():
            return "DATE '1970-01-01'"
        case list():
            return _empty_collection_sql(type_)
        case str():
            return literals.literal(value)
    return f"CAST({literals.literal(str(value))} AS {literals.type_name(type_)})"


def _empty_collection_sql(type_: pa.DataType) -> str:
    """Return the SQL of an empty list or map."""
    return f"CAST({'map()' if kind.is_map(type_) else 'array()'} AS {literals.type_name(type_)})"


def _is_text(type_: pa.DataType) -> bool:
    return bool(kind.is_string(type_) or kind.is_large_string(type_))


_EMPTY_VALUES: Final[tuple[tuple[Callable[[pa.DataType], bool], Any], ...]] = (
    (kind.is_boolean, False),
    (kind.is_integer, 0),
    (kind.is_floating, 0.0),
    (kind.is_decimal, Decimal(0)),
    (_is_text, ""),
    (kind.is_timestamp, _EPOCH),
    (kind.is_date, _EPOCH.date()),
    (kind.is_list, []),
    (kind.is_map, []),
)
_PARSERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...]] = (
    (kind.is_integer, int),
    (kind.is_floating, float),
    (kind.is_decimal, Decimal),
    (_is_text, str),
)


def _build_mask_field(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    replacement = values["replacement"]
    if replacement is not None:
        replacement = replacement.strip(JAVA_SPACE)  # as Kafka does
    if replacement == "":
        raise ConfigError(
            "config.wrong_type",
            "`replacement` is empty",
            fix="Remove it: without a replacement, texts become empty.",
            config_path=f"{path}.replacement",
        )
    defaults = values[REPLACE_NULL_WITH_DEFAULT.name]
    return MaskField(path, part, frozenset(values["fields"]), replacement, defaults)


MASK_FIELD: Final = define_value_and_key(
    "MaskField",
    (
        ConfigKey("fields", "list", required=True, doc="Fields to mask."),
        ConfigKey("replacement", doc="Number or text in place of their values."),
        REPLACE_NULL_WITH_DEFAULT,
    ),
    _build_mask_field,
)
