"""Cast: gives fields, or the whole value or key, another type, as Java converts values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.config_def import ConfigKey, did_you_mean
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Output, Transform, failure
from penstock.transform.column_kernel import Copy, Source, Widened
from penstock.transform.java.casts import TARGETS, cast
from penstock.transform.parts import NULLS, Part, halves
from penstock.transform.row import Row
from penstock.transform.sql import quoting

_FAILURE: Final = failure(
    "transform.cast_failed",
    "a value of the row cannot be cast",
    "Correct the row at the source, or cast with try_cast in Project.",
)


@dataclass(frozen=True, slots=True)
class Cast:
    """Casts the fields that the spec names; `whole` casts the value or key itself. Names that a
    dataset does not have are passed over, as in Kafka.
    """

    path: str
    part: Part
    targets: Mapping[str, str]
    whole: str | None

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        if self.whole is not None:
            before = self.part.whole(row, self.path)
            value = self._cast(before, self.whole, row)
            return self.part.replaced(row, value, self.path, _FAILURE)
        fields = self.part.fields(row, self.path)
        after = tuple(
            self._cast(field, self.targets[field.name], row)
            if field.name in self.targets
            else field
            for field in fields
        )
        return Change() if after == fields else self.part.rebuilt(row, after, self.path, _FAILURE)

    def _cast(self, field: Output, target: str, row: Row) -> Output:
        wanted = TARGETS[target]
        if field.type is None:
            text = f"CAST({field.sql} AS {quoting.type_name(wanted)})"
            return Output(field.name, text, wanted)
        meaning = field.meaning
        if field.type == wanted and not meaning:
            return field
        found = cast(field.sql, field.type, meaning, target)
        if found is None:
            raise ConfigError(
                "transform.cannot_cast",
                f"`{field.name}` is {field.type}, which cannot be cast to {target}",
                fix="Bytes can be cast to string; lists, maps and structs cannot be cast.",
                config_path=f"{self.path}.spec",
            )
        text, certain = found
        source = _kernel(field, wanted, row) if certain else None
        return replace(
            field,
            sql=text,
            type=wanted,
            source=source,
            certain=certain and field.certain,
            meaning="",
        )


def _kernel(field: Output, wanted: pa.DataType, row: Row) -> Source | None:
    """Return the kernel of a cast that keeps every value: whole numbers to wider ones."""
    if not isinstance(field.source, Copy) or field.type is None:
        return None
    type_ = row.type_of(field.source.column)
    whole = type_ is not None and pa.types.is_integer(type_) and pa.types.is_integer(wanted)
    wider = whole and wanted.bit_width >= field.type.bit_width and not field.meaning
    return Widened(field.source.column, wanted) if wider else None


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    where = f"{path}.spec"
    targets: dict[str, str] = {}
    whole: str | None = None
    for text in values["spec"]:
        *name, target = (word.strip() for word in text.split(":"))
        if len(name) > 1 or target.lower() not in TARGETS:
            raise ConfigError(
                "config.bad_choice",
                f"`{text}` is not a field and its type",
                fix=f"Write `field:type` or one type. {did_you_mean(target, TARGETS)}",
                config_path=where,
            )
        if name:
            targets[name[0]] = target.lower()
        else:
            whole = target.lower()
    if whole is not None and len(values["spec"]) > 1:
        raise ConfigError(
            "config.bad_choice",
            "a type without a field casts the whole value, and stands alone",
            fix="Name a field for each type.",
            config_path=where,
        )
    return Cast(path, part, targets, whole)


KINDS: Final = halves(
    "Cast",
    (
        ConfigKey("spec", "list", required=True, doc="Casts `field:type`, or one type."),
        NULLS,
    ),
    _build,
)
