"""ExtractNestedField: copies a field of a struct to a field of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Transform
from penstock.transform.parts import ROCKETMQ, Part, field_at, halves, new_name
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class ExtractNestedField:
    """Adds the inner field under its new name; the struct stays."""

    path: str
    part: Part
    outer: str
    inner: str
    output: str

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        fields = self.part.fields(row, self.path)
        found = field_at(fields, (self.outer, self.inner), f"{self.path}.input.inner.field.name")
        return self.part.rebuilt(row, (*fields, replace(found, name=self.output)), self.path)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    output = new_name(values["output.field.name"], f"{path}.output.field.name")
    outer, inner = values["input.outer.field.name"], values["input.inner.field.name"]
    return ExtractNestedField(path, part, outer, inner, output)


KINDS: Final = halves(
    "ExtractNestedField",
    (
        ConfigKey("input.outer.field.name", required=True, doc="Field that is a struct."),
        ConfigKey("input.inner.field.name", required=True, doc="Its field to copy."),
        ConfigKey("output.field.name", required=True, doc="Name of the copy."),
    ),
    _build,
    (ROCKETMQ,),
)
