"""Places in a table, and the offsets that name them. Pure.

Offsets are for people, too: times are texts, and the numbers that Kafka Connect's connector wrote
(`{"incrementing": 7}`, `{"timestamp": <ms>}`) are valid ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from penstock_connector import ConfigError

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock, as rows have it
_MICROSECOND: Final = timedelta(microseconds=1)
FIRST: Final = (datetime(1, 1, 1) - _EPOCH) // _MICROSECOND  # noqa: DTZ001 - as above
"""The first time that a row can have: 0001-01-01."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place among rows in the order of time and key.

    Attributes:
        at: Microseconds since 1970.
        key: The key up to which rows of that time are behind it. None: all rows of that time are
            still to come; empty: all of them are behind.
    """

    at: int = FIRST
    key: tuple[Any, ...] | None = None


def micros(at: datetime) -> int:
    """Return a time without zone as microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def time_text(at: int) -> str:
    """Return microseconds since 1970 as a text with all six digits."""
    return (_EPOCH + at * _MICROSECOND).isoformat(" ", "microseconds")


def time_value(at: int, form: str) -> str | int | datetime:
    """Return microseconds since 1970 as statements compare them; see `dialect.Stamp`."""
    match form:
        case "ms":
            return at // 1000
        case "s":
            return at // 1_000_000
        case "milli":
            return time_text(at)[:-3]
        case "wall":
            return _EPOCH + at * _MICROSECOND
        case "instant":
            return (_EPOCH + at * _MICROSECOND).replace(tzinfo=UTC)
    return time_text(at)


def place_of(offset: Mapping[str, Any]) -> Place:
    """Return the place of an offset.

    Raises:
        ConfigError: `jdbc.bad_offset`.
    """
    at = offset.get("timestamp")
    key = offset.get("key")
    if key is None and "incrementing" in offset:
        key = [offset["incrementing"]]
    try:
        if isinstance(at, str):
            found = micros(datetime.fromisoformat(at))
        else:  # Kafka Connect's: everything up to that millisecond was read
            found = (
                FIRST
                if at is None
                else int(at) * 1000 + int(offset.get("timestamp_nanos", 0)) // 1000 % 1000
            )
    except (TypeError, ValueError) as error:
        raise bad_offset(offset, "`timestamp` is no time") from error
    return Place(found, None if key is None else tuple(key))


def place_offset(place: Place) -> dict[str, Any]:
    """Return the offset of a place."""
    offset: dict[str, Any] = {"timestamp": time_text(place.at)}
    if place.key is not None:
        offset["key"] = list(place.key)
    return offset


def plain(value: Any) -> Any:
    """Return a value of a key as offsets keep it: a time as a text, which has no zone to lose."""
    if isinstance(value, datetime):
        at = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return at.isoformat(" ", "microseconds")
    return value.isoformat() if isinstance(value, date) else value


def check_mode(offset: Mapping[str, Any], mode: str) -> None:
    """Refuse an offset of another mode, which would be taken for one of the first row.

    Raises:
        ConfigError: `jdbc.bad_offset`.
    """
    fields = {"bulk": ("pass",), "incrementing": ("incrementing",), "timestamp": ("timestamp",)}
    wanted = fields.get(mode, ("timestamp", "incrementing"))
    if offset.keys().isdisjoint(wanted):
        raise bad_offset(offset, f"`{mode}` wants `{'` or `'.join(wanted)}`")
    for field in wanted:
        if isinstance(offset.get(field), bool | Mapping | list):
            raise bad_offset(offset, f"`{field}` is neither a number nor a text")
    if mode == "bulk" and not isinstance(offset["pass"], int):
        raise bad_offset(offset, "`pass` is no whole number")
    if not isinstance(offset.get("key"), list | None):
        raise bad_offset(offset, "`key` is no list")


def bad_offset(offset: Mapping[str, Any], why: str) -> ConfigError:
    """Return the error of an offset that means nothing here."""
    return ConfigError(
        "jdbc.bad_offset",
        f"an offset with {', '.join(sorted(offset)) or 'nothing'} cannot be gone on from: {why}",
        fix="Reset the connector's offsets, or write one as this mode has it.",
    )
