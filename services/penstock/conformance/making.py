"""Rows for a sink: made from the types of the declared columns, or read from the author's file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.conformance.declared import Declared
from penstock.conformance.rows import Row, read_lines
from penstock.model.errors import ConfigError

_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "instant": pa.timestamp("us", tz="UTC"),
}
_START: Final = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_PLAIN: Final[Mapping[str, Callable[[int], Any]]] = {
    "bool": lambda n: n % 2 == 0,
    "int8": lambda n: n % 100,
    "int16": lambda n: n,
    "int32": lambda n: n,
    "int64": lambda n: n,
    "float64": lambda n: n + 0.5,
    "string": lambda n: f"row {n}",
    "binary": lambda n: bytes([n % 256, 0, 255]),
    "date": lambda n: date(2026, 1, 1) + timedelta(days=n),
    "timestamp": lambda n: (_START + timedelta(seconds=n)).replace(tzinfo=None),
    "instant": lambda n: _START + timedelta(seconds=n),
}
_HARD: Final[Mapping[str, Sequence[Any]]] = {
    "bool": (True, False),
    "int8": (-128, 127),
    "int16": (-32768, 32767),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (2**53 + 1, -(2**63), 2**63 - 1),
    "float64": (0.1, -1.5e300, 5e-324),
    "string": ("", "quote \" ' \\ tab \t", "four bytes 😀 é", "line\nbreak"),
    "binary": (b"", bytes(range(256))),
    "date": (date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)),
    "timestamp": (datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2038, 1, 19, 3, 14, 8)),  # noqa: DTZ001 - one without a zone is meant
    "instant": (datetime(1970, 1, 2, tzinfo=UTC), datetime(2037, 12, 31, 23, 59, 59, 1, UTC)),
}


class Rows:
    """The rows that a sink is given, one after the other, no two the same."""

    def __init__(self, declared: Declared, folder: Path) -> None:
        self._declared = declared
        self._kinds = declared.columns
        self.schema = pa.schema([(name, _type(kind)) for name, kind in self._kinds.items()])
        self.keys = declared.keys or tuple(self._kinds)[:1]
        self._given = self._read(folder / declared.input) if declared.input else None

    @property
    def made(self) -> bool:
        """Whether the kit makes the rows itself, so that it may make others."""
        return self._given is None

    def take(self, first: int, count: int) -> list[Row]:
        """Return rows by their numbers."""
        if self._given is not None:
            if first + count > len(self._given):
                raise ConfigError(
                    "conformance.too_few_rows",
                    f"`input` has {len(self._given)} rows, {first + count} are needed",
                    fix="Write more rows into the file.",
                )
            return self._given[first : first + count]
        return [
            {name: _plain(kind, number) for name, kind in self._kinds.items()}
            for number in range(first, first + count)
        ]

    def hard(self) -> list[Row]:
        """Return rows with the hardest values of every type, and nulls where no key is."""
        most = max(len(_hard(kind)) for kind in self._kinds.values()) + 1
        return [
            {name: self._hard(name, kind, number) for name, kind in self._kinds.items()}
            for number in range(most)
        ]

    def _hard(self, name: str, kind: str, number: int) -> Any:
        if name in self.keys:
            return _plain(kind, number)
        values = _hard(kind)
        return values[number] if number < len(values) else None

    def _read(self, place: Path) -> list[Row]:
        rows = read_lines(place.read_text(encoding="utf-8"))
        return [
            {name: _typed(kind, row.get(name)) for name, kind in self._kinds.items()}
            for row in rows
        ]


def _type(kind: str) -> pa.DataType:
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    if kind not in _TYPES:
        raise ConfigError(
            "conformance.bad_declaration",
            f"columns: there is no type {kind!r}",
            config_path="connector.columns",
            fix=f"Use one of {', '.join(_TYPES)}, decimal(p,s).",
        )
    return _TYPES[kind]


def _plain(kind: str, number: int) -> Any:
    if found := _DECIMAL.fullmatch(kind):
        return Decimal(number).scaleb(-int(found[2]))
    return _PLAIN[kind](number)


def _hard(kind: str) -> Sequence[Any]:
    if found := _DECIMAL.fullmatch(kind):
        precision, scale = int(found[1]), int(found[2])
        most = Decimal((0, (9,) * precision, -scale))
        return (most, Decimal((1, (9,) * precision, -scale)), Decimal((0, (1,), -scale)))
    return _HARD[kind]


def _typed(kind: str, value: Any) -> Any:
    if value is not None and _DECIMAL.fullmatch(kind):
        return Decimal(value)
    return value
