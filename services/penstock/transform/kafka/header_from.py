"""HeaderFrom: copies or moves fields of the value or key into headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.columns import HEADERS
from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Transform, projected
from penstock.transform.headers import as_header, with_values
from penstock.transform.parts import NULLS, Part, field_at, halves
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class HeaderFrom:
    """Sets headers from fields, in place of those that have their names; `move` takes the fields
    away.
    """

    path: str
    part: Part
    pairs: tuple[tuple[str, str], ...]
    move: bool

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        fields, where = self.part.fields(row, self.path), f"{self.path}.fields"
        values = [
            (header, as_header(field_at(fields, (name,), where), where))
            for name, header in self.pairs
        ]
        moved = {name for name, _ in self.pairs} if self.move else set()
        left = tuple(field for field in fields if field.name not in moved)
        rest = self.part.rebuilt(row, left, self.path).columns or ()
        kept = tuple(output for output in rest if output.name != HEADERS)
        return projected((*kept, with_values(row, values)), self.path)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    fields, headers = values["fields"], values["headers"]
    if len(fields) != len(headers):
        raise ConfigError(
            "config.wrong_type",
            f"{len(fields)} fields cannot go to {len(headers)} headers",
            fix="List as many headers as fields, in the same order.",
            config_path=f"{path}.headers",
        )
    pairs = tuple(zip(fields, headers, strict=True))
    return HeaderFrom(path, part, pairs, values["operation"] == "move")


KINDS: Final = halves(
    "HeaderFrom",
    (
        ConfigKey("fields", "list", required=True, doc="Fields to take."),
        ConfigKey("headers", "list", required=True, doc="Names of their headers, in order."),
        ConfigKey("operation", required=True, choices=("move", "copy"), doc="Whether fields stay."),
        NULLS,
    ),
    _build,
)
