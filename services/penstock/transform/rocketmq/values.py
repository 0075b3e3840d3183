"""Transforms of values: ExtractNestedField, PatternFilter, SetMaximumPrecision, SetNull."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import KEY
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, OutputColumn, Transform, row_failure
from penstock.transform.java.patterns import JavaPattern
from penstock.transform.row import Row
from penstock.transform.row_parts import (
    ROCKETMQ_PACKAGE,
    RowPart,
    check_new_name,
    define_value_and_key,
    find_field,
)
from penstock.transform.sql import literals


@dataclass(frozen=True, slots=True)
class ExtractNestedField:
    """Copies a field of a struct to a new field; the struct stays."""

    path: str
    part: RowPart
    outer: str
    inner: str
    output: str

    def resolve(self, dataset: str, row: Row) -> Change:
        """Append the inner field."""
        fields = self.part.fields(row, self.path)
        found = find_field(fields, (self.outer, self.inner), f"{self.path}.input.inner.field.name")
        return self.part.replace_fields(row, (*fields, replace(found, name=self.output)), self.path)


def _build_extract_nested_field(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    output = check_new_name(values["output.field.name"], f"{path}.output.field.name")
    outer, inner = values["input.outer.field.name"], values["input.inner.field.name"]
    return ExtractNestedField(path, part, outer, inner, output)


EXTRACT_NESTED_FIELD: Final = define_value_and_key(
    "ExtractNestedField",
    (
        ConfigKey("input.outer.field.name", required=True, doc="Field that is a struct."),
        ConfigKey("input.inner.field.name", required=True, doc="Its field to copy."),
        ConfigKey("output.field.name", required=True, doc="Name of the copy."),
    ),
    _build_extract_nested_field,
    (ROCKETMQ_PACKAGE,),
)


@dataclass(frozen=True, slots=True)
class PatternFilter:
    """Drops a row when the whole text of one of the fields matches. Fields of other types, null and
    names that a dataset does not have do not match.
    """

    path: str
    part: RowPart
    pattern: str
    fields: frozenset[str]

    def resolve(self, dataset: str, row: Row) -> Change:
        """Drop the rows with a matching text."""
        regex = literals.literal(rf"\A(?:{self.pattern})\z")
        matches = [
            f"coalesce({field.sql} RLIKE {regex}, false)"
            for field in self.part.fields(row, self.path)
            if field.name in self.fields and field.type == pa.string()
        ]
        return Change(where=f"NOT ({' OR '.join(matches)})", certain=True) if matches else Change()


def _build_pattern_filter(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    # checked here, since an invalid pattern would fail in Spark on each row
    JavaPattern.compile(values["pattern"], f"{path}.pattern")
    return PatternFilter(path, part, values["pattern"], frozenset(values["fields"]))


PATTERN_FILTER: Final = define_value_and_key(
    "PatternFilter",
    (
        ConfigKey("pattern", required=True, doc="A regular expression for the whole text."),
        ConfigKey("fields", "list", required=True, doc="Fields to compare with the pattern."),
    ),
    _build_pattern_filter,
    (ROCKETMQ_PACKAGE,),
)


_PRECISION_FAILURE: Final = row_failure(
    "transform.precision_exceeded",
    "a decimal of the row has more digits than `precision.max`",
    "Raise `precision.max`, or correct the row at the source.",
)
_MAX_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class SetMaximumPrecision:
    """Narrows the types of decimals and keeps their scale. A row with a value that does not fit is
    rejected.
    """

    path: str
    part: RowPart
    max_digits: int

    def resolve(self, dataset: str, row: Row) -> Change:
        """Narrow the types of decimals."""
        before = self.part.fields(row, self.path)
        after = tuple(self._narrow_decimal(field) for field in before)
        if after == before:
            return Change()
        return self.part.replace_fields(row, after, self.path, _PRECISION_FAILURE)

    def _narrow_decimal(self, field: OutputColumn) -> OutputColumn:
        type_ = field.type
        if type_ is None or not pa.types.is_decimal(type_) or type_.precision <= self.max_digits:
            return field
        if type_.scale > self.max_digits:
            raise ConfigError(
                "transform.precision_below_scale",
                f"`{field.name}` has a scale of {type_.scale}, more than `precision.max` "
                f"({self.max_digits})",
                fix=f"Set `precision.max` to {type_.scale} or more.",
                config_path=f"{self.path}.precision.max",
            )
        narrowed_type = pa.decimal128(self.max_digits, type_.scale)
        text = f"CAST({field.sql} AS {literals.type_name(narrowed_type)})"
        return replace(field, sql=text, type=narrowed_type, source=None, certain=False)


def _build_set_maximum_precision(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    max_digits = values["precision.max"]
    if not 0 < max_digits <= _MAX_DIGITS:
        raise ConfigError(
            "config.wrong_type",
            f"`precision.max` is {max_digits}, expected 1 to {_MAX_DIGITS}",
            fix=f"Set a number from 1 to {_MAX_DIGITS}.",
            config_path=f"{path}.precision.max",
        )
    return SetMaximumPrecision(path, part, max_digits)


SET_MAXIMUM_PRECISION: Final = define_value_and_key(
    "SetMaximumPrecision",
    (ConfigKey("precision.max", "int", required=True, doc="Maximum digits of a decimal."),),
    _build_set_maximum_precision,
    (ROCKETMQ_PACKAGE,),
)


@dataclass(frozen=True, slots=True)
class SetNull:
    """Sets the key, or all columns of the row, to null."""

    path: str
    part: RowPart

    def resolve(self, dataset: str, row: Row) -> Change:
        """Replace all values by null."""
        if self.part is RowPart.VALUE:
            fields = self.part.fields(row, self.path)
            return self.part.replace_fields(row, tuple(map(_null_column, fields)), self.path)
        if row.get(KEY) is None:
            return Change()
        return self.part.replace_value(
            row, _null_column(self.part.whole_value(row, self.path)), self.path
        )


def _null_column(field: OutputColumn) -> OutputColumn:
    text = f"CASE WHEN false THEN {field.sql} END"  # null of the same type
    return replace(field, sql=text, source=None, certain=True)


def _build_set_null(part: RowPart, path: str, _values: Mapping[str, Any]) -> Transform:
    return SetNull(path, part)


SET_NULL: Final = define_value_and_key("SetNull", (), _build_set_null, (ROCKETMQ_PACKAGE,))
