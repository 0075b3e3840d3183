"""Types that a configuration declares, and texts brought to them. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import ConfigError
from penstock_values.decimals import from_texts, may_be_long

_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),(-?\d{1,2})\)")
_ZONED: Final = re.compile(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?(\S+)\]")
_NESTED: Final = re.compile(r"(?P<name>.*?):(?P<kind>(?:list|struct)<.*>)\s*")
_MORE: Final[Mapping[str, pa.DataType]] = {
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "time": pa.time64("us"),
    "number": pa.float64(),
}
"""Words for types beside Arrow's own."""

_NAMES_MOST: Final = 20
"""Columns that a message names."""


def joined_items(items: Sequence[str]) -> list[str]:
    """Return the items of a list whose commas inside brackets were taken for ends of items."""
    joined: list[str] = []
    for item in items:
        if joined and _is_open(joined[-1]):
            joined[-1] += f",{item}"
        else:
            joined.append(item)
    return joined


def _is_open(text: str) -> bool:
    nested = ":list<" in text or ":struct<" in text  # else a name may have these characters
    opening, closing = ("([<", ")]>") if nested else ("([", ")]")
    return sum(map(text.count, opening)) > sum(map(text.count, closing))


def parse_columns(
    columns: Sequence[str], config_path: str
) -> tuple[tuple[str, ...], dict[str, pa.DataType]]:
    """Return the names of `name` or `name:type`, and the types that are given.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    names: list[str] = []
    types: dict[str, pa.DataType] = {}
    for column in columns:
        nested = _NESTED.fullmatch(column)
        name, _, kind = column.rpartition(":") if ":" in column else (column, "", "")
        name, kind = (nested["name"], nested["kind"]) if nested else (name, kind)
        names.append(name)
        if kind:
            types[name] = _parse_type(name, kind, config_path)
    return tuple(names), types


def near_names(name: str, names: Iterable[str]) -> str:
    """Return a sentence with those names that one was meant to be, whatever the case, or with the
    first of all.
    """
    by_folded = {known.casefold(): known for known in names}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=3)
    if near:
        return f"Did you mean {' or '.join(repr(by_folded[one]) for one in near)}?"
    first = [repr(known) for known in by_folded.values()][:_NAMES_MOST]
    return f"The columns are {', '.join(first)}{', …' if len(by_folded) > _NAMES_MOST else ''}."


def declared_types(items: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the types of the key `types`."""
    return parse_columns(joined_items(items), "types")[1]


def _parse_type(name: str, kind: str, config_path: str) -> pa.DataType:
    kind = kind.strip()
    try:
        if kind.endswith(">") and config_path == "types":
            return _parse_nested(name, kind, config_path)
        if match := _DECIMAL.fullmatch(kind.replace(" ", "")):
            return _decimal(int(match[1]), int(match[2]))
        if match := _ZONED.fullmatch(kind):
            zoned = pa.timestamp(match[1], match[2])
            pa.array([0], pa.int64()).cast(zoned).cast(pa.string())  # is there such a zone?
            return zoned
        return _MORE.get(kind) or pa.type_for_alias(kind)
    except (ValueError, pa.ArrowException) as error:
        raise wrong_type(f"column {name!r}: there is no type {kind!r}", config_path) from error


def _decimal(digits: int, scale: int) -> pa.DataType:
    if scale > digits:
        raise ValueError(f"{scale} digits behind the point of {digits}")
    return pa.decimal128(digits, scale)


def wrong_type(why: str, config_path: str) -> ConfigError:
    """Return the error for a type that a column cannot have."""
    return ConfigError(
        "config.invalid_value",
        why,
        fix="Use string, int64, double, bool, decimal(10,2), date, time, timestamp[us] or "
        "timestamp[us, UTC].",
        config_path=config_path,
    )


def _parse_nested(name: str, kind: str, config_path: str) -> pa.DataType:
    if kind.startswith("list<"):
        return pa.list_(_parse_type(name, kind[5:-1], config_path))
    if not kind.startswith("struct<"):
        raise ValueError(kind)
    fields = kind[7:-1]
    items = joined_items([item.strip() for item in fields.split(",")])
    names, types = parse_columns(items, config_path)
    if len(types) < len(names):
        raise ValueError("a field has no type, or is there twice")
    return pa.struct(list(types.items()))


def needs_care(data: bytes, kinds: Iterable[pa.DataType]) -> bool:
    """Return whether texts have to be looked at before Arrow makes decimals of them."""
    decimals = [kind for kind in kinds if pa.types.is_decimal(kind)]
    return bool(decimals) and (any(kind.scale < 0 for kind in decimals) or may_be_long(data))


def cast_texts(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Return texts as values of a type, and the indices of those that are none. An empty text is
    no value, except where a text is wanted.
    """
    if pa.types.is_string(kind):
        return texts, []
    filled = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    try:
        return parse_texts(filled, kind), []
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        good = [_fits(filled.slice(at, 1), kind) for at in range(len(filled))]
    kept = pc.if_else(pa.array(good, pa.bool_()), filled, pa.scalar(None, pa.string()))
    return parse_texts(kept, kind), [at for at, is_good in enumerate(good) if not is_good]


def parse_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts as values of a type.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: one is none.
    """
    if pa.types.is_decimal(kind):
        return from_texts(texts, kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _zoned(texts, kind)
    if pa.types.is_binary(kind):
        return texts.cast(pa.binary())
    if pa.types.is_time(kind):
        return _times(texts, kind)
    if pa.types.is_duration(kind):
        return texts.cast(pa.int64()).cast(kind)
    return texts.cast(kind)


def _times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times of day are read as times of a day: Arrow casts texts to those only."""
    moments = pc.binary_join_element_wise("1970-01-01T", texts, "")
    return moments.cast(pa.timestamp(kind.unit)).cast(kind)


def _zoned(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times with an offset are what they say; those without are of the declared zone."""
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        naive = texts.cast(pa.timestamp(kind.unit))
        return pc.assume_timezone(naive, kind.tz)


def _fits(one: pa.Array, kind: pa.DataType) -> bool:
    try:
        parse_texts(one, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
