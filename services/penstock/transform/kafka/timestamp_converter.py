"""TimestampConverter: between texts, Unix times, dates, times of the day and timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Output, Transform, failure
from penstock.transform.java.casts import TIME
from penstock.transform.java.date_formats import fractions_of, spark_pattern
from penstock.transform.parts import NULLS, Part, halves
from penstock.transform.row import Row
from penstock.transform.sql import quoting

_FAILURE: Final = failure(
    "transform.not_a_time",
    "a value of the row is not a time in the format that was given",
    "Correct the row at the source, or the `format`; texts must match it wholly.",
)
_PRECISIONS: Final = ("seconds", "milliseconds", "microseconds", "nanoseconds")
_INSTANT: Final = pa.timestamp("us", "UTC")
_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class TimestampConverter:
    """Converts one field, or the whole value or key where `field` is empty. Microseconds stay where
    both sides have them.
    """

    path: str
    part: Part
    field: str
    target: str
    format: str
    precision: str

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        if not self.field:
            value = self._converted(self.part.whole(row, self.path))
            return self.part.replaced(row, value, self.path, _FAILURE)
        before = self.part.fields(row, self.path)
        after = tuple(self._converted(f) if f.name == self.field else f for f in before)
        return Change() if after == before else self.part.rebuilt(row, after, self.path, _FAILURE)

    def _converted(self, field: Output) -> Output:
        text, type_, meaning = self._written(self._instant(field))
        return Output(field.name, text, type_, meaning=meaning)

    def _instant(self, field: Output) -> str:
        """Return a value as a timestamp of Spark's."""
        text, type_ = field.sql, field.type
        if type_ is None or kind.is_timestamp(type_) or kind.is_date(type_):
            return f"CAST({text} AS TIMESTAMP_LTZ)"
        if kind.is_int64(type_):
            return f"timestamp_micros({text})" if field.meaning == TIME else self._of_unix(text)
        if kind.is_string(type_) and self.format:
            if "yy" in self.format and "yyyy" not in self.format:
                raise self._cannot(field, "a text whose format has a year of two digits")
            return f"to_timestamp({self._whole(text)}, {quoting.literal(self.format)})"
        raise self._cannot(field, f"{type_}{'' if self.format else ', without a format'}")

    def _whole(self, text: str) -> str:
        """Return a text, and one that is no time in place of texts with other milliseconds."""
        pattern = fractions_of(self.format)
        if not pattern:
            return text
        fits = f"regexp_like({text}, {quoting.literal(f'^{pattern}$')})"
        return f"CASE WHEN {text} IS NULL OR {fits} THEN {text} ELSE '' END"

    def _of_unix(self, text: str) -> str:
        match self.precision:
            case "seconds":
                return f"timestamp_seconds({text})"
            case "milliseconds":
                return f"timestamp_millis({text})"
            case "microseconds":
                return f"timestamp_micros({text})"
        return f"timestamp_micros({text} DIV 1000)"

    def _written(self, instant: str) -> tuple[str, pa.DataType, str]:
        """Return a timestamp in the type that was asked for."""
        match self.target:
            case "string":
                return f"date_format({instant}, {quoting.literal(self.format)})", pa.string(), ""
            case "unix":
                return self._as_unix(instant), pa.int64(), ""
            case "Date":
                return f"CAST({instant} AS DATE)", pa.date32(), ""
            case "Time":
                return f"pmod(unix_micros({instant}), {_DAY_US}L)", pa.int64(), TIME
        return instant, _INSTANT, ""

    def _as_unix(self, instant: str) -> str:
        match self.precision:
            case "seconds":
                return f"(unix_millis({instant}) DIV 1000)"
            case "milliseconds":
                return f"unix_millis({instant})"
            case "microseconds":
                return f"unix_micros({instant})"
        return f"(unix_micros({instant}) * 1000L)"

    def _cannot(self, field: Output, what: str) -> ConfigError:
        return ConfigError(
            "transform.not_a_time_type",
            f"`{field.name}` is {what}: no time that can be converted",
            fix="Times are int64, texts with a `format`, dates and timestamps; use Cast before it.",
            config_path=f"{self.path}.field",
        )


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    pattern = values["format"]
    if values["target.type"] == "string" and not pattern.strip():
        raise ConfigError(
            "config.missing",
            "texts need a format",
            fix="Set `format` to a pattern like `yyyy-MM-dd HH:mm:ss`.",
            config_path=f"{path}.format",
        )
    return TimestampConverter(
        path,
        part,
        values["field"],
        values["target.type"],
        spark_pattern(pattern, f"{path}.format"),
        values["unix.precision"],
    )


KINDS: Final = halves(
    "TimestampConverter",
    (
        ConfigKey("field", default="", doc="Field with the time; empty: the whole value."),
        ConfigKey(
            "target.type",
            required=True,
            choices=("string", "unix", "Date", "Time", "Timestamp"),
            doc="What it becomes.",
        ),
        ConfigKey("format", default="", doc="Pattern of texts, as `SimpleDateFormat` has it."),
        ConfigKey(
            "unix.precision",
            default="milliseconds",
            choices=_PRECISIONS,
            doc="Unit of Unix times.",
        ),
        NULLS,
    ),
    _build,
)
