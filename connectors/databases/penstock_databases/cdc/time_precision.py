"""`time.precision.mode`: dates and times in the types of Debezium's messages. Pure.

| mode | date | time | timestamp without zone |
|---|---|---|---|
| `adaptive` | days | milliseconds up to three digits, else microseconds | the same |
| `adaptive_time_microseconds` | days | microseconds | as `adaptive` |
| `connect` | Kafka Connect's Date | its Time, in milliseconds | its Timestamp |
| `isostring` | text | text | text |
| `microseconds`, `nanoseconds` | days | in this unit | in this unit |

In all modes, timestamps and times with a zone are texts in UTC, and years are numbers. A value that
has no place in its type is an error: nothing is rounded or cut but by `connect`, whose times have
milliseconds.

Source: Debezium's documentation, "Temporal types" of its MySQL and PostgreSQL connectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import DataError
from penstock_connector.tables.types import fraction_digits
from penstock_converters.connect_schema import TIME, TIMESTAMP
from penstock_values.semantic_types import semantic_type, with_schema_name

MODES: Final = (
    "adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds",
)  # fmt: skip

_DEBEZIUM: Final = "io.debezium.time."
_CONNECT_TIME: Final = TIME
_CONNECT_TIMESTAMP: Final = TIMESTAMP
_CONNECT: Final = "connect"
_ISO: Final = "isostring"
_MILLIS: Final = 3
"""Digits of fractions of seconds that milliseconds have."""

_TIME: Final = (
    r"^(?P<sign>-?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)(?:\.(?P<fraction>\d{1,6}))?$"
)
_ZEROS: Final = r"\.?0+$"
"""Zeros at the end of a fraction of a second, and its point where there is nothing else."""


def typed_time(column: pa.Array, field: pa.Field, mode: str, digits: int) -> pa.Array:
    """Return a column as a mode has it.

    Args:
        column: The values.
        field: Their field, which has a `time_schema`.
        mode: One of `MODES`.
        digits: Digits of fractions of seconds where the field does not tell.

    Raises:
        DataError: `sql.value`: a value has no place in the type.
    """
    name = time_schema(field, mode, digits)
    try:
        return _converted(column, name.removeprefix(_DEBEZIUM))
    except (pa.ArrowInvalid, ValueError) as error:
        raise DataError(
            "sql.value",
            f"column {field.name!r} has a value that {name} has no place for: {error}",
            fix="Set `time.precision.mode` to isostring, or correct the row.",
        ) from error


def time_schema(field: pa.Field, mode: str, digits: int) -> str:
    """Return the name of the schema that values of a field have by a mode; empty: they stay."""
    kind, meaning = field.type, semantic_type(field)
    digits = fraction_digits(field, digits)
    name = ""
    if pa.types.is_date(kind):
        name = {_CONNECT: "", _ISO: "IsoDate"}.get(mode, "Date")
    elif pa.types.is_timestamp(kind):
        if mode == _CONNECT and not kind.tz:
            return _CONNECT_TIMESTAMP
        name = "ZonedTimestamp" if kind.tz else _unit(mode, "Timestamp", digits)
    elif meaning == "time":
        if mode == _CONNECT:
            return _CONNECT_TIME
        name = _unit(mode, "Time", 6 if mode == MODES[1] else digits)
    elif meaning == "timetz":
        name = "ZonedTime"
    elif meaning == "year":
        name = "Year"
    return f"{_DEBEZIUM}{name}" if name else ""


def time_field(field: pa.Field, kind: pa.DataType, mode: str, digits: int) -> pa.Field:
    """Return the field of values that `typed_time` made, which names their schema; Kafka Connect's
    Timestamp has a type of its own here.
    """
    if pa.types.is_timestamp(kind):
        return field.with_type(kind)
    return with_schema_name(pa.field(field.name, kind), time_schema(field, mode, digits))


def _unit(mode: str, what: str, digits: int) -> str:
    match mode:
        case "isostring":
            return f"Iso{what}"
        case "microseconds":
            return f"Micro{what}"
        case "nanoseconds":
            return f"Nano{what}"
    return what if digits <= _MILLIS else f"Micro{what}"


def _converted(column: pa.Array, name: str) -> pa.Array:
    convert = _CONVERTERS.get(name)
    if convert is not None:
        return convert(column)
    micros = _micros(column)
    if name == "MicroTime":
        return micros
    if name == "NanoTime":
        return pc.multiply_checked(micros, 1_000)
    millis = pc.divide(micros, 1_000)
    if name == "Time" and pc.any(pc.not_equal(pc.multiply(millis, 1_000), micros)).as_py():
        raise ValueError("it has microseconds")
    return millis.cast(pa.int32())


def _micros(column: pa.Array) -> pa.Array:
    """Return times of day, or of any length, in microseconds."""
    parts = pc.extract_regex(column, _TIME)
    if parts.null_count > column.null_count:
        raise ValueError("it is no time")
    hours, minutes, seconds = (
        pc.struct_field(parts, name).cast(pa.int64()) for name in ("hours", "minutes", "seconds")
    )
    fraction = pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0").cast(pa.int64())
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    micros = pc.add(pc.multiply(whole, 1_000_000), fraction)
    return pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(micros), micros)


def _iso_moments(column: pa.Array) -> pa.Array:
    utc = column.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    return _ended(_trimmed(pc.replace_substring(utc, " ", "T")))


def _iso_times(column: pa.Array) -> pa.Array:
    whole = pc.invert(pc.match_substring(column, "."))
    return _ended(pc.if_else(whole, column, _trimmed(column)))


def _trimmed(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, _ZEROS, "")


def _ended(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(texts, pa.scalar("Z"), "")


def _in_utc(text: str | None) -> str | None:
    """Return a time with a zone, as PostgreSQL writes it, as it is in UTC."""
    if text is None:
        return None
    day = "24:" if text.startswith("24:") else ""
    moment = datetime.fromisoformat(f"2000-01-01T{text.replace(day, '00:', 1) if day else text}")
    shown = moment.astimezone(UTC).time().isoformat()
    return f"{shown.rstrip('0') if '.' in shown else shown}Z"


_CONVERTERS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = {
    _CONNECT_TIMESTAMP: lambda column: pc.floor_temporal(column, unit="millisecond"),
    "Year": lambda column: column,
    "Date": lambda column: column.cast(pa.int32()),
    "IsoDate": lambda column: _ended(column.cast(pa.string())),
    "Timestamp": lambda column: column.cast(pa.timestamp("ms")).cast(pa.int64()),
    "MicroTimestamp": lambda column: column.cast(pa.int64()),
    "NanoTimestamp": lambda column: pc.multiply_checked(column.cast(pa.int64()), 1_000),
    "IsoTimestamp": _iso_moments,
    "ZonedTimestamp": _iso_moments,
    "IsoTime": _iso_times,
    "ZonedTime": lambda column: pa.array(map(_in_utc, column.to_pylist()), pa.string()),
}
"""By names of schemas; times of day in numbers are made by `_converted`."""
