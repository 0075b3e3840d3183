"""Flatten: makes columns of the fields of structs, at any depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Output, Transform
from penstock.transform.parts import Part, halves, members
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class Flatten:
    """Joins the names on the way to a field with the delimiter. Lists stay as they are; maps are
    refused, as in Kafka.
    """

    path: str
    part: Part
    delimiter: str

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        before = self.part.fields(row, self.path)
        after = tuple(leaf for field in before for leaf in self._leaves(field, field.name))
        return Change() if after == before else self.part.rebuilt(row, after, self.path)

    def _leaves(self, field: Output, name: str) -> Iterator[Output]:
        if field.type is not None and pa.types.is_map(field.type):
            raise ConfigError(
                "transform.cannot_flatten",
                f"`{name}` is a map, whose keys differ from row to row",
                fix="Drop it with ReplaceField, or take its keys out with Project.",
                config_path=self.path,
            )
        inner = members(field)
        if not inner:
            yield replace(field, name=name)
        for one in inner:
            yield from self._leaves(one, f"{name}{self.delimiter}{one.name}")


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    return Flatten(path, part, values["delimiter"])


KINDS: Final = halves(
    "Flatten", (ConfigKey("delimiter", default=".", doc="What joins the names."),), _build
)
