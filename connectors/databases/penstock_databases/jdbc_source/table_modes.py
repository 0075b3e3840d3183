"""`table.modes`: tables that are read in another mode than the others. Pure.

    shop.countries=bulk, .*_log=timestamp(written_at), shop.events=timestamp(at)+incrementing(id)

A mode may name its columns. Without them, those of `timestamp.column.name` and
`incrementing.column.name` count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock_connector import ConfigError, Pattern

_KEY: Final = "table.modes"
_COLUMNS: Final = r"(?:\(([^()]+)\))?"
_MODE: Final = re.compile(
    rf"bulk|incrementing{_COLUMNS}|timestamp{_COLUMNS}(\+incrementing{_COLUMNS})?"
)


@dataclass(frozen=True, slots=True)
class TableMode:
    """The mode of the tables that a pattern means. Columns that are not named are empty."""

    pattern: Pattern
    mode: str
    timestamp_columns: tuple[str, ...] = ()
    incrementing_column: str = ""


def parse_table_modes(texts: Sequence[str]) -> tuple[TableMode, ...]:
    """Return the modes, in their order.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    return tuple(map(_parse, texts))


def find_mode(modes: Iterable[TableMode], names: Sequence[str]) -> TableMode | None:
    """Return the first mode whose pattern means one of the names of a table."""
    return next((one for one in modes if any(map(one.pattern.matches, names))), None)


def _parse(text: str) -> TableMode:
    pattern, _, mode = (part.strip() for part in text.rpartition("="))
    found = _MODE.fullmatch(mode)
    if not pattern or found is None:
        raise ConfigError(
            "config.invalid_value",
            f"{text!r} is no table with its mode",
            fix="Write `PATTERN=MODE`, as `shop.countries=bulk`, `shop.logs=timestamp(written_at)` "
            "or `shop.events=timestamp(at)+incrementing(id)`. Several columns of a time have "
            "blanks between them.",
            config_path=_KEY,
        )
    number, times, with_number, second = found.groups()
    name = re.sub(r"\(.*?\)", "", mode)
    column = (second if with_number else number) or ""
    compiled = Pattern.compile(pattern, _KEY)
    return TableMode(compiled, name, tuple((times or "").split()), column.strip())
