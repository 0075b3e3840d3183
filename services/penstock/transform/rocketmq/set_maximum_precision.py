"""SetMaximumPrecision: gives decimals at most so many digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.config_def import ConfigKey
from penstock.model.errors import ConfigError
from penstock.transform.change import Change, Output, Transform, failure
from penstock.transform.parts import ROCKETMQ, Part, halves
from penstock.transform.row import Row
from penstock.transform.sql import quoting

_FAILURE: Final = failure(
    "transform.precision_exceeded",
    "a decimal of the row has more digits than are allowed",
    "Raise `precision.max`, or correct the row at the source.",
)
_MOST: Final = 38


@dataclass(frozen=True, slots=True)
class SetMaximumPrecision:
    """Narrows the types of decimals; digits behind the point stay. A value that does not fit sets
    its row apart.
    """

    path: str
    part: Part
    most: int

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        before = self.part.fields(row, self.path)
        after = tuple(self._narrowed(field) for field in before)
        return Change() if after == before else self.part.rebuilt(row, after, self.path, _FAILURE)

    def _narrowed(self, field: Output) -> Output:
        type_ = field.type
        if type_ is None or not pa.types.is_decimal(type_) or type_.precision <= self.most:
            return field
        if type_.scale > self.most:
            raise ConfigError(
                "transform.precision_below_scale",
                f"`{field.name}` has {type_.scale} digits behind the point, more than {self.most}",
                fix=f"Set it to {type_.scale} or more.",
                config_path=f"{self.path}.precision.max",
            )
        wanted = pa.decimal128(self.most, type_.scale)
        text = f"CAST({field.sql} AS {quoting.type_name(wanted)})"
        return replace(field, sql=text, type=wanted, source=None, certain=False)


def _build(part: Part, path: str, values: Mapping[str, Any]) -> Transform:
    most = values["precision.max"]
    if not 0 < most <= _MOST:
        raise ConfigError(
            "config.wrong_type",
            f"a decimal cannot have {most} digits",
            fix=f"Give a number from 1 to {_MOST}.",
            config_path=f"{path}.precision.max",
        )
    return SetMaximumPrecision(path, part, most)


KINDS: Final = halves(
    "SetMaximumPrecision",
    (ConfigKey("precision.max", "int", required=True, doc="Most digits of a decimal."),),
    _build,
    (ROCKETMQ,),
)
