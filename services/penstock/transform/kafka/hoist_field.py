"""HoistField: puts the whole value or key into a field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Output, Transform
from penstock.transform.column_kernel import Packed
from penstock.transform.parts import Part, halves, key_of, new_name
from penstock.transform.row import Row
from penstock.transform.sql import quoting


@dataclass(frozen=True, slots=True)
class HoistField:
    """Makes a row of one field. A row of one column is that value, so its column is renamed; of
    several columns, the field is their struct.
    """

    path: str
    part: Part
    name: str

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        if self.part is Part.KEY:
            key = packed((replace(Output.kept(key_of(row, self.path)), name=self.name),), self.name)
            return self.part.replaced(row, replace(key, source=None), self.path)
        fields = self.part.fields(row, self.path)
        if len(fields) == 1:
            return self.part.rebuilt(row, (replace(fields[0], name=self.name),), self.path)
        return self.part.rebuilt(row, (packed(fields, self.name),), self.path)


def packed(fields: tuple[Output, ...], name: str) -> Output:
    """Return a struct of fields, which is never null itself."""
    pairs = ", ".join(f"{quoting.literal(field.name)}, {field.sql}" for field in fields)
    types = [(field.name, field.type) for field in fields]
    known = all(type_ is not None for _, type_ in types)
    sources = [(field.name, field.source) for field in fields if field.source is not None]
    return Output(
        name,
        f"named_struct({pairs})",
        pa.struct(types) if known else None,
        Packed(tuple(sources)) if len(sources) == len(fields) else None,
        certain=all(field.certain for field in fields),
    )


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    return HoistField(path, part, new_name(values["field"], f"{path}.field"))


KINDS: Final = halves(
    "HoistField", (ConfigKey("field", required=True, doc="Name of the field."),), _build
)
