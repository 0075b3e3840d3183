"""Which folder a row goes to: `country=DE/at_day=2026-11-22`, as Hive names them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import ConfigError, SchemaError

NOTHING: Final = "__HIVE_DEFAULT_PARTITION__"
"""Stands for a missing value and for an empty text, which has no name as a folder."""

_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^\ud800-\udfff]")
"""Characters that Hive escapes in names of folders."""

_TIMES: Final = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d-%H"}
_TERM: Final = re.compile(r"(?:(year|month|day|hour)\((.*)\)|(.+))", re.DOTALL)
_NAME_MOST: Final = 255
"""Bytes of a folder's name, on nearly all file systems."""


@dataclass(frozen=True, slots=True)
class Term:
    """One level of folders.

    Attributes:
        column: Whose values they are of; empty for the time at which a row is written.
        unit: Of a time; empty for the value itself.
    """

    column: str
    unit: str = ""

    @property
    def folder(self) -> str:
        """What its folders' names begin with."""
        name = f"{self.column}_{self.unit}" if self.unit and self.column else self.column
        return f"{escaped(name or self.unit)}="

    def check(self, schema: pa.Schema) -> None:
        """Raise when rows of a schema have no such column, or folders cannot have its values.

        Raises:
            SchemaError: `file.partition_column`.
        """
        if not self.column:
            return
        if self.column not in schema.names:
            raise unfit(f"there is no column {self.column!r}")
        kind = schema.field(self.column).type
        if self.unit:
            is_time = pa.types.is_timestamp(kind) or (
                pa.types.is_date(kind) and self.unit != "hour"
            )
            if not is_time:
                raise unfit(f"column {self.column!r} is {kind}, and has no {self.unit}")
        elif pa.types.is_nested(kind) or "binary" in str(kind):
            raise unfit(f"column {self.column!r} is {kind}, which names no folder")

    def folders(self, rows: pa.RecordBatch, zone: str) -> pa.Array:
        """Return the name of each row's folder. Only different values are escaped."""
        if not self.column:
            now = datetime.now(UTC).replace(tzinfo=None)
            times = pa.array([now] * rows.num_rows, pa.timestamp("us")).cast(
                pa.timestamp("us", "UTC")
            )
        else:
            times = rows.column(self.column)
        texts = self._texts(times, zone).dictionary_encode()
        names = [self.folder + escaped(text) for text in texts.dictionary.to_pylist()]
        for name in names:
            _refuse_long(name)
        nothing = self.folder + NOTHING
        return pa.array(names, pa.string()).take(texts.indices).fill_null(nothing)

    def _texts(self, values: pa.Array, zone: str) -> pa.Array:
        if not self.unit:
            return values.cast(pa.string())
        if pa.types.is_timestamp(values.type):
            # a time without a zone is what it says
            own = zone if values.type.tz else None
            values = values.cast(pa.timestamp(values.type.unit, own))
        return pc.strftime(values, format=_TIMES[self.unit])


def parse_terms(items: Sequence[str]) -> tuple[Term, ...]:
    """Return the levels of `field`, `day(field)`, `day()`.

    Raises:
        ConfigError: two are the same.
    """
    terms = []
    for item in items:
        match = _TERM.fullmatch(item)
        assert match is not None  # noqa: S101 - an item has at least one character
        unit, of, column = match.groups()
        terms.append(Term(column or (of or "").strip(), unit or ""))
    if len(set(terms)) < len(terms):
        raise ConfigError(
            "config.invalid_value",
            "a level of folders is named twice",
            config_path="partition.by",
        )
    return tuple(terms)


def escaped(text: str) -> str:
    """Return a value as a part of a folder's name."""
    if not text:
        return NOTHING
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", text)


class Level(Protocol):
    """Folders that are named by something of a row."""

    @property
    def column(self) -> str:
        """Whose values they are of; empty for the time at which a row is written."""

    @property
    def unit(self) -> str:
        """What of a value they are of; empty for the value itself."""

    def check(self, schema: pa.Schema) -> None:
        """Raise when rows of a schema name no folders."""

    def folders(self, rows: pa.RecordBatch, zone: str) -> pa.Array:
        """Return the folder of each row."""


class Partitions:
    """Divides rows of one schema."""

    def __init__(self, terms: Sequence[Level], zone: str, schema: pa.Schema, *, keep: bool) -> None:
        """Take the levels.

        Raises:
            SchemaError: `file.partition_column`: there is no such column, or folders cannot have
                its values.
        """
        self._terms, self._zone = terms, zone
        for term in terms:
            term.check(schema)
        dropped = () if keep else {term.column for term in terms if not term.unit}
        self.kept = [name for name in schema.names if name not in dropped]

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield folders and their rows, in the order in which they came."""
        if not self._terms:
            yield "", rows
            return
        paths = self._paths(rows)
        kept = rows.select(self.kept)
        if len(paths.dictionary) == 1:
            yield paths.dictionary[0].as_py(), kept
            return
        indices = paths.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(indices, kind="stable")
        ends = np.searchsorted(indices[order], np.arange(len(paths.dictionary)), side="right")
        begin = 0
        for path, end in zip(paths.dictionary.to_pylist(), ends.tolist(), strict=True):
            yield path, kept.take(pa.array(order[begin:end]))
            begin = end

    def _paths(self, rows: pa.RecordBatch) -> pa.DictionaryArray:
        levels = [term.folders(rows, self._zone) for term in self._terms]
        if len(levels) == 1:
            return levels[0].dictionary_encode()
        return pc.binary_join_element_wise(*levels, "/").dictionary_encode()


def _refuse_long(name: str) -> None:
    if len(name.encode()) > _NAME_MOST:
        raise unfit(f"a folder's name would be longer than {_NAME_MOST} bytes: {name[:60]!r}…")


def unfit(why: str) -> SchemaError:
    """Return what is said of rows that name no folders."""
    return SchemaError(
        "file.partition_column",
        why,
        fix="Name other columns in `partition.by`, or change them with a transform.",
        config_path="partition.by",
    )
