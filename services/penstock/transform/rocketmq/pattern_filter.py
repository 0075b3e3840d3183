"""PatternFilter: drops rows with a text that matches a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Transform
from penstock.transform.java.patterns import JavaPattern
from penstock.transform.parts import ROCKETMQ, Part, halves
from penstock.transform.row import Row
from penstock.transform.sql import quoting


@dataclass(frozen=True, slots=True)
class PatternFilter:
    """Drops a row when one of the fields is a text that matches wholly. Other fields, null and
    names that a dataset does not have count as no match.
    """

    path: str
    part: Part
    pattern: str
    fields: frozenset[str]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        regex = quoting.literal(rf"\A(?:{self.pattern})\z")
        matches = [
            f"coalesce({field.sql} RLIKE {regex}, false)"
            for field in self.part.fields(row, self.path)
            if field.name in self.fields and field.type == pa.string()
        ]
        return Change(where=f"NOT ({' OR '.join(matches)})", certain=True) if matches else Change()


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    JavaPattern.compile(values["pattern"], f"{path}.pattern")  # Spark would only fail on each row
    return PatternFilter(path, part, values["pattern"], frozenset(values["fields"]))


KINDS: Final = halves(
    "PatternFilter",
    (
        ConfigKey("pattern", required=True, doc="A regular expression for the whole text."),
        ConfigKey("fields", "list", required=True, doc="Fields to look at."),
    ),
    _build,
    (ROCKETMQ,),
)
