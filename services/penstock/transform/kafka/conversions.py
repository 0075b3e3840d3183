"""Type conversions: Cast (with the rules of Java) and TimestampConverter (texts, Unix times, dates,
times of day, timestamps).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind

from penstock.model.config_def import ConfigKey, did_you_mean
from penstock.model.errors import ConfigError, Diagnostic
from penstock.transform.change import Change, OutputColumn, Transform, row_failure
from penstock.transform.column_kernel import ColumnSource, convert_column
from penstock.transform.java.cast_kernels import cast_source
from penstock.transform.java.casts import TARGETS, TIME, cast_expression
from penstock.transform.java.date_formats import milliseconds_pattern, translate_date_format
from penstock.transform.java.date_texts import DAY_US
from penstock.transform.java.time_kernels import (
    INSTANT,
    ParsedTime,
    ScaledTime,
    cut_thousands,
    parsing_regex,
    to_dates,
    to_instants,
    to_times,
    to_unix,
    write_instants,
)
from penstock.transform.row import Default, Row
from penstock.transform.row_parts import REPLACE_NULL_WITH_DEFAULT, RowPart, define_value_and_key
from penstock.transform.sql import literals


def _cast_failure(casts: Sequence[str]) -> Diagnostic:
    shown = ", ".join(casts[:_MAX_SHOWN]) + (", …" if len(casts) > _MAX_SHOWN else "")
    return row_failure(
        "transform.cast_failed",
        f"a value of the row cannot be cast as spec={shown} says",
        "Correct the row at the source, or cast with try_cast in Project.",
    )


_MAX_SHOWN: Final = 5
"""Fields that a message names."""


@dataclass(frozen=True, slots=True)
class Cast:
    """Casts fields to other types, or the value or key itself. Names that a dataset does not have
    are ignored, as in Kafka.
    """

    path: str
    part: RowPart
    targets: Mapping[str, str]
    whole: str | None
    defaults: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Cast the fields of `targets`, or the whole value or key."""
        if self.whole is not None:
            before = self.part.whole_value(row, self.path)
            value = self._cast(before, self.whole)
            failure = _cast_failure([self.whole])
            return self.part.replace_value(row, value, self.path, failure)
        fields = self.part.fields(row, self.path)
        after = tuple(
            self._cast(field, self.targets[field.name]) if field.name in self.targets else field
            for field in self.part.read_fields(row, self.path, defaults=self.defaults)
        )
        if after == fields:
            return Change()
        present = {field.name for field in fields}
        casts = [f"{name}:{kind}" for name, kind in self.targets.items() if name in present]
        return self.part.replace_fields(row, after, self.path, _cast_failure(casts))

    def _cast(self, field: OutputColumn, target: str) -> OutputColumn:
        target_type = TARGETS[target]
        if field.type is None:
            text = f"CAST({field.sql} AS {literals.type_name(target_type)})"
            return OutputColumn(field.name, text, target_type)
        semantic_type = field.semantic_type
        if field.type == target_type and not semantic_type:
            return field
        found = cast_expression(field.sql, field.type, semantic_type, target)
        if found is None:
            raise ConfigError(
                "transform.cannot_cast",
                f"`{field.name}` is {field.type}, which cannot be cast to {target}",
                fix="Bytes can be cast to string; lists, maps and structs cannot be cast.",
                config_path=f"{self.path}.spec",
            )
        text, certain = found
        source: ColumnSource | None = None
        if field.source is not None and not field.can_fail:
            source = cast_source(field.source, field.type, semantic_type, target)
        return replace(
            field,
            sql=text,
            type=target_type,
            source=source,
            certain=certain and field.certain,
            semantic_type="",
            default=_cast_default(field, target),
        )


def _cast_default(field: OutputColumn, target: str) -> Default | None:
    if field.default is None or field.type is None:
        return None
    found = cast_expression(field.default.sql, field.type, field.semantic_type, target)
    return None if found is None else Default(found[0])


