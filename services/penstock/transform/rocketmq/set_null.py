"""SetNull: takes away the value or the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.model.columns import KEY
from penstock.transform.change import Change, Output, Transform
from penstock.transform.parts import ROCKETMQ, Part, halves
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class SetNull:
    """Makes the key null, or all columns of the row."""

    path: str
    part: Part

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        if self.part is Part.VALUE:
            fields = self.part.fields(row, self.path)
            return self.part.rebuilt(row, tuple(map(_null, fields)), self.path)
        if row.get(KEY) is None:
            return Change()
        return self.part.replaced(row, _null(self.part.whole(row, self.path)), self.path)


def _null(field: Output) -> Output:
    text = f"CASE WHEN false THEN {field.sql} END"  # null of the same type
    return replace(field, sql=text, source=None, certain=True)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    del values
    return SetNull(path, part)


KINDS: Final = halves("SetNull", (), _build, (ROCKETMQ,))
