"""Predicates: to which datasets, or to which rows, a transform is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from penstock.model.columns import HEADERS, OP, TOPIC, Op
from penstock.model.config_def import ConfigKey
from penstock.transform.change import TypeDefinition
from penstock.transform.java.patterns import JavaPattern
from penstock.transform.row import Row
from penstock.transform.row_topics import name_sql
from penstock.transform.sql import literals

Decision: TypeAlias = "bool | str"
"""True or false for the whole dataset, or an SQL condition over rows that is never null."""


class Predicate(Protocol):
    """A configured predicate."""

    def decide(self, dataset: str, row: Row) -> Decision:
        """Return to which rows of a dataset the predicate applies."""


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Matches datasets by their whole name; rows, where they have names of their own."""

    pattern: JavaPattern
    text: str

    def decide(self, dataset: str, row: Row) -> Decision:
        """Match the name; the decision is for the whole dataset if all its rows have that name."""
        if row.get(TOPIC) is None:
            return self.pattern.matches(dataset)
        whole = literals.literal(rf"^(?:{self.text})\z")
        return f"({name_sql(dataset)} RLIKE {whole})"


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Matches deletes by `__op`. Where `__op` is missing or unset, matches rows whose columns are
    all null, which is how a null record looks in columns.
    """

    def decide(self, dataset: str, row: Row) -> Decision:
        """Return the condition over rows."""
        empty = (
            " AND ".join(f"{literals.name(column.name)} IS NULL" for column in row.value) or "true"
        )
        if row.get(OP) is None:
            return f"({empty})"
        op = f"coalesce({literals.name(OP)}, {Op.UNSPECIFIED:d})"
        return f"({op} = {Op.DELETE:d} OR ({op} = {Op.UNSPECIFIED:d} AND {empty}))"


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Matches rows with a header of this name."""

    header: str

    def decide(self, dataset: str, row: Row) -> Decision:
        """Return the condition over rows; false where rows have no headers."""
        if row.get(HEADERS) is None:
            return False
        found = f"map_contains_key({literals.name(HEADERS)}, {literals.literal(self.header)})"
        return f"coalesce({found}, false)"


def _topic_name_matches(path: str, values: Mapping[str, Any]) -> Predicate:
    text = values["pattern"]
    return TopicNameMatches(JavaPattern.compile(text, f"{path}.pattern"), text)


def _record_is_tombstone(_path: str, _values: Mapping[str, Any]) -> Predicate:
    return RecordIsTombstone()


def _has_header_key(_path: str, values: Mapping[str, Any]) -> Predicate:
    return HasHeaderKey(values["name"])


_PACKAGE: Final = "org.apache.kafka.connect.transforms.predicates"

PREDICATES: Final = (
    TypeDefinition[Predicate](
        ("TopicNameMatches", f"{_PACKAGE}.TopicNameMatches"),
        (ConfigKey("pattern", required=True, doc="A regular expression for the whole name."),),
        _topic_name_matches,
    ),
    TypeDefinition[Predicate](
        ("RecordIsTombstone", f"{_PACKAGE}.RecordIsTombstone"), (), _record_is_tombstone
    ),
    TypeDefinition[Predicate](
        ("HasHeaderKey", f"{_PACKAGE}.HasHeaderKey"),
        (ConfigKey("name", required=True, doc="Name of the header."),),
        _has_header_key,
    ),
)