def _build_cast(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    where = f"{path}.spec"
    targets: dict[str, str] = {}
    whole: str | None = None
    for text in values["spec"]:
        *name, target = (word.strip() for word in text.split(":"))
        if len(name) > 1 or target.lower() not in TARGETS:
            raise ConfigError(
                "config.bad_choice",
                f"`{text}` is not a field and its type",
                fix=f"Write `field:type` or one type. {did_you_mean(target, TARGETS)}",
                config_path=where,
            )
        if name:
            targets[name[0]] = target.lower()
        else:
            whole = target.lower()
    if whole is not None and len(values["spec"]) > 1:
        raise ConfigError(
            "config.bad_choice",
            "a type without a field casts the whole value, so it must be the only entry",
            fix="Name a field for each type.",
            config_path=where,
        )
    return Cast(path, part, targets, whole, values[REPLACE_NULL_WITH_DEFAULT.name])


CAST: Final = define_value_and_key(
    "Cast",
    (
        ConfigKey("spec", "list", required=True, doc="Casts `field:type`, or one type."),
        REPLACE_NULL_WITH_DEFAULT,
    ),
    _build_cast,
)


_TIME_FAILURE: Final = row_failure(
    "transform.not_a_time",
    "a value of the row is not a time in the configured format",
    "Correct the row at the source, or the `format`; the whole text must match it.",
)
_PRECISIONS: Final = ("seconds", "milliseconds", "microseconds", "nanoseconds")
_UNITS_US: Final = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}


@dataclass(frozen=True, slots=True)
class TimestampConverter:
    """Converts one field, or the whole value or key where `field` is empty. Microseconds are kept
    where both types have them.
    """

    path: str
    part: RowPart
    field: str
    target: str
    format: str
    precision: str
    defaults: bool

    def resolve(self, dataset: str, row: Row) -> Change:
        """Convert the field, or the whole value or key."""
        if not self.field:
            value = self._convert(self.part.whole_value(row, self.path))
            return self.part.replace_value(row, value, self.path, _TIME_FAILURE)
        before = self.part.fields(row, self.path)
        read = self.part.read_fields(row, self.path, defaults=self.defaults)
        after = tuple(self._convert(f) if f.name == self.field else f for f in read)
        if after == before:
            return Change()
        return self.part.replace_fields(row, after, self.path, _TIME_FAILURE)

    def _convert(self, field: OutputColumn) -> OutputColumn:
        text, type_, semantic_type = self._from_timestamp(self._to_timestamp(field))
        source = self._source(field)
        return OutputColumn(field.name, text, type_, source, semantic_type=semantic_type)

    def _source(self, field: OutputColumn) -> ColumnSource | None:
        """Return the kernel of the conversion; None where there is none."""
        instant = self._instant_source(field)
        if instant is None:
            return None
        match self.target:
            case "string":
                return convert_column(instant, partial(write_instants, pattern=self.format))
            case "Date":
                return convert_column(instant, to_dates)
            case "Time":
                return convert_column(instant, to_times)
            case "unix" if self.precision == "nanoseconds":
                return None  # may be too large
            case "unix":
                return convert_column(instant, partial(to_unix, unit_us=_UNITS_US[self.precision]))
        return instant

    def _instant_source(self, field: OutputColumn) -> ColumnSource | None:
        """Return the kernel of a value as an instant."""
        of, type_ = field.source, field.type
        if of is None or field.can_fail or type_ is None:
            return None
        if kind.is_timestamp(type_):
            return convert_column(of, to_instants) if type_.unit == "us" else None
        if kind.is_date32(type_):
            return ScaledTime(of, DAY_US)
        if kind.is_string(type_):
            regex = parsing_regex(self.format)
            return ParsedTime(of, self.format, regex) if regex else None
        if field.semantic_type == TIME or self.precision == "microseconds":
            return convert_column(of, to_instants)
        if self.precision == "nanoseconds":
            return convert_column(convert_column(of, cut_thousands), to_instants)
        return ScaledTime(of, _UNITS_US[self.precision])

    def _to_timestamp(self, field: OutputColumn) -> str:
        """Return the SQL of a value as a timestamp with time zone."""
        text, type_ = field.sql, field.type
        if type_ is None or kind.is_timestamp(type_) or kind.is_date(type_):
            return f"CAST({text} AS TIMESTAMP_LTZ)"
        if kind.is_int64(type_):
            is_time = field.semantic_type == TIME
            return f"timestamp_micros({text})" if is_time else self._from_unix(text)
        if kind.is_string(type_) and self.format:
            if "yy" in self.format and "yyyy" not in self.format:
                raise self._cannot_convert(field, "a text whose format has a year of two digits")
            return (
                f"to_timestamp({self._check_milliseconds(text)}, {literals.literal(self.format)})"
            )
        raise self._cannot_convert(field, f"{type_}{'' if self.format else ', without a format'}")

    def _check_milliseconds(self, text: str) -> str:
        """Return the SQL of a text, with an empty text, which fails, where the milliseconds do not
        have three digits.
        """
        pattern = milliseconds_pattern(self.format)
        if not pattern:
            return text
        fits = f"regexp_like({text}, {literals.literal(f'^{pattern}$')})"
        return f"CASE WHEN {text} IS NULL OR {fits} THEN {text} ELSE '' END"

    def _from_unix(self, text: str) -> str:
        match self.precision:
            case "seconds":
                return f"timestamp_seconds({text})"
            case "milliseconds":
                return f"timestamp_millis({text})"
            case "microseconds":
                return f"timestamp_micros({text})"
        return f"timestamp_micros({text} DIV 1000)"

    def _from_timestamp(self, instant: str) -> tuple[str, pa.DataType, str]:
        """Return a timestamp as the target type: its SQL, Arrow type and semantic type."""
        match self.target:
            case "string":
                return f"date_format({instant}, {literals.literal(self.format)})", pa.string(), ""
            case "unix":
                return self._to_unix(instant), pa.int64(), ""
            case "Date":
                return f"CAST({instant} AS DATE)", pa.date32(), ""
            case "Time":
                return f"pmod(unix_micros({instant}), {DAY_US}L)", pa.int64(), TIME
        return instant, INSTANT, ""

    def _to_unix(self, instant: str) -> str:
        match self.precision:
            case "seconds":
                return f"(unix_millis({instant}) DIV 1000)"
            case "milliseconds":
                return f"unix_millis({instant})"
            case "microseconds":
                return f"unix_micros({instant})"
        return f"(unix_micros({instant}) * 1000L)"

    def _cannot_convert(self, field: OutputColumn, what: str) -> ConfigError:
        return ConfigError(
            "transform.not_a_time_type",
            f"`{field.name}` is {what}, which cannot be converted to a time",
            fix="Times are int64, texts with a `format`, dates and timestamps; use Cast before it.",
            config_path=f"{self.path}.field",
        )


