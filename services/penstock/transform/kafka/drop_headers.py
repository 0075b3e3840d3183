"""DropHeaders: removes headers by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.model.columns import HEADERS
from penstock.model.config_def import ConfigKey
from penstock.transform.change import Change, Kind, Output, Transform, projected
from penstock.transform.headers import without
from penstock.transform.parts import KAFKA
from penstock.transform.row import Row


@dataclass(frozen=True, slots=True)
class DropHeaders:
    """Removes the headers of these names."""

    path: str
    headers: tuple[str, ...]

    def change(self, dataset: str, row: Row) -> Change:
        """Fit it to a dataset."""
        del dataset
        if row.get(HEADERS) is None:
            return Change()
        after = without(self.headers)
        kept = (after if c.name == HEADERS else Output.kept(c) for c in row)
        return projected(tuple(kept), self.path)


def _build(path: str, values: Mapping[str, Any]) -> Transform:
    return DropHeaders(path, values["headers"])


KINDS: Final = (
    Kind[Transform](
        ("DropHeaders", f"{KAFKA}.DropHeaders"),
        (ConfigKey("headers", "list", required=True, doc="Names of headers to remove."),),
        _build,
    ),
)
