"""Filter: keeps the rows for which a SQL condition is true; as in Kafka, drops rows when it has
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Kind, Transform
from penstock.transform.row import Row
from penstock.transform.sql.condition import Constant
from penstock.transform.sql.condition_kernel import FilterKernel, compile_condition
from penstock.transform.sql.guard import guarded, require_columns
from penstock.transform.sql.tokens import tokens_of

_NOTHING: Final = Change(where="false", kernel=FilterKernel(Constant(value=False)), certain=True)


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps rows. `condition` None drops all that it is applied to: those of its predicate."""

    path: str
    condition: str | None

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        if self.condition is None:
            return _NOTHING
        where = f"{self.path}.condition"
        require_columns(tokens_of(self.condition), row, where)
        kernel = compile_condition(self.condition, row, where)
        return Change(where=self.condition, kernel=kernel)


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    condition = values["condition"]
    if condition is not None:
        guarded(condition, f"{path}.condition")
    return Filter(path, condition)


KINDS: Final = (
    Kind[Transform](
        names=("Filter", "org.apache.kafka.connect.transforms.Filter"),
        keys=(
            ConfigKey(
                "condition",
                doc="Spark SQL condition; rows for which it is true are kept. Without it, the rows "
                "that the predicate matches are dropped.",
            ),
        ),
        build=_build,
    ),
)