def _build_timestamp_converter(part: RowPart, path: str, values: Mapping[str, Any]) -> Transform:
    pattern = values["format"]
    if values["target.type"] == "string" and not pattern.strip():
        raise ConfigError(
            "config.missing",
            "`target.type` string needs a format",
            fix="Set `format` to a pattern like `yyyy-MM-dd HH:mm:ss`.",
            config_path=f"{path}.format",
        )
    return TimestampConverter(
        path,
        part,
        values["field"],
        values["target.type"],
        translate_date_format(pattern, f"{path}.format"),
        values["unix.precision"],
        values[REPLACE_NULL_WITH_DEFAULT.name],
    )


TIMESTAMP_CONVERTER: Final = define_value_and_key(
    "TimestampConverter",
    (
        ConfigKey("field", default="", doc="Field with the time; empty: the whole value."),
        ConfigKey(
            "target.type",
            required=True,
            choices=("string", "unix", "Date", "Time", "Timestamp"),
            doc="Type of the result.",
        ),
        ConfigKey("format", default="", doc="Pattern of texts, in the syntax of SimpleDateFormat."),
        ConfigKey(
            "unix.precision",
            default="milliseconds",
            choices=_PRECISIONS,
            doc="Unit of Unix times.",
        ),
        REPLACE_NULL_WITH_DEFAULT,
    ),
    _build_timestamp_converter,
)
