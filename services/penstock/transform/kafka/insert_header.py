"""InsertHeader: gives each row a header with a fixed value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.columns import HEADERS
from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.headers import with_values
from penstock.transform.parts import KAFKA
from penstock.transform.row import Row
from penstock.transform.sql import quoting


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """Sets a header, in place of one that has its name."""

    path: str
    header: str
    value: str

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        text = f"encode({quoting.literal(self.value)}, 'UTF-8')"
        after = with_values(row, [(self.header, text)])
        kept = tuple(Output.kept(column) for column in row if column.name != HEADERS)
        return projected((*kept, after), self.path)


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    return InsertHeader(path, values["header"], values["value.literal"])


KINDS: Final = (
    Kind[Transform](
        ("InsertHeader", f"{KAFKA}.InsertHeader"),
        (
            ConfigKey("header", required=True, doc="Name of the header."),
            ConfigKey("value.literal", required=True, doc="Its value, as text."),
        ),
        _build,
    ),
)
