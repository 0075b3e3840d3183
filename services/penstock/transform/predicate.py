"""Predicates: which datasets, or which rows, a transform is applied to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from penstock.model.columns import HEADERS, OP, Op
from penstock.model.config_def import ConfigKey
from penstock.transform.change import Kind
from penstock.transform.java.patterns import JavaPattern
from penstock.transform.row import Row
from penstock.transform.sql import quoting

Decision: TypeAlias = "bool | str"
"""True or false for the whole dataset, or a SQL condition per row that is never null."""


class Predicate(Protocol):
    """A configured predicate."""

    def decide(self, dataset: str, row: Row) -> Decision:
        """Fit it to a dataset."""


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Datasets whose whole name matches."""

    pattern: JavaPattern

    def decide(self, dataset: str, row: Row) -> Decision:
        """Decide for the whole dataset."""
        del row
        return self.pattern.matches(dataset)


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Rows that say "this key is gone": deletes by `__op`; where that is not given, rows without a
    single value, which is what a null record looks like in columns.
    """

    def decide(self, dataset: str, row: Row) -> Decision:
        """Decide per row."""
        del dataset
        empty = (
            " AND ".join(f"{quoting.name(column.name)} IS NULL" for column in row.value) or "true"
        )
        if row.get(OP) is None:
            return f"({empty})"
        op = f"coalesce({quoting.name(OP)}, {Op.UNSPECIFIED:d})"
        return f"({op} = {Op.DELETE:d} OR ({op} = {Op.UNSPECIFIED:d} AND {empty}))"


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Rows with a header of this name."""

    header: str

    def decide(self, dataset: str, row: Row) -> Decision:
        """Decide per row; never, where rows have no headers."""
        del dataset
        if row.get(HEADERS) is None:
            return False
        found = f"map_contains_key({quoting.name(HEADERS)}, {quoting.literal(self.header)})"
        return f"coalesce({found}, false)"


def _topic_name_matches(path: str, values: Mapping[str, Any]) -> Predicate:
    return TopicNameMatches(JavaPattern.compile(values["pattern"], f"{path}.pattern"))


def _record_is_tombstone(path: str, values: Mapping[str, Any]) -> Predicate:
    del path, values
    return RecordIsTombstone()


def _has_header_key(path: str, values: Mapping[str, Any]) -> Predicate:
    del path
    return HasHeaderKey(values["name"])


_PACKAGE: Final = "org.apache.kafka.connect.transforms.predicates"

KINDS: Final = (
    Kind[Predicate](
        ("TopicNameMatches", f"{_PACKAGE}.TopicNameMatches"),
        (ConfigKey("pattern", required=True, doc="A regular expression for the whole name."),),
        _topic_name_matches,
    ),
    Kind[Predicate](
        ("RecordIsTombstone", f"{_PACKAGE}.RecordIsTombstone"), (), _record_is_tombstone
    ),
    Kind[Predicate](
        ("HasHeaderKey", f"{_PACKAGE}.HasHeaderKey"),
        (ConfigKey("name", required=True, doc="Name of the header."),),
        _has_header_key,
    ),
)
