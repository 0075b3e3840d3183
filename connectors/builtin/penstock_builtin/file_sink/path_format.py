"""`path.format`: folders by time, in the pattern language of Java's Joda-Time. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.file_sink.partitions import NOTHING, unfit
from penstock_connector import ConfigError

_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)", re.DOTALL)
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_NUMBERS: Final[Mapping[str, Callable[[datetime], int]]] = {
    "y": lambda at: at.year,
    "Y": lambda at: at.year,
    "x": lambda at: at.isocalendar().year,
    "w": lambda at: at.isocalendar().week,
    "e": lambda at: at.isoweekday(),
    "M": lambda at: at.month,
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "H": lambda at: at.hour,
    "k": lambda at: at.hour or 24,
    "K": lambda at: at.hour % 12,
    "h": lambda at: at.hour % 12 or 12,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
}
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - of local times
RECORD_TIME: Final = "__ts_us"
"""The time of a row's message, in microseconds of Unix time."""


@dataclass(frozen=True, slots=True)
class PathFormat:
    """A pattern: texts, and letters with their counts."""

    pieces: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, pattern: str) -> PathFormat:
        """Return the parts of `'year'=YYYY/'month'=MM`.

        Raises:
            ConfigError: `config.invalid_value`: a letter has no meaning, or the path is none.
        """
        pieces, at = [], 0
        while at < len(pattern):
            match = _TOKEN.match(pattern, at)
            if match is None:
                raise _wrong(f"{pattern!r} has a quote without its end")
            at = match.end()
            if match[2]:
                if match[2] not in {*_NUMBERS, "S", "a", "E"}:
                    raise _wrong(f"{pattern!r}: the letter {match[2]} is not known here")
                pieces.append((match[2], len(match[0])))
            else:
                text = match[1].replace("''", "'") or "'" if match[1] is not None else match[3]
                pieces.append((text, 0))
        made = cls(tuple(pieces))
        parts = made.text(_EPOCH).split("/")
        if not pattern or any(part in {"", ".", ".."} for part in parts):
            raise _wrong(f"{pattern!r} is no path of folders")
        return made

    @property
    def has_words(self) -> bool:
        """Whether names of months and days are in it, which have a language."""
        return any(
            letter in {"a", "E"} or (letter == "M" and count > 2)
            for letter, count in self.pieces
            if count
        )

    def text(self, at: datetime) -> str:
        """Return the folders of a local time."""
        return "".join(
            _piece(letter, count, at) if count else letter for letter, count in self.pieces
        )


def _piece(letter: str, count: int, at: datetime) -> str:
    if letter == "M" and count > 2:
        name = _MONTHS[at.month - 1]
        return name[:3] if count == 3 else name
    if letter == "E":
        name = _DAYS[at.weekday()]
        return name[:3] if count <= 3 else name
    if letter == "a":
        return "AM" if at.hour < 12 else "PM"
    if letter == "S":
        return f"{at.microsecond:06d}".ljust(count, "0")[:count]
    number = _NUMBERS[letter](at)
    if letter in "yYx" and count == 2:
        number %= 100
    return str(number).zfill(count)


@dataclass(frozen=True, slots=True)
class TimePath:
    """A level of folders that are named by a time.

    Attributes:
        format: How.
        column: Whose times; empty for the time of writing.
        every: Times are those at the beginning of so many seconds; 0: as they are.
    """

    format: PathFormat
    column: str = ""
    every: float = 0.0
    unit: str = "path"

    def check(self, schema: pa.Schema) -> None:
        """Raise when rows of a schema have no such time.

        Raises:
            SchemaError: `file.partition_column`.
        """
        if not self.column:
            return
        if self.column not in schema.names:
            told = "the rows have no time of a message" if self.column == RECORD_TIME else ""
            raise unfit(told or f"there is no column {self.column!r}")
        kind = schema.field(self.column).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or _is_millis(kind)):
            raise unfit(f"column {self.column!r} is {kind}, and tells no time")

    def folders(self, rows: pa.RecordBatch, zone: str) -> pa.Array:
        """Return the folders of each row. Only different times are made texts of."""
        if not self.column:
            now = pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC"))
            times = pa.repeat(now, rows.num_rows)
        else:
            times = self._times(rows.column(self.column))
        if times.type.tz:
            times = pc.local_timestamp(times.cast(pa.timestamp("us", zone)))
        known = times.cast(pa.timestamp("us")).dictionary_encode()
        names = [self.format.text(self._floor(at)) for at in known.dictionary.to_pylist()]
        return pa.array(names, pa.string()).take(known.indices).fill_null(NOTHING)

    def _times(self, column: pa.Array) -> pa.Array:
        if pa.types.is_timestamp(column.type):
            return column.cast(pa.timestamp("us", column.type.tz), safe=False)
        if pa.types.is_date(column.type):
            return column.cast(pa.timestamp("us"))
        unit = "us" if self.column == RECORD_TIME else "ms"
        return (
            column.cast(pa.int64()).cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp("us", "UTC"))
        )

    def _floor(self, at: datetime) -> datetime:
        if not self.every:
            return at
        every = timedelta(seconds=self.every)
        return _EPOCH + (at - _EPOCH) // every * every


def _is_millis(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_int32(kind))


def _wrong(why: str) -> ConfigError:
    return ConfigError(
        "config.invalid_value",
        f"`path.format`: {why}",
        fix="Write folders in Joda's letters, with texts between quotes: "
        "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH.",
        config_path="path.format",
    )
