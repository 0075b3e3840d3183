"""Ranges of partitions: a task's share of partitions that nobody enumerates.

A plan may say `host` from "a" to before "n" instead of naming a million partitions. Which task a
partition belongs to then follows from its key alone, for the connector and for the host.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from penstock_values.identity import canonical_json, partition_key

_START: Final = ""
"""The smallest text: a range from it begins with the first partition."""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """The partitions whose keys have in `field` a text from `start` on and before `end`.

    Texts are compared by their code points, as bytes of UTF-8 are. An empty `end` is no end. A key
    without the field, or with another value than a text in it, is in no range.
    """

    field: str
    start: str = _START
    end: str = ""

    def has_key(self, key: Mapping[str, Any]) -> bool:
        """Whether the partition with this key is in the range."""
        text = key.get(self.field)
        return isinstance(text, str) and self._has_text(text)

    def has_id(self, id_: str) -> bool:
        """Whether the partition with this id is in the range."""
        if "\\" in id_ or id_.count("{") != 1:  # an escaped text, or a structure in the key
            return self.has_key(partition_key(id_))
        # a tenth of the time of parsing it: a task is given those of a million that are its own
        name = f'{canonical_json(self.field)}:"'
        start = id_.find(name)
        return start >= 0 and self._has_text(
            id_[start + len(name) : id_.index('"', start + len(name))]
        )

    def _has_text(self, text: str) -> bool:
        return self.start <= text and (not self.end or text < self.end)


def divide_range(field: str, bounds: Iterable[str]) -> list[PartitionRange]:
    """Return ranges that hold every text of a field: up to the first bound, and from each bound to
    the next one. n bounds give n + 1 ranges.
    """
    starts = [_START, *sorted(set(bounds) - {_START})]
    return [PartitionRange(field, start, end) for start, end in pairwise([*starts, ""])]


def find_overlap(
    ranges: Sequence[PartitionRange],
) -> tuple[PartitionRange, PartitionRange] | None:
    """Return two ranges that a partition could be in at once, or None. Two of different fields
    overlap: a key has both.
    """
    ordered = sorted(ranges, key=lambda one: (one.field, one.start))
    for one, following in pairwise(ordered):
        if one.field != following.field or not one.end or following.start < one.end:
            return one, following
    return None


@dataclass(frozen=True, slots=True)
class OwnPartitions:
    """The ids of the partitions of a task: those that its plan names, and those in its ranges.

    `ranges` None: every partition, because the task is the only one and finds others by itself.
    """

    planned: Collection[str]
    ranges: tuple[PartitionRange, ...] | None = ()

    def __contains__(self, id_: object) -> bool:
        """Whether the task may commit offsets of the partition with this id."""
        if self.ranges is None or id_ in self.planned:
            return True
        return isinstance(id_, str) and any(one.has_id(id_) for one in self.ranges)
