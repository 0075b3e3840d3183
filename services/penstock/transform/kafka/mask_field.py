"""MaskField: hides values behind an empty one of their type, or behind a replacement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kind

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Output, Transform
from penstock.transform.column_kernel import Copy, Masked, Source
from penstock.transform.parts import NULLS, Part, halves
from penstock.transform.row import Row
from penstock.transform.sql import quoting

_TRIMMED: Final = "".join(map(chr, range(33)))
"""What Java's `String.trim` removes."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MaskField:
    """Replaces the values of fields; null stays null. Names that a dataset does not have are passed
    over, as in Kafka.
    """

    path: str
    part: Part
    fields: frozenset[str]
    replacement: str | None

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        before = self.part.fields(row, self.path)
        after = tuple(self._masked(f) if f.name in self.fields else f for f in before)
        return Change() if after == before else self.part.rebuilt(row, after, self.path)

    def _masked(self, field: Output) -> Output:
        if field.type is None:
            raise self._cannot(field, "of a type that only Spark knows; cast it first")
        if self.replacement is None:
            value = _empty(field.type)
        else:
            value = _replacement(field.type, self.replacement)
        if value is None:
            behind = "" if self.replacement is None else f" behind `{self.replacement}`"
            raise self._cannot(field, f"{field.type}, which cannot be hidden{behind}")
        source: Source | None = None
        if isinstance(field.source, Copy):
            source = Masked(field.source.column, value, field.type)
        text = f"CASE WHEN {field.sql} IS NOT NULL THEN {_literal(value, field.type)} END"
        return replace(field, sql=text, source=source, certain=True)

    def _cannot(self, field: Output, why: str) -> ConfigError:
        return ConfigError(
            "transform.cannot_mask",
            f"`{field.name}` is {why}",
            fix="Drop the field with ReplaceField; replacements are for numbers and texts.",
            config_path=f"{self.path}.fields",
        )


def _empty(type_: pa.DataType) -> Any:
    return next((value for is_one, value in _EMPTY if is_one(type_)), None)


def _replacement(type_: pa.DataType, text: str) -> Any:
    for is_one, read in _READ:
        if is_one(type_):
            try:
                return pa.scalar(read(text), type_).as_py()
            except (ValueError, InvalidOperation, pa.ArrowException, OverflowError):
                return None
    return None


def _literal(value: Any, type_: pa.DataType) -> str:
    match value:
        case bool():
            return "false"
        case datetime():
            there = "TIMESTAMP_LTZ" if type_.tz else "TIMESTAMP_NTZ"
            zone = "+00:00" if type_.tz else ""
            return f"{there} '1970-01-01 00:00:00{zone}'"
        case date():
            return "DATE '1970-01-01'"
        case list():
            return _nothing(type_)
        case str():
            return quoting.literal(value)
    return f"CAST({quoting.literal(str(value))} AS {quoting.type_name(type_)})"


def _nothing(type_: pa.DataType) -> str:
    """Return an empty list or map of a type."""
    return f"CAST({'map()' if kind.is_map(type_) else 'array()'} AS {quoting.type_name(type_)})"


def _is_text(type_: pa.DataType) -> bool:
    return bool(kind.is_string(type_) or kind.is_large_string(type_))


_EMPTY: Final[tuple[tuple[Callable[[pa.DataType], bool], Any], ...]] = (
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
_READ: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[str], Any]], ...]] = (
    (kind.is_integer, int),
    (kind.is_floating, float),
    (kind.is_decimal, Decimal),
    (_is_text, str),
)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    replacement = values["replacement"]
    if replacement is not None:
        replacement = replacement.strip(_TRIMMED)  # as Kafka does
    if replacement == "":
        raise ConfigError(
            "config.wrong_type",
            "`replacement` is empty",
            fix="Remove it: without one, texts become empty.",
            config_path=f"{path}.replacement",
        )
    return MaskField(path, part, frozenset(values["fields"]), replacement)


KINDS: Final = halves(
    "MaskField",
    (
        ConfigKey("fields", "list", required=True, doc="Fields to hide."),
        ConfigKey("replacement", doc="Number or text to hide them behind."),
        NULLS,
    ),
    _build,
)
