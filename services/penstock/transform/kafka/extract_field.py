"""ExtractField: makes a field, perhaps a nested one, the whole value or key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Transform
from penstock.transform.parts import NULLS, SYNTAX, Part, field_at, halves, steps_of
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class ExtractField:
    """Replaces the value or the key by one of its fields. Of a struct, the row gets the fields; of
    any other value, one column with the name of the field.
    """

    path: str
    part: Part
    steps: tuple[str, ...]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        field = field_at(self.part.fields(row, self.path), self.steps, f"{self.path}.field")
        return self.part.replaced(row, field, self.path)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    version = values["field.syntax.version"]
    return ExtractField(path, part, steps_of(values["field"], version, f"{path}.field"))


KINDS: Final = halves(
    "ExtractField",
    (ConfigKey("field", required=True, doc="Field to extract."), SYNTAX, NULLS),
    _build,
)
