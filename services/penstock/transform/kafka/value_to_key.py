"""ValueToKey: makes a key of fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.columns import KEY
from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.kafka.hoist_field import packed
from penstock.transform.parts import KAFKA, NULLS, Part, field_at
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class ValueToKey:
    """Replaces the key by a struct of fields; the value keeps them."""

    path: str
    fields: tuple[str, ...]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        value, where = Part.VALUE.fields(row, self.path), f"{self.path}.fields"
        key = packed(tuple(field_at(value, (name,), where) for name in self.fields), KEY)
        kept = tuple(Output.kept(column) for column in row if column.name != KEY)
        return projected((*kept, key), self.path)


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    return ValueToKey(path, tuple(dict.fromkeys(values["fields"])))


KINDS: Final = (
    Kind[Transform](
        ("ValueToKey", f"{KAFKA}.ValueToKey"),
        (ConfigKey("fields", "list", required=True, doc="Fields of the new key."), NULLS),
        _build,
    ),
)
